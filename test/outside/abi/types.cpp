// The types that the public C++ headers promise, in one shared object with debug information.
// abidiff compares them with the recorded ones. The object is never run.
#include <penstock/atomic.hpp>
#include <penstock/heap.hpp>
#include <penstock/penstock.hpp>
#include <penstock/reserve.hpp>
#include <penstock/rma.hpp>

using namespace penstock;

extern "C" void types(status, failure&, result<void>&, world&, endpoint&, token&,
                      endpoint_statistics&, remote_access, short_handler<int>, payload_handler<int>,
                      detail::raw_handler, remote_memory&, operation&, registered_heap&,
                      source_reuse, detail::window&, atomic_ops, atomic_path,
                      atomic_domain<std::uint64_t>&, atomic_domain<float>&, detail::atomic_call&,
                      reservation<int>&, time_limit&) {}
