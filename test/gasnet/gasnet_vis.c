/* See vis_names.h; as C99. */
#include <gasnet.h>

#include "vis_names.h"
