/* See cg_client.h; as C99. */
#include <gasnet.h>

#include "cg_client.h"
