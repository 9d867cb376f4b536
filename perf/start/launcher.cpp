#include "perf/start/launcher.hpp"

#include <malloc.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>

#include "lib/base/descriptors.hpp"
#include "lib/base/log.hpp"
#include "lib/job/wire.hpp"

namespace penstock::start {
namespace {

using job::frame_header;
using job::frame_kind;

bool whole(int fd, void* to, std::size_t n) noexcept {
  return n == 0 || ::recv(fd, to, n, MSG_WAITALL) == static_cast<ssize_t>(n);
}

// A blocking socket takes all, but for a signal.
bool send_whole(int fd, const std::byte* from, std::size_t n) noexcept {
  while (n > 0) {
    const auto sent = ::send(fd, from, n, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    from += sent, n -= static_cast<std::size_t>(sent);
  }
  return true;
}

std::uint64_t heap_in_use() noexcept {
  const auto m = ::mallinfo2();
  return m.uordblks + m.hblkhd;
}

}  // namespace

std::uint64_t thread_cpu_ns() noexcept {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

launcher::launcher(settings& s, std::uint32_t ranks, std::uint32_t of_host, contribution said)
    : ranks_(ranks), said_(std::move(said)) {
  int ends[2];
  if (!opened("socketpair", ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), ends))
    fatal(1, "no socket to play the launcher");
  here_ = ends[0];
  if (said_) {
    const int board = opened("memfd_create", ::memfd_create("board", MFD_CLOEXEC));
    const int bell = opened("eventfd", ::eventfd(0, EFD_CLOEXEC));
    if (board < 0 || bell < 0 ||
        ::ftruncate(board, static_cast<off_t>(job::board::bytes(ranks))) != 0)
      fatal(1, "no board to play the launcher");
    const std::uint32_t first = ranks / 2 - std::min(ranks, of_host) / 2;
    s.launch =
        job::launch_ticket{
            ends[1],           board, bell, ranks / 2, ranks, first, std::min(ranks, of_host),
            job::random_name()}
            .text();
    thread_ = std::thread([this] { play(); });
    return;
  }
  auto ticket = job::launch_ticket::parse(s.launch);
  if (!ticket) fatal(2, "a rank of a job is measured under penrun only");
  penrun_ = std::exchange(ticket->socket, ends[1]);
  s.launch = ticket->text();
  thread_ = std::thread([this] { pass_on(); });
}

launcher::~launcher() {
  thread_.join();
  ::close(here_);
  if (penrun_ >= 0) ::close(penrun_);
}

void launcher::play() noexcept {
  frame_header head{};
  std::vector<std::byte> own, answer;
  while (whole(here_, &head, sizeof head)) {
    own.resize(head.bytes);
    if (!whole(here_, own.data(), own.size())) return;
    sent_ += sizeof head + own.size();
    if (head.kind != frame_kind::exchange && head.kind != frame_kind::fence) continue;
    answer.resize(sizeof head);
    for (std::uint32_t r = 0; head.kind == frame_kind::exchange && r < ranks_; ++r)
      job::add_contribution(answer, r == ranks_ / 2 ? own : said_(r, own));
    head.bytes = static_cast<std::uint32_t>(answer.size() - sizeof head);
    std::memcpy(answer.data(), &head, sizeof head);
    received_ += answer.size();
    if (!send_whole(here_, answer.data(), answer.size())) return;
  }
}

void launcher::pass_on() noexcept {
  std::vector<std::byte> bytes(1 << 16);
  const auto move = [&](int from, int to, std::atomic<std::uint64_t>& count) {
    const auto n = ::recv(from, bytes.data(), bytes.size(), 0);
    if (n <= 0) return false;
    count += static_cast<std::uint64_t>(n);
    return send_whole(to, bytes.data(), static_cast<std::size_t>(n));
  };
  for (;;) {
    pollfd of[] = {{here_, POLLIN, 0}, {penrun_, POLLIN, 0}};
    if (::poll(of, 2, -1) < 0) continue;
    if (of[0].revents != 0 && !move(here_, penrun_, sent_)) return;
    if (of[1].revents != 0 && !move(penrun_, here_, received_)) return;
  }
}

watched_job::watched_job(std::unique_ptr<job> of) : of_(std::move(of)) {
  rank_ = of_->rank();
  size_ = of_->size();
  host_rank_ = of_->host_rank();
  host_ranks_ = of_->host_ranks();
  name_ = of_->name();
}

result<std::vector<std::vector<std::byte>>> watched_job::exchange(std::span<const std::byte> mine) {
  const std::uint64_t heap = heap_in_use(), before = thread_cpu_ns();
  auto all = of_->exchange(mine);
  cpu_ns += thread_cpu_ns() - before;
  ++exchanges;
  if (const std::uint64_t now = heap_in_use(); now > heap) held = std::max(held, now - heap);
  return all;
}

}  // namespace penstock::start
