// See extended_names.h; as C++.
#include <gasnet.h>

#include "extended_names.h"
