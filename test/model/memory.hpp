// C++'s memory model for the explorer (model.hpp): what a load may read, and what a thread knows
// after it. Each word in memory is a place with its messages in modification order. A message has
// the value, and the view that its writer published with it: the newest message of each place that
// an acquire load of it must know of. Each thread has three views: what it knows now, what it would
// know after an acquire fence, and what it knew at its last release fence.
//
//   load   any message not older than the thread's view of the place; acquire joins its view
//   store  behind the thread's view; release publishes the view
//   RMW    right behind the message that it reads, which no other RMW then follows; the message's
//          view stays in the new one (release sequences by C++20's rule)
//   seq_cst   one more view, of all such stores and fences. A membarrier is such a fence by every
//          thread where it stands.
//
// Not modelled: load buffering, where a load sees a store that depends on what it will read; and
// words of which parts are read. Plain data have vector clocks in the same views (race).
// What the messages lie in is the tested memory's own: its words hold the newest value of each.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

namespace penstock::model {

constexpr unsigned most_threads = 8;

/// What is chosen: how many there are to choose from; 0 is the newest. rare: not a common case.
using picker = std::function<unsigned(unsigned n, bool rare)>;

class memory {
 public:
  /// processes: of each thread; empty: all are in one.
  memory(unsigned threads, std::vector<int> processes, picker pick)
      : threads_(threads), processes_(std::move(processes)), pick_(std::move(pick)) {}

  std::uint64_t load(unsigned t, const void* at, unsigned bytes, std::memory_order o);
  void store(unsigned t, void* at, unsigned bytes, std::uint64_t v, std::memory_order o);
  /// change(old, new): false leaves the word as it is. Answers old.
  using changer = std::function<bool(std::uint64_t old, std::uint64_t& now)>;
  std::uint64_t change(unsigned t, void* at, unsigned bytes, const changer& f, std::memory_order ok,
                       std::memory_order fail);
  void fence(unsigned t, std::memory_order o);
  /// Every thread passes a full fence; everywhere: those of other processes, too.
  void fence_all(unsigned t, bool everywhere);
  /// Plain data are read or written: false if that races with another thread's access.
  bool plain(unsigned t, const void* at, bool writes);
  /// What lies there is another object from now on, or nothing.
  void forget(const void* at, std::size_t bytes);
  /// Of the last access: the value read or written, and how many newer messages there were.
  [[nodiscard]] std::uint64_t last_value() const { return last_value_; }
  [[nodiscard]] std::size_t last_behind() const { return last_behind_; }
  /// A word whose value has changed by no operation, or null.
  [[nodiscard]] const void* scribbled() const { return scribbled_; }

 private:
  using stamp = std::uint64_t;
  struct view {
    std::vector<stamp> seen;                          // of each place; 0 beyond the end
    std::array<std::uint32_t, most_threads> clock{};  // of each thread: up to where it is known
    [[nodiscard]] stamp of(std::size_t place) const {
      return place < seen.size() ? seen[place] : 0;
    }
    void see(std::size_t place, stamp s);
    void join_places(const view& o);
    void join(const view& o);
  };
  struct message {
    stamp at;
    std::uint64_t value;
    view released;
    bool followed = false;  // by the RMW that has read it
  };
  struct place {
    std::size_t number;
    std::vector<message> history;
  };
  struct plain_word {
    unsigned writer = 0;
    std::uint32_t written = 0;
    std::array<std::uint32_t, most_threads> read{};
  };
  struct thread {
    view now, pending, fenced;
  };

  place& at(const void* address, unsigned bytes);
  // The first message of p that t may read.
  [[nodiscard]] std::size_t first(unsigned t, const place& p, std::memory_order o) const;
  void read(unsigned t, const place& p, const message& m, std::memory_order o);
  void write(unsigned t, place& p, std::size_t behind, stamp at, std::uint64_t v,
             std::memory_order o, const view* carried);
  void full_fence(unsigned t);

  unsigned threads_;
  std::vector<int> processes_;
  picker pick_;
  std::array<thread, most_threads> state_;
  view sc_;
  std::unordered_map<const void*, place> places_;
  std::unordered_map<const void*, plain_word> plain_;
  std::size_t numbers_ = 0;
  std::uint64_t last_value_ = 0;
  std::size_t last_behind_ = 0;
  const void* scribbled_ = nullptr;
};

}  // namespace penstock::model
