// The engines of this process that have started, numbered: where the C interface of the counters
// (penstock/counters.h) finds them. An engine's own, from its start to its end.
#pragma once

#include <functional>

#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class engine;

/// Takes the lowest free number, and gives it back at its end, for which it waits while somebody
/// reads the engine.
class open_engine {
 public:
  explicit open_engine(const engine& e);
  ~open_engine();
  open_engine(const open_engine&) = delete;
  open_engine& operator=(const open_engine&) = delete;

  /// Calls f with the engine of that number, which stays meanwhile. False: there is none.
  static bool with(unsigned number, const std::function<void(const engine&)>& f);

 private:
  const engine* const engine_;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
