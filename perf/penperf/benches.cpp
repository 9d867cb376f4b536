// The table of benchmarks: a row for each, its functions in a file of its own.
#include "perf/penperf/bench.hpp"

namespace penstock::penperf {

namespace {
const char* am(const options& o) { return name_of(o.kind); }
const char* memory(const options& o) { return name_of(o.memory); }
const char* lookup(const options& o) { return name_of(o.lookup); }

constexpr bench_row rows[] = {
    {"am_lat", "round trip of a request and its reply", true, true, am, complete_am_lat,
     make_am_lat},
    {"am_rate", "requests one way, a second, whose handlers have run", false, true, am,
     complete_am_rate, make_am_flood},
    {"am_bw", "payload one way, a second", false, true, am, complete_am_bw, make_am_flood},
    {"gasnet_lat", "am_lat through gasnet.h; its twin is the C++ interface", true, true, am,
     complete_gasnet, make_gasnet_lat},
    {"barrier", "a barrier of gasnet.h between two processes", true, false, am, complete_gasnet,
     make_barrier},
    {"poll", "a poll of gasnet.h that finds nothing, of all the job's processes", true, false, am,
     complete_poll, make_poll},
    {"strided", "1,024 pieces by a strided put of gasnet.h; its twin: without one", true, false, am,
     complete_strided, make_strided},
    {"gasnet_put", "8 bytes stored by a blocking put of gasnet.h; its twin, bare stores", true,
     false, memory, complete_gasnet_rma, make_gasnet_rma},
    {"gasnet_get", "8 bytes loaded by a blocking get of gasnet.h", true, false, memory,
     complete_gasnet_rma, make_gasnet_rma},
    {"gasnet_put_nbi", "the same put, implicit, waited for every 64", true, false, memory,
     complete_gasnet_rma, make_gasnet_rma},
    {"gasnet_get_nbi", "the same get, implicit", true, false, memory, complete_gasnet_rma,
     make_gasnet_rma},
    {"gex_put", "the same by gasnetex.h", true, false, memory, complete_gasnet_rma,
     make_gasnet_rma},
    {"gex_get", "the same by gasnetex.h", true, false, memory, complete_gasnet_rma,
     make_gasnet_rma},
    {"gex_put_nbi", "the same by gasnetex.h", true, false, memory, complete_gasnet_rma,
     make_gasnet_rma},
    {"gex_get_nbi", "the same by gasnetex.h", true, false, memory, complete_gasnet_rma,
     make_gasnet_rma},
    {"gex_fadd", "fetch-adds of gasnetex.h with 64 in flight; their twin, the bare instruction",
     true, false, memory, complete_gasnet_rma, make_gasnet_rma},
    {"put_lat", "a blocking put", true, true, memory, complete_rma_lat, make_put_lat},
    {"get_lat", "a blocking get", true, true, memory, complete_rma_lat, make_get_lat},
    {"put_bw", "puts that are waited for together", false, true, memory, complete_rma_bw,
     make_put_bw},
    {"get_bw", "gets that are waited for together", false, true, memory, complete_rma_bw,
     make_get_bw},
    {"atomic_lat", "a blocking fetch-add of 8 bytes", true, true, memory, complete_atomic,
     make_atomic_lat},
    {"atomic_rate", "fetch-adds with up to 64 in flight", false, true, memory, complete_atomic,
     make_atomic_rate},
    {"reg", "a registration looked up, or made, beside a plain one", true, false, lookup,
     complete_reg, make_reg},
    {"credit_take_return", "a credit taken and given back", true, false, am,
     complete_credit_take_return, make_credit_take_return},
};
}  // namespace

std::span<const bench_row> benches_table() noexcept { return rows; }

const bench_row* find_bench(std::string_view name) noexcept {
  for (const bench_row& r : rows)
    if (name == r.name) return &r;
  return nullptr;
}

}  // namespace penstock::penperf
