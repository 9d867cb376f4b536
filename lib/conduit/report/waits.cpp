// Writes the lines about waits that last: of requests, which are counted by rank, and of all other
// waits of the library, which name themselves (peer/long_wait.hpp). While there is a wait, it
// asks once a second whether the ranks that are waited for have polled meanwhile. The reporter's
// thread runs it.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "lib/base/clock.hpp"
#include "lib/base/counters_socket.hpp"
#include "lib/base/log.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/one_sided/rma.hpp"
#include "lib/conduit/report/reporter.hpp"
#include "lib/conduit/report/text.hpp"
#include "lib/conduit/report/watching_socket.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;
constexpr std::uint64_t silence_ns = 5 * second_ns;
// Most ranks that are asked where any of them may be the one that is waited for.
constexpr std::size_t most_asked = 64;

double seconds(std::uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

std::string quiet_text(std::uint64_t ns) {
  if (ns < second_ns) return {};
  char text[64];
  std::snprintf(text, sizeof text, ", which has not polled for %.0f s", seconds(ns));
  return text;
}

// The record of the wait: the one of the last look, or a new one.
template <class Watched>
Watched& find(std::vector<Watched>& all, std::uint64_t which) {
  const auto at =
      std::find_if(all.begin(), all.end(), [which](const Watched& w) { return w.which == which; });
  return at != all.end() ? *at : all.emplace_back(Watched{.which = which});
}

}  // namespace

void reporter::look_at_waits() noexcept {
  const std::uint64_t limit = engine_.options().wait_warning_ns;
  next_look_ns_ = 0;
  if (limit == 0) return;
  const bool requests = look_at_requests(limit), others = look_at_others(limit);
  if (requests || others)
    next_look_ns_ = now_ns() + second_ns;
  else
    seen_.clear();
}

// True while a request waits. A line is written when a wait has lasted for the limit, and again
// each time it has lasted twice as long as at the last line.
bool reporter::look_at_requests(std::uint64_t limit) noexcept {
  const double ns_a_tick = ns_per_tick();
  for (std::uint32_t r = 0; r < engine_.size(); ++r) {
    const peer_counters p = engine_.counters_of(r, ns_a_tick);
    if (p.waiting_ns == 0) {
      std::erase_if(requests_, [r](const watched& w) { return w.which == r; });
      continue;
    }
    watched& w = find(requests_, r);
    if (p.waiting_ns < w.last_wait_ns) w.told_wait_ns = 0;  // it is another wait than before
    w.last_wait_ns = p.waiting_ns;
    const std::string quiet = quiet_text(quiet_for(r));
    if (p.waiting_ns < std::max(limit, 2 * w.told_wait_ns)) continue;
    w.told_wait_ns = p.waiting_ns;
    const std::string whose = p.waits_handler.empty() ? "" : "; handler " + p.waits_handler;
    log(log_level::warning, "rank %u has waited %.0f s for %s %s rank %u%s%s", engine_.rank(),
        seconds(p.waiting_ns), p.waits_for,
        std::strcmp(p.waits_for, "connection") == 0 ? "to" : "of", r, quiet.c_str(), whose.c_str());
  }
  return !requests_.empty();
}

bool reporter::look_at_others(std::uint64_t limit) noexcept {
  const std::vector<long_waits::entry> now = waits_.read();
  std::erase_if(others_, [&](const watched& w) {
    return std::none_of(now.begin(), now.end(),
                        [&](const auto& e) { return e.since_ns == w.which; });
  });
  for (const long_waits::entry& e : now) {
    const std::uint64_t lasted = now_ns() - e.since_ns;
    if (lasted < second_ns / 2) continue;
    watched& w = find(others_, e.since_ns);
    const bool one = e.peer < engine_.size();
    const std::string quiet = one ? quiet_text(quiet_for(e.peer)) : who_is_quiet();
    if (lasted < std::max(limit, 2 * w.told_wait_ns)) continue;
    w.told_wait_ns = lasted;
    const char* const told = row_of(e.what).told;
    if (one)
      log(log_level::warning, "rank %u has waited %.0f s %s, for rank %u%s", engine_.rank(),
          seconds(lasted), told, e.peer, quiet.c_str());
    else
      log(log_level::warning, "rank %u has waited %.0f s %s%s", engine_.rank(), seconds(lasted),
          told, quiet.c_str());
  }
  return !others_.empty();
}

// Names the ranks of this host that have not polled for a while, where any may be the one that is
// waited for.
std::string reporter::who_is_quiet() noexcept {
  std::string which;
  std::uint64_t least = 0;
  unsigned count = 0;
  const auto& here = engine_.membership().host_ranks();
  for (std::size_t i = 0; i < std::min(here.size(), most_asked); ++i) {
    const std::uint64_t ns = here[i] == engine_.rank() ? 0 : quiet_for(here[i]);
    if (ns < second_ns) continue;
    least = count++ == 0 ? ns : std::min(least, ns);
    which += (which.empty() ? "" : ", ") + std::to_string(here[i]);
  }
  if (count == 0) return {};
  char text[64];
  std::snprintf(text, sizeof text, " not polled for %.0f s", seconds(least));
  return (count == 1 ? "; rank " : "; ranks ") + which + (count == 1 ? " has" : " have") + text;
}

// For how long the rank has not polled, in ns, as far as this reporter has seen. 0: it has polled,
// or is on another host.
std::uint64_t reporter::quiet_for(std::uint32_t rank) noexcept {
  const auto& here = engine_.membership().host_ranks();
  if (!engine_.options().watch || !std::binary_search(here.begin(), here.end(), rank)) return 0;
  const std::string said =
      report::ask(report::socket_name(::geteuid(), report::public_name(engine_.membership().name()),
                                      rank, nth_),
                  ask_for_polls);
  polls_seen& s = seen_[rank];
  const std::uint64_t now = now_ns();
  const std::uint64_t polls = said.empty() ? s.polls : std::strtoull(said.c_str(), nullptr, 10);
  if (s.changed_ns == 0 || polls != s.polls) {
    s.polls = polls;
    s.changed_ns = now;
    return 0;
  }
  // A rank that is stopped does not answer; nor does one that a loaded host keeps waiting.
  const std::uint64_t quiet = now - s.changed_ns;
  return said.empty() && quiet < silence_ns ? 0 : quiet;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
