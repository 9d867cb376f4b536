// What the kernel itself says about watched memory: unmapped, discarded, moved. Catches what no
// interposed call sees: raw system calls, the dynamic linker, code that is linked statically.
//
// A userfaultfd with the range registered for write-protection events, of which none is ever asked
// for: so no access ever faults, and only the changes are reported. The thread that changes memory
// sleeps in the kernel until its event is read. The reading thread closes the gate before it reads
// and opens it after the changes are in the tables, so no lookup that follows the change can hit.
// Needs no privilege from Linux 5.11 on (user-mode only); private anonymous memory from 5.7, shared
// and huge from 5.19; file mappings only where the kernel offers it (6.7).
#pragma once

#include <cstdint>
#include <memory>
#include <thread>

#include "lib/base/result.hpp"

namespace penstock::firehose {

class kernel_events {
 public:
  /// The one of this process (memory can be watched through one descriptor only), made when there
  /// is none. Errors: the kernel does not permit or know it; the message says which.
  static result<std::shared_ptr<kernel_events>> get();
  ~kernel_events();
  kernel_events(const kernel_events&) = delete;
  kernel_events& operator=(const kernel_events&) = delete;

  /// Watches whole pages. False: this memory cannot be watched. A system call, no allocation; may
  /// be called under changes::lock().
  bool watch(std::uint64_t start, std::uint64_t bytes) noexcept;
  /// Stops watching. Memory that is gone meanwhile is no error.
  void unwatch(std::uint64_t start, std::uint64_t bytes) noexcept;

 private:
  kernel_events(int fd, int stop) : fd_(fd), stop_(stop) {}
  static result<std::shared_ptr<kernel_events>> create();
  void run() noexcept;

  int fd_;
  int stop_;
  std::thread reader_;
};

}  // namespace penstock::firehose
