// Requests that could not go at once (message/pending.hpp): one try of each, the waits of their
// senders, and those that were handed over. The engine's requests and polls use it. Any threads,
// but each inside no end and in no handler.
#pragma once

#include <atomic>
#include <cstdint>

#include "lib/conduit/message/pending.hpp"
#include "lib/conduit/ways/large_mediums.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class engine;
class reporter;

class pending_requests {
 public:
  pending_requests(engine& e, core& c, credit_flow& f, ways& w, large_mediums& l) noexcept
      : engine_(e), core_(c), credits_(f), ways_(w), large_(l) {}
  pending_requests(const pending_requests&) = delete;
  pending_requests& operator=(const pending_requests&) = delete;
  void tell(reporter* r) noexcept { reporter_ = r; }  ///< who hears of waits that last, or null

  /// What m costs in credits.
  [[nodiscard]] std::uint32_t cost_of(const peer& p, const outgoing& m) const noexcept;
  /// One try of m, which has been checked and is not large, by the path of its peer.
  status attempt(peer& p, const outgoing& m) noexcept;
  /// Whether m, which lacks `why`, may go in another way than as it is.
  [[nodiscard]] bool has_another_way(const peer& p, const outgoing& m, status why) const noexcept;
  /// One try of m after one that lacked `why`, or the only one of a large Medium (ok). Never waits.
  status try_once(peer& p, const outgoing& m, status why) noexcept;
  /// Sends m, which lacks `why` (ok: nothing has been tried), and waits for that.
  status wait(peer& p, const outgoing& m, status why) noexcept;
  /// Sends what was handed over, if a thread has asked the caller, who has left request_out.
  [[gnu::always_inline]] void hear(peer& p) noexcept {
    if (p.request_out.asked()) [[unlikely]]
      send_handed(p);
  }
  /// Called by polls while some requests are handed over: steps those that lacked something.
  void step_all() noexcept;

 private:
  [[nodiscard]] std::uint32_t left_to_offers(const peer& p, const outgoing& m) const noexcept;
  [[nodiscard]] bool packs(const peer& p, const outgoing& m) const noexcept;
  [[nodiscard]] bool may_go_beside(peer& p, const outgoing& m) const noexcept;
  [[nodiscard]] way_out choose(peer& p, pending& r) noexcept;
  status step(peer& p, pending& r) noexcept;
  status step_large(peer& p, pending& r) noexcept;
  status go_for_one_credit(peer& p, const pending& r) noexcept;
  void ask_for_credits(peer& p, pending& r) noexcept;
  void end(peer& p, pending& r) noexcept;
  [[nodiscard]] bool is_gone(const peer& p) const noexcept;
  bool hand_over(peer& p, const outgoing& m, unsigned found_held) noexcept;
  [[gnu::cold, gnu::noinline]] void send_handed(peer& p) noexcept;

  engine& engine_;
  core& core_;
  credit_flow& credits_;
  ways& ways_;
  large_mediums& large_;
  reporter* reporter_ = nullptr;
  std::atomic<std::uint32_t> looks_{0};
};

}  // namespace penstock::conduit::PENSTOCK_ABI
