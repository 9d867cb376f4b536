// See stencil_client.h; as C++.
#include <gasnet.h>

#include "stencil_client.h"
