/* See stencil_client.h; as C99. */
#include <gasnet.h>

#include "stencil_client.h"
