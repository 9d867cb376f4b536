#include "lib/conduit/report/reporter.hpp"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "lib/base/clock.hpp"
#include "lib/base/counters_socket.hpp"
#include "lib/base/log.hpp"
#include "lib/base/quiet_thread.hpp"
#include "lib/base/shortage.hpp"
#include "lib/conduit/engine.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;
// For which a reporter waits while somebody reads or is asked: more than a loaded host needs.
constexpr std::uint64_t patience_ns = 200'000'000;

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

// The program's own use of the signal comes first.
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

// ---- the socket ----

socklen_t address_of(const std::string& name, sockaddr_un& to) noexcept {
  to = {};
  to.sun_family = AF_UNIX;
  const std::size_t n = std::min(name.size(), sizeof to.sun_path - 1);
  std::memcpy(to.sun_path + 1, name.data(), n);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + n);
}

void limit_waits(int fd) noexcept {
  const timeval t{0, patience_ns / 1000};
  (void)::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
  (void)::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
}

bool same_user(int fd) noexcept {
  ucred peer{};
  socklen_t n = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
         (peer.uid == ::geteuid() || peer.uid == 0);
}

void send_all(int fd, const std::string& text) noexcept {
  const std::uint64_t until = now_ns() + patience_ns;
  for (std::size_t done = 0; done < text.size() && now_ns() < until;) {
    const ssize_t n = ::send(fd, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (n <= 0) return;
    done += static_cast<std::size_t>(n);
  }
}

// What the process at that socket answers to that word, at most a few bytes; empty: nothing.
std::string ask(const std::string& socket, const char* word) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return {};
  limit_waits(fd);
  sockaddr_un to;
  const socklen_t n = address_of(socket, to);
  char text[32] = {};
  if (::connect(fd, reinterpret_cast<sockaddr*>(&to), n) == 0 && same_user(fd)) {
    send_all(fd, word);
    if (::recv(fd, text, sizeof text - 1, MSG_WAITALL) < 0) text[0] = 0;
  }
  ::close(fd);
  return text;
}

// ---- files ----

std::string base_name(const char* of_link) {
  char path[512];
  const ssize_t n = ::readlink(of_link, path, sizeof path - 1);
  const std::string all(path, n > 0 ? static_cast<std::size_t>(n) : 0);
  return all.substr(all.rfind('/') + 1);
}

constexpr const char* prometheus_ending = ".prom";

// In one step, so that who reads the file meanwhile sees the one before, or this.
bool replace_file(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  std::FILE* f = std::fopen(fresh.c_str(), "we");
  if (f == nullptr) return false;
  const bool wrote = std::fwrite(text.data(), 1, text.size(), f) == text.size();
  const bool closed = std::fclose(f) == 0;
  return wrote && closed && std::rename(fresh.c_str(), path.c_str()) == 0;
}

}  // namespace

report::identity reporter::identify(const engine& e) {
  report::identity who;
  who.rank = e.rank(), who.ranks = e.size();
  who.pid = ::getpid();
  who.job = report::public_name(e.job_.name());
  who.program = base_name("/proc/self/exe");
  char host[256] = {};
  (void)::gethostname(host, sizeof host - 1);
  who.host = host;
  who.device = e.device().name;
  return who;
}

void reporter::write_counters(const engine& e) {
  const std::string& to = e.settings_.counters;
  if (to == "0") return;
  const report::identity who = identify(e);
  const endpoint_counters c = e.counters();
  if (to == "-" || to == "stderr" || to == "stdout") {
    std::fputs(report::json(who, c).c_str(), to == "stdout" ? stdout : stderr);
    return;
  }
  const std::string path =
      report::file_of(to, "penstock_counters", prometheus_ending, e.rank_, e.first_file_);
  if (!replace_file(path, path.ends_with(prometheus_ending) ? report::prometheus(who, c)
                                                            : report::json(who, c)))
    log(log_level::warning, "PENSTOCK_COUNTERS: cannot write %s: %s", path.c_str(),
        std::strerror(errno));
}

std::unique_ptr<reporter> reporter::start(const engine& e) {
  const settings& s = e.settings_;
  const bool files = s.counters != "0" || s.credit_stats != "0";
  if (!s.watch && s.wait_warning_ns == 0 && !files) return nullptr;
  std::unique_ptr<reporter> r(new reporter(e));
  r->nth_ = e.first_file_;
  if (auto opened = r->open(); !opened) {
    log(log_level::info, "counters are not shown: %s", opened.error().message().c_str());
    return nullptr;
  }
  if (files) hear_signal(r->bell_);
  return r;
}

result<void> reporter::open() {
  bell_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (bell_ < 0) return failure{"eventfd", errno, what_to_raise(errno)};
  if (engine_.settings_.watch) {
    socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_un at;
    const socklen_t n =
        address_of(report::socket_name(::geteuid(), report::public_name(engine_.job_.name()),
                                       engine_.rank_, nth_),
                   at);
    if (socket_ < 0 || ::bind(socket_, reinterpret_cast<sockaddr*>(&at), n) != 0 ||
        ::listen(socket_, 16) != 0)
      return failure{"a socket for pentop", errno, what_to_raise(errno)};
  }
  if (engine_.settings_.counters != "0" && engine_.settings_.counters_interval_ns != 0)
    next_file_ns_ = now_ns() + engine_.settings_.counters_interval_ns;
  if (const int refused = start_quiet_thread(thread_, [this] { run(); }))
    return failure{"the thread that shows counters", refused, what_to_raise(refused)};
  pthread_setname_np(thread_.native_handle(), "penstock-seen");
  return {};
}

reporter::~reporter() {
  if (bell_ >= 0) hear_no_signal(bell_);
  if (thread_.joinable()) {
    // relaxed: the bell, whose read follows it in the thread, orders it
    stopping_.store(true, std::memory_order_relaxed);
    ring();
    thread_.join();
  }
  for (const int fd : {bell_, socket_})
    if (fd >= 0) ::close(fd);
}

void reporter::ring() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(bell_, &one, sizeof one);
}

void reporter::run() noexcept {
  unsigned heard = signals.load(std::memory_order_relaxed);
  while (!stopping_.load(std::memory_order_relaxed)) {
    pollfd of[] = {{bell_, POLLIN, 0}, {socket_, POLLIN, 0}};
    const std::uint64_t now = now_ns();
    std::uint64_t due = next_look_ns_;
    if (next_file_ns_ != 0) due = due == 0 ? next_file_ns_ : std::min(due, next_file_ns_);
    const std::uint64_t ms = due <= now ? 0 : (due - now + 999'999) / 1'000'000;
    (void)::poll(of, std::size(of), due == 0 ? -1 : static_cast<int>(ms));
    std::uint64_t rung = 0;
    const bool bell = ::read(bell_, &rung, sizeof rung) > 0;
    if (stopping_.load(std::memory_order_relaxed)) return;
    if (of[1].revents != 0) answer();
    const unsigned signal = signals.load(std::memory_order_relaxed);
    const bool on_time = next_file_ns_ != 0 && now_ns() >= next_file_ns_;
    if (signal != heard || on_time) {
      heard = signal;
      write_files();
    }
    if (bell || (next_look_ns_ != 0 && now_ns() >= next_look_ns_)) look_at_waits();
  }
}

void reporter::write_files() noexcept {
  write_counters(engine_);
  engine_.write_files();
  if (next_file_ns_ != 0) next_file_ns_ = now_ns() + engine_.settings_.counters_interval_ns;
}

// One who asks; the next one rings again.
void reporter::answer() noexcept {
  const int fd = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return;
  limit_waits(fd);
  char word[16] = {};
  if (same_user(fd) && ::recv(fd, word, sizeof word - 1, 0) > 0) {
    if (word == std::string_view(ask_for_polls))
      send_all(fd, std::to_string(engine_.polls()));
    else if (word == std::string_view(ask_for_counters))
      send_all(fd, report::json(identify(engine_), engine_.counters()));
  }
  ::close(fd);
}

// ---- requests that wait ----

// Each second while one waits: has its target polled meanwhile, and is it time for a line?
void reporter::look_at_waits() noexcept {
  const std::uint64_t limit = engine_.settings_.wait_warning_ns;
  next_look_ns_ = 0;
  if (limit == 0) return;
  const double ns_a_tick = ns_per_tick();
  for (std::uint32_t r = 0; r < engine_.size_; ++r) {
    const peer_counters p = engine_.counters_of(r, ns_a_tick);
    const auto at = std::find_if(watched_.begin(), watched_.end(),
                                 [r](const watched& w) { return w.rank == r; });
    if (p.waiting_ns == 0) {
      if (at != watched_.end()) watched_.erase(at);
      continue;
    }
    next_look_ns_ = now_ns() + second_ns;
    watched& w = at != watched_.end() ? *at : watched_.emplace_back(watched{.rank = r});
    if (p.waiting_ns < w.last_wait_ns) w.told_wait_ns = 0;  // another wait than the last time
    w.last_wait_ns = p.waiting_ns;
    const std::uint64_t quiet = quiet_for(r);
    // Told again when it has lasted twice as long.
    if (p.waiting_ns < std::max(limit, 2 * w.told_wait_ns)) continue;
    w.told_wait_ns = p.waiting_ns;
    tell_of_wait(p, quiet);
  }
}

// How long the rank has not polled, as far as this reporter has seen; 0: it has, or is not here.
std::uint64_t reporter::quiet_for(std::uint32_t rank) noexcept {
  const auto& here = engine_.job_.host_ranks();
  if (!engine_.settings_.watch || !std::binary_search(here.begin(), here.end(), rank)) return 0;
  const std::string said =
      ask(report::socket_name(::geteuid(), report::public_name(engine_.job_.name()), rank, nth_),
          ask_for_polls);
  watched& w = *std::find_if(watched_.begin(), watched_.end(),
                             [rank](const watched& x) { return x.rank == rank; });
  const std::uint64_t polls = said.empty() ? w.polls : std::strtoull(said.c_str(), nullptr, 10);
  if (w.changed_ns == 0 || polls != w.polls) {
    w.polls = polls;
    w.changed_ns = now_ns();
    return 0;
  }
  return now_ns() - w.changed_ns;
}

void reporter::tell_of_wait(const peer_counters& p, std::uint64_t quiet_ns) const noexcept {
  const auto seconds = [](std::uint64_t ns) { return static_cast<double>(ns) * 1e-9; };
  const char* const what = p.waits_for;
  const char* const of = std::strcmp(what, "connection") == 0 ? "to" : "of";
  if (quiet_ns >= second_ns)
    log(log_level::warning,
        "rank %u has waited %.0f s for %s %s rank %u, which has not polled for %.0f s",
        engine_.rank_, seconds(p.waiting_ns), what, of, p.rank, seconds(quiet_ns));
  else
    log(log_level::warning, "rank %u has waited %.0f s for %s %s rank %u", engine_.rank_,
        seconds(p.waiting_ns), what, of, p.rank);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
