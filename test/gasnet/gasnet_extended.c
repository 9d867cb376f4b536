/* See extended_names.h; as C99. */
#include <gasnet.h>

#include "extended_names.h"
