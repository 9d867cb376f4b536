// The thread of an endpoint that reports its counters. It answers pentop at a socket; it writes
// files every PENSTOCK_COUNTERS_INTERVAL, on SIGUSR2 and at the end; and it writes a line to stderr
// when the library has waited for PENSTOCK_WAIT_WARNING, or when messages find no receive buffer
// without flow control. The engine owns it.
//
// Where COUNTERS_HTTP asks for it, it also answers HTTP requests (metrics_socket.hpp).
//
// It sleeps until it is asked. No poll does anything for it, and while it is not asked it costs
// nothing but its stack. It reads counters and writes none.
//
// The socket is an abstract one of this host: it needs no folder, and goes when its process ends,
// in whatever way. A client that is neither this user nor root is turned away. The line "counters"
// is answered by the text of report::json, and "polls" by a number; then the connection is closed.
// The thread does not wait long for a client that does not read.
//
// Waits: in poll(2), for its bell, the socket, those of COUNTERS_HTTP, or the next time that
// something is due; the end rings the bell.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/conduit/report/metrics_socket.hpp"
#include "lib/conduit/report/text.hpp"
#include "penstock/mode.hpp"

namespace penstock::nic {
class device;
}

namespace penstock::conduit::PENSTOCK_ABI {

class engine;
class long_waits;

class reporter {
 public:
  /// Starts the thread. Null: the settings need none, or the kernel refuses something, which is
  /// logged; the program runs without it. metrics: the socket of COUNTERS_HTTP that the thread
  /// serves, or null.
  static std::unique_ptr<reporter> start(engine& e,
                                         std::unique_ptr<report::metrics_socket> metrics);
  /// The socket of COUNTERS_HTTP for e, before start(); null: none is asked for. A port is that of
  /// a process's first endpoint alone.
  static result<std::unique_ptr<report::metrics_socket>> open_metrics(const engine& e);
  /// Ends the thread and waits for it.
  ~reporter();
  reporter(const reporter&) = delete;
  reporter& operator=(const reporter&) = delete;

  /// Tells the thread that a request has waited for about a second. Any thread; costs a system
  /// call.
  void somebody_waits() noexcept { ring(); }
  /// Writes the line about messages without a receive buffer since the last look, or ends the
  /// process (OVERFLOW_FATAL), if there were any. For a process that leaves. Any thread.
  void tell_overflow() noexcept;
  /// Names the process and the endpoint of e's counters.
  [[nodiscard]] static report::identity identify(const engine& e);
  /// Messages of this process, or of an adapter's port, that have found no receive buffer.
  [[nodiscard]] static std::uint64_t receiver_not_ready(const nic::device& d);
  /// Writes the file of PENSTOCK_COUNTERS, if the setting names one. One thread at a time may call
  /// it.
  static void write_counters(const engine& e);

 private:
  explicit reporter(engine& e);
  void ring() noexcept;
  result<void> open();
  void run() noexcept;
  void answer() noexcept;
  void write_files() noexcept;
  // overflow.cpp
  [[nodiscard]] bool watches_overflow() const noexcept;
  // waits.cpp
  void look_at_waits() noexcept;
  bool look_at_requests(std::uint64_t limit) noexcept;
  bool look_at_others(std::uint64_t limit) noexcept;
  [[nodiscard]] std::uint64_t quiet_for(std::uint32_t rank) noexcept;
  [[nodiscard]] std::string who_is_quiet() noexcept;

  /// A wait at the last look: of requests to rank `which`, or of the thread that waits since time
  /// `which`.
  struct watched {
    std::uint64_t which = 0;
    std::uint64_t told_wait_ns = 0;  ///< how long it had lasted when a line was written
    std::uint64_t last_wait_ns = 0;  ///< how long it had lasted at the last look
  };
  /// A rank's number of polls, and when an answer last showed a larger one; 0: it has never
  /// answered.
  struct polls_seen {
    std::uint64_t polls = 0, changed_ns = 0;
  };

  static constexpr std::uint64_t overflow_pause_ns = 1'000'000'000;

  const engine& engine_;
  long_waits& waits_;
  unsigned nth_ = 0;  ///< this endpoint's number in its process
  int bell_ = -1, socket_ = -1;
  std::uint64_t next_file_ns_ = 0, next_look_ns_ = 0;  ///< 0: nothing is due
  std::uint64_t next_overflow_ns_ = 0;                 ///< the same
  std::atomic<std::uint64_t> overflows_{0};  ///< messages without a receive buffer, told of
  std::vector<watched> requests_, others_;
  std::map<std::uint32_t, polls_seen> seen_;
  std::unique_ptr<report::metrics_socket> metrics_;  // the thread's own, where it is not null
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
