/* See coll_names.h; as C99. */
#include <gasnet.h>

#include "coll_names.h"
