// See coll_names.h; as C++.
#include <gasnet.h>

#include "coll_names.h"
