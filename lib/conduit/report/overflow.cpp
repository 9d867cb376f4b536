// The line about messages that find no receive buffer, which happens without flow control alone:
// the catch basin of seed 001. A device tries such a message again, for ever by default, so the
// program would only see that it is slow. The reporter's thread looks once a second, and the
// process once more when it leaves.
#include <cinttypes>

#include "lib/base/log.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/report/reporter.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

// An adapter counts for all processes of its port, of which one says what it has read.
bool reporter::watches_overflow() const noexcept {
  const auto host = engine_.fixed().neighbours();
  const bool mine = !engine_.device().pins || host.empty() || host.front() == engine_.rank();
  return !engine_.options().flow_control && engine_.posts() && mine;
}

void reporter::tell_overflow() noexcept {
  if (!watches_overflow()) return;
  const std::uint64_t now = receiver_not_ready(engine_.device());
  // relaxed: the numbers protect nothing; each message is told of by one thread
  std::uint64_t before = overflows_.load(std::memory_order_relaxed);
  do {
    if (now <= before) return;
  } while (!overflows_.compare_exchange_weak(before, now, std::memory_order_relaxed,
                                             std::memory_order_relaxed));
  const char* const whose = !engine_.device().pins ? "this rank" : "this host";
  const std::uint64_t n = now - before;
  if (engine_.options().overflow_fatal)
    fatal(1,
          "receive buffers overflow: %" PRIu64
          " messages to or from %s have found none (PENSTOCK_FLOW_CONTROL=no, "
          "PENSTOCK_OVERFLOW_FATAL=yes)",
          n, whose);
  log(log_level::warning,
      "receive buffers overflow: %" PRIu64
      " messages to or from %s have found none in the last second, and are sent again; set "
      "PENSTOCK_FLOW_CONTROL=yes, or a larger PENSTOCK_AMRECV_SPACE",
      n, whose);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
