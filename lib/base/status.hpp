// The public header, under the name that the folders below lib/include use.
#pragma once
#include "penstock/status.hpp"
