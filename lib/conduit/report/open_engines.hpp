// The numbered list of this process's engines that have started, for the C interface of the
// counters (penstock/counters.h). Each engine holds an entry from its start to its end.
#pragma once

#include <atomic>
#include <functional>

#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class engine;

/// An entry of the list. It takes the lowest free number, and gives it back when it is destroyed,
/// after waiting for threads that read an engine (RCU). Either may be done by any thread that is
/// not inside with(). Cost: a few microseconds where no thread reads.
class open_engine {
 public:
  explicit open_engine(const engine& e) noexcept;
  ~open_engine();
  open_engine(const open_engine&) = delete;
  open_engine& operator=(const open_engine&) = delete;

  /// Calls f with the engine of that number, which does not end meanwhile. False: there is none.
  /// Any thread, several at once: it waits for none that opens or ends an engine, nor for other
  /// readers.
  static bool with(unsigned number, const std::function<void(const engine&)>& f);

 private:
  const engine* const engine_;
  unsigned number_ = 0;
  std::atomic<open_engine*> next_{nullptr};  // of a higher number
};

}  // namespace penstock::conduit::PENSTOCK_ABI
