// Two sides of a test that are written apart and meet only through a link: run as two processes
// (the second forked before anything is opened) or as two threads with a context each.
#pragma once

#include <functional>
#include <string>

#include "test/conformance/rig.hpp"

namespace penstock::conformance {

/// A stream between the two sides for what verbs programs exchange out of band. Waits at most
/// patience_ns, then throws.
class link {
 public:
  explicit link(int fd) noexcept : fd_(fd) {}
  void put(const void* data, std::size_t bytes);
  void get(void* data, std::size_t bytes);
  template <class T>
  T swap(const T& mine) {
    put(&mine, sizeof mine);
    T theirs;
    get(&theirs, sizeof theirs);
    return theirs;
  }
  /// Both sides wait for each other.
  void meet() { (void)swap(char{1}); }

 private:
  int fd_;
};

using role = std::function<void(link&)>;

/// Runs `first` here and `second` in a forked process; throws what either failed of. Call it with
/// no device open.
void as_processes(const role& first, const role& second);
/// Runs `second` in a thread.
void as_threads(const role& first, const role& second);
/// Runs `first` here while a forked process runs `second`; kill ends it with SIGKILL at once.
void with_victim(const std::function<void(link&, const std::function<void()>& kill)>& first,
                 const role& second);

/// A side made and connected to its counterpart on the other end of the link.
side joined(link& l, const link_shape& shape = {}, const qp_shape& qp = {},
            std::size_t bytes = 64 << 10);

/// Where a region is for the other side.
struct target {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
};

}  // namespace penstock::conformance
