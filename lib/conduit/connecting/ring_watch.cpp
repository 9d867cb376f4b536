// How the connector's thread finds rings that a peer has written over: once a second it compares
// what stands in the rings with what this process alone has written there.
//
//   what it looks at                                       what must be so
//   counters of the rings that this process receives from  as written; a wrong one is put right,
//                                                          once for each peer
//   the slot where it receives next                        empty, or the message expected
//   slots that it has filled and the peer has not taken    as written
//   counters of the rings that it sends to                 refresh() refuses an impossible value;
//                                                          only its refusals are counted here
//
// All four looks are loads of few lines, and enter no owner: ring.hpp says why each is exact though
// the owners go on meanwhile. A value that cannot be ends the job with a line that names the peer,
// as a malformed message does. A peer that has left, or is gone, has taken its rings with it, and
// is not looked at.
#include <poll.h>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "lib/base/owner.hpp"
#include "lib/conduit/connecting/connections.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr std::uint64_t looks_apart_ns = 1'000'000'000;
constexpr int moment_ms = 100;
// Looks in a row that found new refusals: by then the peer has had time to put its counter right.
constexpr std::uint8_t looks_refused = 4;

// Where threads cannot be fenced, a slot's state may be on its way when it is looked at first.
bool written_over(peer& p) noexcept {
  const auto bad = [&p] { return !p.request_tx.seen()->intact() || !p.reply_tx.seen()->intact(); };
  return bad() && (fence_all_threads() || (::poll(nullptr, 0, moment_ms), bad()));
}

}  // namespace

// Looks at all rings if a second has passed. Returns when the next look is due, in ns; 0: never.
std::uint64_t connector::watch_rings(connecting in) noexcept {
  if (hushed()) return 0;
  const std::uint64_t now = now_ns();
  if (now < look_ns_) return look_ns_;
  look_ns_ = now + looks_apart_ns;
  bool any = false;
  for (std::uint32_t i = 0; i < core_.domain_count(); ++i) {
    const peer_order& rings = core_.domains()[i].rings;
    for (std::uint32_t k = 0, count = rings.count(); k < count; ++k) {
      peer& p = rings[k];
      any = true;
      // A peer that left while its hello was read has some of the four ends only.
      const bool whole = p.request_rx.seen() != nullptr && p.reply_rx.seen() != nullptr &&
                         p.request_tx.seen() != nullptr && p.reply_tx.seen() != nullptr;
      if (whole && !core_.has_left(p.rank)) watch_rings_of(in, p);
    }
  }
  return any ? look_ns_ : 0;
}

void connector::watch_rings_of(connecting in, peer& p) noexcept {
  bool mends = p.request_rx.seen()->miscounted() || p.reply_rx.seen()->miscounted();
  if (mends) {  // or a thread of this process is just about to write the counter: wait for it
    ::poll(nullptr, 0, moment_ms);
    mends = p.request_rx.seen()->mend();
    mends = p.reply_rx.seen()->mend() || mends;
  }
  if (mends && !p.side[in].mended)
    log(log_level::warning, "counters of the rings from rank %u were written over; put right",
        p.rank);
  const std::uint32_t refused = p.request_tx.seen()->refusals() + p.reply_tx.seen()->refusals();
  p.side[in].refused_looks = refused != p.side[in].refused_before
                                 ? static_cast<std::uint8_t>(p.side[in].refused_looks + 1)
                                 : std::uint8_t{0};
  p.side[in].refused_before = refused;
  const bool bad = (mends && p.side[in].mended) || p.side[in].refused_looks >= looks_refused ||
                   !p.request_rx.seen()->credible() || !p.reply_rx.seen()->credible() ||
                   written_over(p);
  p.side[in].mended = p.side[in].mended || mends;
  if (bad && !hushed() && !core_.has_left(p.rank)) core_.peer_failed(p, core::malformed);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
