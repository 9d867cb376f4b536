// strided: a strided put of gasnet.h, 1,024 pieces of --size bytes (64) that lie twice as far apart
// on both sides, until it is complete. Its twin is what a client would do without that call, the
// faster of two: one put for each piece, all in flight; or packing by hand, one put, and a message
// that makes the target unpack.
#include <gasnet_vis.h>

#include <cstring>
#include <vector>

#include "perf/penperf/bench.hpp"
#include "perf/penperf/rig.hpp"
#include "perf/penperf/sampled.hpp"

namespace penstock::penperf {

namespace {

enum : gasnet_handler_t { on_unpack = 200, on_unpacked, on_finish };
constexpr gasnet_node_t target = 1;
constexpr std::size_t pieces = 1024;
constexpr std::uint64_t in_a_round = 2000;

void must_gasnet(int rc, const char* what) {
  if (rc != GASNET_OK) fatal(1, "%s: %s", what, gasnet_ErrorDesc(rc));
}

// The segment: the destination of pieces, and of packed ones before they are unpacked.
std::byte *here = nullptr, *there = nullptr;
std::size_t piece = 64;
bool unpacked = false, finished = false;

std::size_t spread_bytes() { return pieces * piece * 2; }

void unpack(gasnet_token_t token) {
  for (std::size_t i = 0; i < pieces; ++i)
    std::memcpy(here + i * piece * 2, here + spread_bytes() + i * piece, piece);
  must_gasnet(gasnet_AMReplyShort0(token, on_unpacked), "strided's reply");
}
void note_unpacked(gasnet_token_t) { unpacked = true; }
void note_finished(gasnet_token_t) { finished = true; }

class strided final : public bench {
 public:
  explicit strided(const options& o)
      : samples_(o.iters != 0 ? o.iters : in_a_round), source_(pieces * o.size * 2) {
    piece = o.size;
    std::memset(source_.data(), 1, source_.size());
  }

  void add_handlers(endpoint&) override {}
  void start(world& w, rig& r) override {
    if (!r.opts().device.empty()) ::setenv("PENSTOCK_DEVICE", r.opts().device.c_str(), 1);
    gasnet_handlerentry_t table[] = {
        {on_unpack, reinterpret_cast<void (*)()>(&unpack)},
        {on_unpacked, reinterpret_cast<void (*)()>(&note_unpacked)},
        {on_finish, reinterpret_cast<void (*)()>(&note_finished)},
    };
    must_gasnet(gasnet_init(nullptr, nullptr), "gasnet_init");
    const std::size_t bytes = spread_bytes() + pieces * piece;
    must_gasnet(gasnet_attach(table, 3,
                              (bytes + GASNET_PAGESIZE - 1) / GASNET_PAGESIZE * GASNET_PAGESIZE, 0),
                "gasnet_attach");
    std::vector<gasnet_seginfo_t> info(w.size());
    must_gasnet(gasnet_getSegmentInfo(info.data(), static_cast<int>(w.size())), "segments");
    here = static_cast<std::byte*>(info[w.rank()].addr);
    there = static_cast<std::byte*>(info[target].addr);
    packed_.resize(pieces * piece);
    r.at_target([](std::uint64_t) {
      while (!finished) must_gasnet(gasnet_AMPoll(), "a poll");
      finished = false;
    });
  }

  figures ours(rig& r) override {
    return beside_target(r, [&] {
      return sampled(samples_, 1, [&] {
        const std::size_t stride[] = {piece * 2}, count[] = {piece, pieces};
        gasnet_puts_bulk(target, there, stride, source_.data(), stride, count, 1);
      });
    });
  }

  figures raw(rig& r) override {
    return beside_target(r, [&] {
      const figures a = sampled(samples_, 1, [&] {
        for (std::size_t i = 0; i < pieces; ++i)
          gasnet_put_nbi_bulk(target, there + i * piece * 2, source_.data() + i * piece * 2, piece);
        gasnet_wait_syncnbi_puts();
      });
      const figures b = sampled(samples_, 1, [&] {
        for (std::size_t i = 0; i < pieces; ++i)
          std::memcpy(packed_.data() + i * piece, source_.data() + i * piece * 2, piece);
        gasnet_put_bulk(target, there + spread_bytes(), packed_.data(), packed_.size());
        unpacked = false;
        must_gasnet(gasnet_AMRequestShort0(target, on_unpack), "strided's request");
        GASNET_BLOCKUNTIL(unpacked);
      });
      return a.ns.p50 < b.ns.p50 ? a : b;
    });
  }

 private:
  template <class F>
  figures beside_target(rig& r, F&& f) {
    r.call_target(0);
    const figures found = f();
    must_gasnet(gasnet_AMRequestShort0(target, on_finish), "the last request");
    return found;
  }

  std::vector<std::uint64_t> samples_;
  std::vector<std::byte> source_, packed_;
};

}  // namespace

std::string complete_strided(options& o) {
  if (o.size == 0) o.size = 64;
  return o.threads > 1 ? "it is measured with one thread" : "";
}

std::unique_ptr<bench> make_strided(const options& o) { return std::make_unique<strided>(o); }

}  // namespace penstock::penperf
