#include "lib/conduit/report/reporter.hpp"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "lib/base/clock.hpp"
#include "lib/base/counters_socket.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/base/log.hpp"
#include "lib/base/no_memory.hpp"
#include "lib/base/quiet_thread.hpp"
#include "lib/base/shortage.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/report/watching_socket.hpp"
#include "nic/shm/own_threads.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

// ---- SIGUSR2 ----

constexpr unsigned most_bells = 16;  // endpoints of a process beyond these hear no signal
std::atomic<int> bells[most_bells];  // descriptor + 1; 0: none
std::atomic<unsigned> signals{0};

void on_signal(int) noexcept {
  const int saved = errno;
  signals.fetch_add(1, std::memory_order_relaxed);
  for (const auto& b : bells)
    // relaxed: a bell is put here before the handler is installed, or its endpoint hears the next
    if (const int fd = b.load(std::memory_order_relaxed) - 1; fd >= 0) {
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto n = ::write(fd, &one, sizeof one);
    }
  errno = saved;
}

// Installs the handler of SIGUSR2, unless the program has one of its own.
void hear_signal(int bell) noexcept {
  for (auto& b : bells) {
    int none = 0;
    if (b.compare_exchange_strong(none, bell + 1, std::memory_order_relaxed)) break;
  }
  struct sigaction before {};
  if (::sigaction(SIGUSR2, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) return;
  struct sigaction act {};
  act.sa_handler = on_signal;
  act.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR2, &act, nullptr);
}

void hear_no_signal(int bell) noexcept {
  for (auto& b : bells) {
    int mine = bell + 1;
    if (b.compare_exchange_strong(mine, 0, std::memory_order_relaxed)) return;
  }
}

// ---- files ----

std::string base_name(const char* of_link) {
  char path[512];
  const ssize_t n = ::readlink(of_link, path, sizeof path - 1);
  const std::string all(path, n > 0 ? static_cast<std::size_t>(n) : 0);
  return all.substr(all.rfind('/') + 1);
}

using report::prometheus_ending;

}  // namespace

report::identity reporter::identify(const engine& e) {
  report::identity who;
  who.rank = e.rank(), who.ranks = e.size();
  who.pid = ::getpid();
  who.job = report::public_name(e.membership().name());
  who.program = base_name("/proc/self/exe");
  char host[256] = {};
  (void)::gethostname(host, sizeof host - 1);
  who.host = host;
  who.device = e.device().name;
  return who;
}

reporter::reporter(engine& e) : engine_(e), waits_(e.waits()) {}

void reporter::write_counters(const engine& e) {
  const std::string& to = e.options().counters;
  if (to == "0") return;
  const report::identity who = identify(e);
  const endpoint_counters c = e.counters();
  if (to == "-" || to == "stderr" || to == "stdout") {
    std::fputs(report::json(who, c).c_str(), to == "stdout" ? stdout : stderr);
    return;
  }
  const std::string path = report::counters_file(e.options(), e.rank(), e.fixed().first_file());
  if (!replace_file(path, path.ends_with(prometheus_ending) ? report::prometheus(who, c)
                                                            : report::json(who, c)))
    log(log_level::warning, "PENSTOCK_COUNTERS: cannot write %s: %s", path.c_str(),
        std::strerror(errno));
}

result<std::unique_ptr<report::metrics_socket>> reporter::open_metrics(const engine& e) {
  std::string where = e.options().counters_http;
  const bool port = where.find_first_not_of("0123456789") == where.npos;
  if (where == "0" || (port && e.fixed().first_file() != 0))
    return report::metrics_socket::open("0", 0);
  if (!port) where = report::file_of(where, "", "", e.rank(), e.fixed().first_file());
  const auto& here = e.membership().host_ranks();
  const auto me = std::lower_bound(here.begin(), here.end(), e.rank());
  return report::metrics_socket::open(where, static_cast<std::uint32_t>(me - here.begin()));
}

std::unique_ptr<reporter> reporter::start(engine& e,
                                          std::unique_ptr<report::metrics_socket> metrics) {
  const settings& s = e.options();
  const bool files = s.counters != "0" || s.credit_stats != "0";
  std::unique_ptr<reporter> r(new reporter(e));
  r->metrics_ = std::move(metrics);
  if (!s.watch && s.wait_warning_ns == 0 && !files && !r->watches_overflow() && !r->metrics_)
    return nullptr;
  r->nth_ = e.fixed().first_file();
  if (auto opened = r->open(); !opened) {
    log(log_level::info, "counters are not shown: %s", opened.error().message().c_str());
    return nullptr;
  }
  if (files) hear_signal(r->bell_);
  return r;
}

result<void> reporter::open() {
  bell_ = kept(opened("eventfd", ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  if (bell_ < 0) return failure{"eventfd", errno, what_to_raise(errno)};
  if (engine_.options().watch) {
    socket_ =
        kept(opened("socket", ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
    sockaddr_un at;
    const socklen_t n = report::address_of(
        report::socket_name(::geteuid(), report::public_name(engine_.membership().name()),
                            engine_.rank(), nth_),
        at);
    if (socket_ < 0 || ::bind(socket_, reinterpret_cast<sockaddr*>(&at), n) != 0 ||
        ::listen(socket_, 16) != 0)
      return failure{"a socket for pentop", errno, what_to_raise(errno)};
  }
  if (engine_.options().counters != "0" && engine_.options().counters_interval_ns != 0)
    next_file_ns_ = now_ns() + engine_.options().counters_interval_ns;
  if (watches_overflow()) {
    overflows_.store(receiver_not_ready(engine_.device()), std::memory_order_relaxed);
    next_overflow_ns_ = now_ns() + overflow_pause_ns;
  }
  waits_.ring_at(bell_);
  nic::shm::count_own_thread(1);
  if (const int refused = start_quiet_thread(thread_, "penstock-seen", [this] { run(); })) {
    nic::shm::count_own_thread(-1);
    return failure{"the thread that shows counters", refused, what_to_raise(refused)};
  }
  return {};
}

reporter::~reporter() {
  waits_.ring_at(-1);
  if (bell_ >= 0) hear_no_signal(bell_);
  if (thread_.joinable()) {
    // relaxed: the bell orders it, since the thread reads the bell first
    stopping_.store(true, std::memory_order_relaxed);
    ring();
    thread_.join();
    nic::shm::count_own_thread(-1);
    tell_overflow();
  }
  for (int* fd : {&bell_, &socket_}) close_kept(*fd);
}

void reporter::ring() noexcept { ring_bell(bell_); }

void reporter::run() noexcept {
  const doing reporting{"showing counters"};
  unsigned heard = signals.load(std::memory_order_relaxed);
  while (!stopping_.load(std::memory_order_relaxed)) {
    std::array<pollfd, 2 + report::metrics_socket::descriptors> of;
    of.fill({-1, 0, 0});
    of[0] = {bell_, POLLIN, 0}, of[1] = {socket_, POLLIN, 0};
    const auto clients = std::span(of).last<report::metrics_socket::descriptors>();
    if (metrics_) metrics_->list(clients);
    const std::uint64_t now = now_ns();
    std::uint64_t due = 0;
    for (const std::uint64_t next : {next_look_ns_, next_file_ns_, next_overflow_ns_,
                                     metrics_ ? metrics_->due() : std::uint64_t{0}})
      if (next != 0) due = due == 0 ? next : std::min(due, next);
    const std::uint64_t ms = due <= now ? 0 : (due - now + 999'999) / 1'000'000;
    (void)::poll(of.data(), metrics_ ? of.size() : 2, due == 0 ? -1 : static_cast<int>(ms));
    refuse_closed(of);
    // Memory that the process gives to a segment is replaced while this thread sleeps.
    const nic::shm::working_time working = nic::shm::begin_work();
    const bool bell = hush_bell(bell_);
    if (stopping_.load(std::memory_order_relaxed)) return;
    if (of[1].revents != 0) answer();
    if (metrics_)
      metrics_->serve(clients,
                      [&] { return report::prometheus(identify(engine_), engine_.counters()); });
    const unsigned signal = signals.load(std::memory_order_relaxed);
    const bool on_time = next_file_ns_ != 0 && now_ns() >= next_file_ns_;
    if (signal != heard || on_time) {
      heard = signal;
      write_files();
    }
    if (bell || (next_look_ns_ != 0 && now_ns() >= next_look_ns_)) look_at_waits();
    if (next_overflow_ns_ != 0 && now_ns() >= next_overflow_ns_) {
      next_overflow_ns_ = now_ns() + overflow_pause_ns;
      tell_overflow();
    }
  }
}

void reporter::write_files() noexcept {
  write_counters(engine_);
  engine_.write_credit_files();
  if (next_file_ns_ != 0) next_file_ns_ = now_ns() + engine_.options().counters_interval_ns;
}

// Answers one process that has connected; further ones make poll(2) return again.
void reporter::answer() noexcept {
  const int fd = above_stdio(::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC));
  if (fd < 0) return;
  report::limit_waits(fd);
  char word[16] = {};
  if (report::same_user(fd) && ::recv(fd, word, sizeof word - 1, 0) > 0) {
    if (word == std::string_view(ask_for_polls))
      report::send_all(fd, std::to_string(engine_.polls()));
    else if (word == std::string_view(ask_for_counters))
      report::send_all(fd, report::json(identify(engine_), engine_.counters()));
  }
  ::close(fd);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
