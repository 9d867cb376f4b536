/* See am_names.h; as C99. */
#include <gasnet.h>

#include "am_names.h"
