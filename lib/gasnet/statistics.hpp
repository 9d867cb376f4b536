// GASNET_STATSFILE: what a process of gasnet.h has done, counted and written at its end for people.
// While it is asked for, puts and gets of memory that is mapped here come to the library, too
// (watched()); without it nothing is counted and nothing costs. Messages and the device's
// operations are the engine's counters.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {

class statistics {
 public:
  enum what : unsigned { puts, gets, memsets, kinds };

  /// Of this process, or null: GASNET_STATSFILE is not set, or GASNET_STATSNODES leaves it out.
  static statistics* mine() noexcept { return mine_; }
  /// Decides that; after gasnet_init has read the settings.
  static void begin();
  /// Any thread.
  void transfer(what w, std::size_t bytes) noexcept;
  void barrier(std::uint64_t waited_ns) noexcept;
  /// Writes the file. At the end, by one thread.
  void write() const;

 private:
  struct sizes {
    std::atomic<std::uint64_t> count{0}, bytes{0}, least{~std::uint64_t{0}}, most{0};
    void add(std::uint64_t n) noexcept;
  };
  static statistics* mine_;
  std::array<sizes, kinds> transfers_;
  sizes barriers_;  // of nanoseconds
};

/// True where puts and gets of mapped memory are to be seen: clients' windows stay closed.
inline bool watched() noexcept {
  return statistics::mine() != nullptr || self.engine->drawn() != nullptr;
}

/// A put, a get or a memset was asked for.
inline void note_transfer(statistics::what w, std::size_t bytes) noexcept {
  if (statistics* const s = statistics::mine(); s != nullptr) [[unlikely]]
    s->transfer(w, bytes);
}

}  // namespace penstock::gasnet::PENSTOCK_ABI
