// Requests that their senders have handed over: another thread held the sending end to the peer and
// did not leave it, since the system had descheduled it, say, or a debugger had stopped it. The
// sender goes on, and the thread that leaves the end sends the requests (../pending.hpp). They
// are copied, and their number is limited: a sender that finds no place waits for the end.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "lib/base/hand_over.hpp"
#include "lib/conduit/message/pending.hpp"
#include "penstock/penstock.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// A request that was handed over, with its words; its payload lies behind it. args has room for an
/// even number of words.
struct handed_message {
  handed_message* next = nullptr;
  pending request;
  std::uint32_t args[max_args];
};

/// The requests to one peer that were handed over. Any thread adds and takes.
class handed_over {
 public:
  handed_over() = default;
  handed_over(const handed_over&) = delete;
  handed_over& operator=(const handed_over&) = delete;
  ~handed_over() {
    for (handed_message* h = pending_.take_all(); h != nullptr;)
      free_one(std::exchange(h, h->next));
  }

  /// Keeps a copy of m. count: the number of requests that are kept, to all peers. False: this peer
  /// has as many as are left of 256, there is no memory, or m has more than 1 MiB.
  [[nodiscard]] bool accept(const outgoing& m, std::atomic<std::uint32_t>& count) noexcept {
    // A large Medium's payload is in a buffer already.
    const std::size_t bytes = m.kind == wire::kind::short_ || m.async || m.is_large() ? 0 : m.bytes;
    // relaxed: it is a bound, and a hint to slow_progress(); H1 carries the message
    if (bytes <= most_bytes &&
        count.fetch_add(1, std::memory_order_relaxed) + kept_.load(std::memory_order_relaxed) <
            most) {
      if (void* const at = ::operator new(sizeof(handed_message) + bytes, std::nothrow)) {
        auto* const h = new (at) handed_message{.request = {.m = m}, .args = {}};
        outgoing& kept = h->request.m;
        if (m.nargs != 0) std::memcpy(h->args, m.args, m.nargs * sizeof(std::uint32_t));
        kept.args = h->args;
        kept.written = nullptr;
        kept.last_way = true;
        // Who sends it waits for no put.
        if (kept.by == payload_way::best) kept.by = payload_way::beside_header;
        h->request.has_buffer = m.is_large();
        if (bytes != 0) {
          std::memcpy(h + 1, m.payload, bytes);
          kept.payload = h + 1;
        }
        kept_.fetch_add(1, std::memory_order_relaxed);
        pending_.push(*h);
        return true;
      }
    } else if (bytes > most_bytes) {
      return false;
    }
    count.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }

  [[nodiscard]] bool any() const noexcept { return pending_.any(); }

  /// Calls send(pending&) for each request, and keeps those for which it answers false.
  template <class Send>
  void send_all(std::atomic<std::uint32_t>& count, Send&& send) noexcept {
    for (handed_message* h = pending_.take_all(); h != nullptr;) {
      handed_message* const next = h->next;
      if (send(h->request)) {
        free_one(h);
        kept_.fetch_sub(1, std::memory_order_relaxed);
        count.fetch_sub(1, std::memory_order_relaxed);
      } else {
        pending_.push(*h);
      }
      h = next;
    }
  }

 private:
  static constexpr std::uint32_t most = 256;
  static constexpr std::size_t most_bytes = std::size_t{1} << 20;
  static void free_one(handed_message* h) noexcept { ::operator delete(h); }

  hand_over<handed_message> pending_;
  std::atomic<std::uint32_t> kept_{0};  // to this peer
};

}  // namespace penstock::conduit::PENSTOCK_ABI
