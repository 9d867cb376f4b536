// The umbrella header of credit/: the only one that other folders include.
#pragma once

#include "credit/config.hpp"
#include "credit/cost.hpp"
#include "credit/ledger.hpp"
#include "credit/snapshot.hpp"
