// What the connector's thread does about rings that a peer may have written over: on the direct
// path, once a second, it looks at what each process alone writes and knows better.
//
//   counters of the rings that this process receives from    it knows what it told, and puts a
//   wrong
//                                                            one right, once a peer
//   the slot where it receives next                          empty, or the message expected
//   slots that it has sent and that have not been taken      as it wrote them
//   counters of the rings that it sends to                   refresh() refuses what cannot be; here
//                                                            only whether it went on doing so
//
// All four are loads, of few lines, without any owner's part: ring.hpp says why each is exact
// though the owners go on meanwhile. What cannot be ends the job with a line that names the peer,
// as a malformed message does. Whoever has left, or is gone, has taken its rings with it.
#include <poll.h>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "lib/conduit/channel/channels.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr std::uint64_t looks_apart_ns = 1'000'000'000;
constexpr int moment_ms = 100;
// Looks in a row between which a ring was refused: the peer has had time to put its counter right.
constexpr std::uint8_t looks_refused = 4;

}  // namespace

// When the next look is due; 0: never.
std::uint64_t connector::watch_rings() noexcept {
  if (hushed()) return 0;
  const std::uint64_t now = now_ns();
  if (now < look_ns_) return look_ns_;
  look_ns_ = now + looks_apart_ns;
  bool any = false;
  for (peer& p : all_.peers_) {
    if (p.path != way::rings) continue;
    any = true;
    if (p.attached && !all_.has_left(p.rank)) watch_rings_of(p);
  }
  return any ? look_ns_ : 0;
}

void connector::watch_rings_of(peer& p) noexcept {
  bool mends = p.request_rx->miscounted() || p.reply_rx->miscounted();
  if (mends) {  // unless its thread was just about to write the counter
    ::poll(nullptr, 0, moment_ms);
    mends = p.request_rx->mend();
    mends = p.reply_rx->mend() || mends;
  }
  if (mends && !p.mended)
    log(log_level::warning, "counters of the rings from rank %u were written over; put right",
        p.rank);
  const std::uint32_t refused = p.request_tx->refusals() + p.reply_tx->refusals();
  p.refused_looks = refused != p.refused_before ? static_cast<std::uint8_t>(p.refused_looks + 1)
                                                : std::uint8_t{0};
  p.refused_before = refused;
  const bool bad = (mends && p.mended) || p.refused_looks >= looks_refused ||
                   !p.request_rx->credible() || !p.reply_rx->credible() ||
                   !p.request_tx->intact() || !p.reply_tx->intact();
  p.mended = p.mended || mends;
  if (bad && !hushed() && !all_.has_left(p.rank)) all_.peer_failed(p, core::malformed);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
