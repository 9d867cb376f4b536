// See cg_client.h; as C++.
#include <gasnet.h>

#include "cg_client.h"
