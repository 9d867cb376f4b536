/* See barrier_names.h; as C99. */
#include <gasnet.h>

#include "barrier_names.h"
