// The thread of an endpoint that tells others what the endpoint has counted: pentop, which asks at
// a socket; files, written every PENSTOCK_COUNTERS_INTERVAL, on SIGUSR2 and at the end; and people,
// by a line on stderr when the library has waited for PENSTOCK_WAIT_WARNING. The engine's.
//
// It sleeps until it is asked: nobody's poll does anything for it, and while nobody watches it
// costs nothing but its stack. It reads counters, and writes none.
//
// The socket is an abstract one of this host: it needs no folder, and goes with its process however
// that ends. Whoever is neither this user nor root is turned away. A line "counters" is answered by
// the text of report::json, "polls" by a number; then it is closed. Who does not read is not waited
// for.
//
// Waits: in poll(2), for its bell, the socket, or the next thing due; the end rings the bell.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/conduit/report/text.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class engine;
class long_waits;

class reporter {
 public:
  /// Starts the thread, if the settings want anything of it; null otherwise, or when the kernel
  /// refuses what it needs, which is logged: a program runs without it as well.
  static std::unique_ptr<reporter> start(engine& e);
  /// Ends the thread and waits for it.
  ~reporter();
  reporter(const reporter&) = delete;
  reporter& operator=(const reporter&) = delete;

  /// A request has waited for about a second. Any thread; a system call.
  void somebody_waits() noexcept { ring(); }
  /// Which process and endpoint e's counters are of.
  [[nodiscard]] static report::identity identify(const engine& e);
  /// Writes the file of PENSTOCK_COUNTERS, if it names any. By one thread at a time.
  static void write_counters(const engine& e);

 private:
  explicit reporter(engine& e);
  void ring() noexcept;
  result<void> open();
  void run() noexcept;
  void answer() noexcept;
  void write_files() noexcept;
  // waits.cpp
  void look_at_waits() noexcept;
  bool look_at_requests(std::uint64_t limit) noexcept;
  bool look_at_others(std::uint64_t limit) noexcept;
  [[nodiscard]] std::uint64_t quiet_for(std::uint32_t rank) noexcept;
  [[nodiscard]] std::string who_is_quiet() noexcept;

  /// A wait, as it was seen before: of requests to a rank, or of a thread since that time.
  struct watched {
    std::uint64_t which = 0;
    std::uint64_t told_wait_ns = 0;  ///< how long it had lasted when a line was written
    std::uint64_t last_wait_ns = 0;  ///< and when it was last looked at
  };
  /// When a rank's number of polls last grew, as far as it was asked; 0: it has never answered.
  struct polls_seen {
    std::uint64_t polls = 0, changed_ns = 0;
  };

  const engine& engine_;
  long_waits& waits_;
  unsigned nth_ = 0;  ///< of this process's endpoints
  int bell_ = -1, socket_ = -1;
  std::uint64_t next_file_ns_ = 0, next_look_ns_ = 0;  ///< 0: nothing is due
  std::vector<watched> requests_, others_;
  std::map<std::uint32_t, polls_seen> seen_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
