// The kernel's own reports about watched memory: unmapped, discarded, moved. They catch what no
// interposed call sees: raw system calls, the dynamic linker, code that is linked statically.
//
// A userfaultfd with the range registered for write-protection events, of which none is ever asked
// for: so no access ever faults, and only the changes are reported. The thread that changes memory
// sleeps in the kernel until its event is read. The reading thread closes the gate before it reads
// and opens it after the changes are in the tables, so no lookup that follows the change can hit.
// It needs no privilege from Linux 5.11 on (user-mode only). Private anonymous memory can be
// watched from 5.7, shared and huge memory from 5.19, file mappings only where the kernel offers it
// (6.7).
#pragma once

#include <cstdint>
#include <memory>
#include <thread>

#include "lib/base/result.hpp"

namespace penstock::firehose {

class kernel_events {
 public:
  /// The instance of this process, made at the first call; memory can be watched through one
  /// descriptor only. Errors: the kernel does not permit it or does not know it; the message says
  /// which.
  static result<std::shared_ptr<kernel_events>> get();
  ~kernel_events();
  kernel_events(const kernel_events&) = delete;
  kernel_events& operator=(const kernel_events&) = delete;

  /// Watches whole pages. False: this memory cannot be watched. A system call, no allocation; may
  /// be called under changes::lock().
  bool watch(std::uint64_t start, std::uint64_t bytes) noexcept;
  /// Stops watching. It is no error if the memory is gone.
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
