// All paths of an engine: the only file outside the paths' own folders that names their classes.
// A peer's way decides which path its messages take; calls are dispatched statically. To add a way,
// add it to peer/way.hpp and here: the compiler then asks for the rest.
#pragma once

#include <cstdint>

#include "lib/conduit/ring_path/ring_path_inl.hpp"
#include "lib/conduit/verbs_path/verbs_path.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class ways {
 public:
  ways(core& c, credit_flow& f, connections& l) noexcept : rings_(c, f, l), verbs_(c, f, l) {}

  /// True if messages of a process to itself travel by a path. If not, the engine runs their
  /// handlers at once.
  static constexpr bool to_oneself = false;

  /// Says whether there are peers of that way. Before the paths are opened.
  void use(way w, bool yes) noexcept { (yes ? used_ |= bit(w) : used_ &= ~bit(w)); }
  [[nodiscard]] bool uses(way w) const noexcept { return (used_ & bit(w)) != 0; }
  [[nodiscard]] bool uses_only(way w) const noexcept { return used_ == bit(w); }
  /// True if some peers' lanes have rings, or some peers' messages are posted (way_facts).
  [[nodiscard]] bool some_have_rings() const noexcept {
    return (used_ & those([](way_facts f) { return f.has_rings; })) != 0;
  }
  [[nodiscard]] bool some_post() const noexcept {
    return (used_ & those([](way_facts f) { return f.posts_messages; })) != 0;
  }

  /// Calls f with the path of w, or of p, and returns what f does.
  template <class F>
  [[gnu::always_inline]] decltype(auto) at(way w, F&& f) {
    return pick(*this, w, f);
  }
  template <class F>
  [[gnu::always_inline]] decltype(auto) of(const peer& p, F&& f) {
    return pick(*this, p.path, f);
  }
  template <class F>
  [[gnu::always_inline]] decltype(auto) of(const peer& p, F&& f) const {
    return pick(*this, p.path, f);
  }
  /// Calls f with each path; or with each that has peers.
  template <class F>
  [[gnu::always_inline]] void all(F&& f) {
    for (unsigned w = 0; w < way_count; ++w) at(way(w), f);
  }
  template <class F>
  [[gnu::always_inline]] void each(F&& f) {
    for (unsigned w = 0; w < way_count; ++w)
      if (uses(way(w))) at(way(w), f);
  }

  /// Sends a user's Short or Medium, if its peer is by rings and all that it needs is at hand;
  /// calls no function. The quickest path is asked without a look at the peer's way: a peer of
  /// another one has no stream. True: it was sent.
  [[gnu::always_inline]] static bool request_at_once(const handler_table& handlers, peer& p,
                                                     std::uint32_t tag,
                                                     const outgoing& m) noexcept {
    return ring_path::push_quick<true>(handlers, p, tag, m);
  }
  /// The same for an answer to t. True: it was sent. A token of another path has no lane.
  [[gnu::always_inline]] static bool reply_at_once(const handler_table& handlers, token_state& t,
                                                   const outgoing& m) noexcept {
    return ring_path::reply_at_once(handlers, t, m);
  }
  /// One poll where all peers are by rings: calls nothing where no message has come, and rest() if
  /// quiet() is false.
  template <class Quiet, class Rest>
  [[gnu::always_inline]] status poll_at_once(unsigned* n, domain& d, std::uint32_t tag,
                                             Quiet&& quiet, Rest&& rest) noexcept {
    return rings_.poll_at_once(n, d, tag, quiet, rest);
  }

 private:
  template <class F>
  [[gnu::always_inline]] static decltype(auto) pick(auto& self, way w, F& f) {
    switch (w) {
      case way::rings:
        return f(self.rings_);
      case way::verbs:
        return f(self.verbs_);
    }
    __builtin_unreachable();
  }
  static constexpr std::uint8_t bit(way w) noexcept {
    return static_cast<std::uint8_t>(1u << static_cast<unsigned>(w));
  }
  // The bits of the ways of which that is so.
  template <class F>
  static constexpr std::uint8_t those(F is) noexcept {
    std::uint8_t bits = 0;
    for (unsigned w = 0; w < way_count; ++w)
      if (is(facts_of(way(w)))) bits |= bit(way(w));
    return bits;
  }

  ring_path rings_;
  verbs_path verbs_;
  std::uint8_t used_ = 0;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
