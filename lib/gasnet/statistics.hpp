// GASNET_STATSFILE: counts what a process of gasnet.h has done, and writes it to a file at the end.
// While the file is asked for, puts and gets of mapped memory come to the library, too (watched());
// without it nothing is counted, at no cost. The counts of messages and of the device's operations
// are the engine's.
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

  /// This process's object; null: GASNET_STATSFILE is not set, or GASNET_STATSNODES leaves the rank
  /// out.
  static statistics* mine() noexcept { return mine_; }
  /// Makes the object if the settings ask for it; after gasnet_init has read them.
  static result<void> begin();
  /// Any thread.
  void transfer(what w, std::size_t bytes) noexcept;
  void barrier(std::uint64_t waited_ns) noexcept;
  /// Writes the file. One thread calls it, at the end.
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

/// True if puts and gets of mapped memory are to be counted, traced or checked: the clients' code
/// then finds no mapping, and calls.
inline bool watched() noexcept {
  return statistics::mine() != nullptr || self.engine->drawn() != nullptr || self.options.checks;
}

/// Counts a put, a get or a memset.
inline void note_transfer(statistics::what w, std::size_t bytes) noexcept {
  if (statistics* const s = statistics::mine(); s != nullptr) [[unlikely]]
    s->transfer(w, bytes);
}

}  // namespace penstock::gasnet::PENSTOCK_ABI
