// See vis_names.h; as C++.
#include <gasnet.h>

#include "vis_names.h"
