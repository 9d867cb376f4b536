// See barrier_names.h; as C++.
#include <gasnet.h>

#include "barrier_names.h"
