// The table of benchmarks: one row for each, whose functions are in a file of its own.
#include "perf/penperf/bench.hpp"

namespace penstock::penperf {

namespace {
const char* am(const options& o) { return name_of(o.kind); }
const char* memory(const options& o) { return name_of(o.memory); }
const char* lookup(const options& o) { return name_of(o.lookup); }

constexpr bench_row rows[] = {
    {"am_lat", "round trip of a request and its reply", true, true, am, complete_am_lat,
     make_am_lat},
    {"am_rate", "requests in one direction a second, counted when their handlers have run", false,
     true, am, complete_am_rate, make_am_flood},
    {"am_bw", "requests with payload in one direction, in bytes a second", false, true, am,
     complete_am_bw, make_am_flood},
    {"rpc_lat", "a call by penstock/rpc.hpp; the twin is a Medium that is answered by one", true,
     true, am, complete_rpc_lat, make_rpc_lat},
    {"gasnet_lat", "am_lat through gasnet.h; the twin is the C++ interface", true, true, am,
     complete_gasnet_lat, make_gasnet_lat},
    {"gex_lat", "gasnet_lat by gasnetex.h; --payload reserved: by Prepare and Commit", true, true,
     am, complete_gasnet_lat, make_gasnet_lat},
    {"gasnet_rate", "am_rate through gasnet.h; the twin is the C++ interface", false, true, am,
     complete_gasnet_rate, make_gasnet_rate},
    {"gex_rate", "gasnet_rate by gasnetex.h; --payload reserved: by Prepare and Commit", false,
     true, am, complete_gasnet_rate, make_gasnet_rate},
    {"barrier", "a barrier of gasnet.h between two processes", true, false, am, complete_gasnet,
     make_barrier},
    {"poll", "a poll of gasnet.h that finds nothing, with all processes of the job connected", true,
     false, am, complete_poll, make_poll},
    {"strided", "a strided put of 1,024 pieces by gasnet.h; the twin puts or packs piece by piece",
     true, false, am, complete_strided, make_strided},
    {"gasnet_put",
     "a blocking put of 8 bytes by gasnet.h to mapped memory; the twin is a bare store", true,
     false, memory, complete_gasnet_rma, make_gasnet_rma},
    {"gasnet_get", "a blocking get of 8 bytes by gasnet.h; the twin is a bare load", true, false,
     memory, complete_gasnet_rma, make_gasnet_rma},
    {"gasnet_put_nbi", "implicit puts of 8 bytes by gasnet.h, waited for after every 64", true,
     false, memory, complete_gasnet_rma, make_gasnet_rma},
    {"gasnet_get_nbi", "implicit gets of 8 bytes by gasnet.h, waited for after every 64", true,
     false, memory, complete_gasnet_rma, make_gasnet_rma},
    {"gex_put", "gasnet_put by gasnetex.h", true, false, memory, complete_gasnet_rma,
     make_gasnet_rma},
    {"gex_get", "gasnet_get by gasnetex.h", true, false, memory, complete_gasnet_rma,
     make_gasnet_rma},
    {"gex_put_nbi", "gasnet_put_nbi by gasnetex.h", true, false, memory, complete_gasnet_rma,
     make_gasnet_rma},
    {"gex_get_nbi", "gasnet_get_nbi by gasnetex.h", true, false, memory, complete_gasnet_rma,
     make_gasnet_rma},
    {"gex_fadd", "fetch-adds of gasnetex.h, 64 in flight; the twin is the bare instruction", true,
     false, memory, complete_gasnet_rma, make_gasnet_rma},
    {"put_lat", "a blocking put", true, true, memory, complete_rma_lat, make_put_lat},
    {"get_lat", "a blocking get", true, true, memory, complete_rma_lat, make_get_lat},
    {"put_bw", "puts that are waited for together, in bytes a second", false, true, memory,
     complete_rma_bw, make_put_bw},
    {"get_bw", "gets that are waited for together, in bytes a second", false, true, memory,
     complete_rma_bw, make_get_bw},
    {"atomic_lat", "a blocking fetch-add of 8 bytes", true, true, memory, complete_atomic,
     make_atomic_lat},
    {"atomic_rate", "fetch-adds of 8 bytes a second, up to 64 in flight", false, true, memory,
     complete_atomic, make_atomic_rate},
    {"reg", "a registration looked up in the cache, or made; the twin is a plain registration",
     true, false, lookup, complete_reg, make_reg},
    {"credit_take_return", "a credit taken and given back; the twin is a bare counter", true, false,
     am, complete_credit_take_return, make_credit_take_return},
};
}  // namespace

std::span<const bench_row> benches_table() noexcept { return rows; }

const bench_row* find_bench(std::string_view name) noexcept {
  for (const bench_row& r : rows)
    if (name == r.name) return &r;
  return nullptr;
}

}  // namespace penstock::penperf
