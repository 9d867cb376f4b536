// See am_names.h; as C++.
#include <gasnet.h>

#include "am_names.h"
