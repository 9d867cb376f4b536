// gasnet_put, gasnet_get, gasnet_put_nbi, gasnet_get_nbi, the same by gex_, and gex_fadd, a
// fetch-add with 64 in flight: 8 bytes each, to memory of the other process that is mapped here.
// The twin is a bare loop of stores, loads or fetch-adds to the same words. Implicit operations are
// waited for every 64.
#include <gasnet.h>
#include <gasnet_ratomic.h>

#include <algorithm>
#include <vector>

#include "perf/penperf/bench.hpp"
#include "perf/penperf/rig.hpp"
#include "perf/penperf/sampled.hpp"

namespace penstock::penperf {

namespace {

constexpr std::size_t words = 512, in_flight = 64, batch = 4096;
using word = std::uint64_t;

gex_TM_t world_team = GEX_TM_INVALID;
gex_AD_t domain = GEX_AD_INVALID;
gasnet_node_t target = 1;
word *there = nullptr,
     *here = nullptr;  // the target's words: in its address space, and in this one
word local[words];
word sum = 0;

// Each of these carries out a batch. All values that the loops read are local variables, as in a
// client's loop.
template <class Op>
void repeat(Op&& op) {
  for (std::size_t i = 0; i < batch; ++i) op(i % words, i);
}

void bare_put() {
  volatile word* const to = here;
  repeat([=](std::size_t at, std::size_t i) { to[at] = i; });
}
void bare_get() {
  const volatile word* const from = here;
  word all = 0;
  repeat([&](std::size_t at, std::size_t) { all += from[at]; });
  sum += all;
}
void bare_copy() {
  const volatile word* const from = here;
  volatile word* const to = local;
  repeat([=](std::size_t at, std::size_t) { to[at] = from[at]; });
}
void bare_fadd() {
  word* const to = here;
  repeat([=](std::size_t at, std::size_t) {
    local[at % in_flight] = __atomic_fetch_add(to, 1, __ATOMIC_RELAXED);
  });
}

void put() {
  const gasnet_node_t node = target;
  word* const to = there;
  repeat([=](std::size_t at, std::size_t i) {
    const word value = i;
    gasnet_put(node, to + at, &value, sizeof value);
  });
}
void get() {
  const gasnet_node_t node = target;
  const word* const from = there;
  word all = 0;
  repeat([&](std::size_t at, std::size_t) {
    word value;
    gasnet_get(&value, node, from + at, sizeof value);
    all += value;
  });
  sum += all;
}
void put_nbi() {
  const gasnet_node_t node = target;
  word* const to = there;
  repeat([=](std::size_t at, std::size_t i) {
    const word value = i;
    gasnet_put_nbi(node, to + at, &value, sizeof value);
    if (i % in_flight == in_flight - 1) gasnet_wait_syncnbi_puts();
  });
}
void get_nbi() {
  const gasnet_node_t node = target;
  const word* const from = there;
  repeat([=](std::size_t at, std::size_t i) {
    gasnet_get_nbi(local + at, node, from + at, sizeof(word));
    if (i % in_flight == in_flight - 1) gasnet_wait_syncnbi_gets();
  });
}

void ex_put() {
  const gex_TM_t tm = world_team;
  const gex_Rank_t rank = target;
  word* const to = there;
  repeat([=](std::size_t at, std::size_t i) {
    const word value = i;
    (void)gex_RMA_PutBlocking(tm, rank, to + at, &value, sizeof value, 0);
  });
}
void ex_get() {
  const gex_TM_t tm = world_team;
  const gex_Rank_t rank = target;
  word* const from = there;
  word all = 0;
  repeat([&](std::size_t at, std::size_t) {
    word value;
    (void)gex_RMA_GetBlocking(tm, &value, rank, from + at, sizeof value, 0);
    all += value;
  });
  sum += all;
}
void ex_put_nbi() {
  const gex_TM_t tm = world_team;
  const gex_Rank_t rank = target;
  word* const to = there;
  repeat([=](std::size_t at, std::size_t i) {
    const word value = i;
    (void)gex_RMA_PutNBI(tm, rank, to + at, &value, sizeof value, GEX_EVENT_NOW, 0);
    if (i % in_flight == in_flight - 1) gex_NBI_Wait(GEX_EC_PUT, 0);
  });
}
void ex_get_nbi() {
  const gex_TM_t tm = world_team;
  const gex_Rank_t rank = target;
  word* const from = there;
  repeat([=](std::size_t at, std::size_t i) {
    (void)gex_RMA_GetNBI(tm, local + at, rank, from + at, sizeof(word), 0);
    if (i % in_flight == in_flight - 1) gex_NBI_Wait(GEX_EC_GET, 0);
  });
}
void ex_fadd() {
  const gex_AD_t ad = domain;
  const gex_Rank_t rank = target;
  word* const to = there;
  static gex_Event_t events[in_flight];
  repeat([=](std::size_t at, std::size_t) {
    gex_Event_t& oldest = events[at % in_flight];
    gex_Event_Wait(oldest);
    oldest = gex_AD_OpNB_U64(ad, &local[at % in_flight], rank, to, GEX_OP_FADD, 1, 0, 0);
  });
  gex_Event_WaitAll(events, in_flight, 0);
}

struct pairing {
  const char* name;
  void (*ours)();
  void (*bare)();
};
constexpr pairing pairings[] = {
    {"gasnet_put", put, bare_put},         {"gasnet_get", get, bare_get},
    {"gasnet_put_nbi", put_nbi, bare_put}, {"gasnet_get_nbi", get_nbi, bare_copy},
    {"gex_put", ex_put, bare_put},         {"gex_get", ex_get, bare_get},
    {"gex_put_nbi", ex_put_nbi, bare_put}, {"gex_get_nbi", ex_get_nbi, bare_copy},
    {"gex_fadd", ex_fadd, bare_fadd},
};

class gasnet_rma final : public bench {
 public:
  explicit gasnet_rma(const options& o)
      : samples_(std::max<std::uint64_t>((o.iters != 0 ? o.iters : 40'000'000) / batch, 1)) {
    for (const pairing& p : pairings)
      if (o.bench == p.name) what_ = p;
  }

  void add_handlers(endpoint&) override {}
  void start(world& w, rig& r) override {
    if (!r.opts().device.empty()) ::setenv("PENSTOCK_DEVICE", r.opts().device.c_str(), 1);
    if (gasnet_init(nullptr, nullptr) != GASNET_OK ||
        gasnet_attach(nullptr, 0, GASNET_PAGESIZE, 0) != GASNET_OK)
      fatal(1, "penperf: no gasnet.h");
    gasnet_QueryGexObjects(nullptr, nullptr, &world_team, nullptr);
    gex_AD_Create(&domain, world_team, GEX_DT_U64, GEX_OP_FADD, 0);
    if (w.rank() != requester_rank) return;
    void *owners = nullptr, *mine = nullptr;
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(world_team, target, &owners, &mine, nullptr, 0));
    there = static_cast<word*>(owners);
    here = static_cast<word*>(mine);
  }

  figures ours(rig&) override { return sampled(samples_, batch, what_.ours); }
  figures raw(rig&) override {
    return here == nullptr ? figures{} : sampled(samples_, batch, what_.bare);
  }

 private:
  pairing what_ = pairings[0];
  std::vector<std::uint64_t> samples_;
};

}  // namespace

std::string complete_gasnet_rma(options& o) {
  if (o.kind_given) return "puts, gets and atomics are no messages";
  if (o.size != 0 && o.size != sizeof(word)) return "it is measured with 8 bytes";
  o.size = sizeof(word);
  return o.threads > 1 ? "it is measured with one thread" : "";
}

std::unique_ptr<bench> make_gasnet_rma(const options& o) { return std::make_unique<gasnet_rma>(o); }

}  // namespace penstock::penperf
