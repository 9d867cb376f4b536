// What makes a library one for a private ABI number; compiled for each number. CMakeLists.txt
// defines the number and the name that libibverbs gave to its registering function.
#include <algorithm>
#include <iterator>

#include "nic/provider/layouts.hpp"
#include "nic/provider/operations.hpp"

extern "C" void PENSTOCK_REGISTER_DRIVER(const penstock::nic::provider::abi::device_operations*);

namespace penstock::nic::provider {

static_assert(std::any_of(std::begin(abi::layouts), std::end(abi::layouts),
                          [](const auto& l) { return l.number == PENSTOCK_PRIVATE_ABI; }));
const int private_number = PENSTOCK_PRIVATE_ABI;

namespace {
[[gnu::constructor]] void enter() { PENSTOCK_REGISTER_DRIVER(&driver); }
}  // namespace

}  // namespace penstock::nic::provider
