// A process that sees how this one ends, for launchers that say nothing of a process that ends
// inside its job by _exit(2), in which nothing of ours runs. pmi_client.cpp uses it.
#pragma once

namespace penstock::job {

/// Set-up only, but for dismiss(), which any thread may call, and which the destructor calls.
class witness {
 public:
  using ended = void (*)(void* context, int code) noexcept;
  witness() = default;
  ~witness() { dismiss(); }
  witness(const witness&) = delete;
  witness& operator=(const witness&) = delete;
  /// Starts it, as no child of this process. If this process then ends with a code and without
  /// dismiss(), call(context, code) runs in the witness; code is -1 if the launcher has asked for
  /// it first. It does not run after a death by a signal, of which launchers tell, nor after an
  /// exec. Of this process's descriptors it keeps standard output and error, whose end would have
  /// the launcher ask, and `kept`, which must be above 2. Its memory is this process's as it is
  /// now, page by page as this one writes: where that is above 64 MB, or the system refuses a
  /// process, there is none.
  void watch(int kept, ended call, void* context) noexcept;
  void dismiss() noexcept;

 private:
  int line_ = -1;  // one end of a socket, whose other end the witness has
};

}  // namespace penstock::job
