// A process that tools/penrun has started. Frames go over a socket that it has inherited; the
// announcement that the job is over is a word in a page that penrun shares read-only, so that
// asking costs one load.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "lib/base/clock.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/base/shortage.hpp"
#include "lib/job/launchers.hpp"
#include "lib/job/stream.hpp"
#include "lib/job/wire.hpp"

namespace penstock::job {
namespace {

class penrun_job final : public job {
 public:
  explicit penrun_job(const launch_ticket& t) : socket_(t.socket) {
    rank_ = t.rank;
    size_ = t.size;
    host_rank_ = t.rank - t.host_first;
    host_ranks_.resize(t.host_size);
    std::iota(host_ranks_.begin(), host_ranks_.end(), t.host_first);
    name_ = t.name;
    ended_fd_ = t.bell;
  }

  ~penrun_job() override {
    close_kept(socket_);
    close_kept(ended_fd_);
    if (page_ != nullptr) ::munmap(page_, board::bytes(size_));
  }

  result<void> open(const launch_ticket& t) {
    // Programs that this one starts do not belong to the job, and must not inherit its descriptors.
    for (const int fd : {t.socket, t.board, t.bell})
      if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return failure{"penrun's descriptor " + std::to_string(fd) + " cannot be used", errno,
                       errno == EBADF ? "a process can join its job once, its children not at all, "
                                        "and what starts it leaves penrun's descriptors open"
                                      : (asked("fcntl", -1), what_to_raise(errno))};
    ::unsetenv("PENSTOCK_LAUNCH");
    kept(socket_), kept(ended_fd_);
    void* page =
        asked("mmap", ::mmap(nullptr, board::bytes(size_), PROT_READ, MAP_SHARED, t.board, 0));
    if (page == MAP_FAILED) return failure{"mmap of penrun's page", errno, what_to_raise(errno)};
    ::close(t.board);
    page_ = page;
    ended_ = &static_cast<const board*>(page_)->ended;
    return {};
  }

  result<std::vector<std::vector<std::byte>>> exchange(std::span<const std::byte> mine) override {
    if (mine.size() > max_contribution)
      return failure{"exchange of " + std::to_string(mine.size()) + " bytes", EMSGSIZE, ""};
    auto reply = ask(frame_kind::exchange, mine);
    if (!reply) return reply.error();
    std::vector<std::vector<std::byte>> out(size_);
    std::span<const std::byte> rest = *reply;
    for (auto& blob : out) {
      std::uint32_t n = 0;
      if (rest.size() < sizeof n) return broken();
      std::memcpy(&n, rest.data(), sizeof n);
      rest = rest.subspan(sizeof n);
      if (rest.size() < n) return broken();
      blob.assign(rest.begin(), rest.begin() + n);
      rest = rest.subspan(n);
    }
    return out;
  }

  result<void> fence() override {
    auto reply = ask(frame_kind::fence, {});
    if (!reply) return reply.error();
    return {};
  }

  result<void> begin_fence() override {
    if (fence_begun_) return fence_given_up();
    errno = 0;
    const frame_header head{frame_kind::fence, 0};
    if (!send_all(socket_, &head, sizeof head)) return broken();
    fence_begun_ = true;
    return {};
  }

  result<bool> fence_is_over() override {
    errno = 0;
    frame_header answer{};
    const auto n = ::recv(socket_, &answer, sizeof answer, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (asked("recvfrom", static_cast<int>(n)) <= 0) return broken();
    if (n < static_cast<ssize_t>(sizeof answer)) return false;
    fence_begun_ = false;
    auto reply = hear(frame_kind::fence);
    if (!reply) return reply.error();
    return true;
  }

  void finalize(int code) override {
    // relaxed: one thread at a time calls finalize, and abort can only find it set already
    if (!left_.exchange(true, std::memory_order_relaxed))
      tell(frame_kind::finalize, std::int32_t{code});
  }

  void tell_left() noexcept override {
    const frame_header head{frame_kind::left, 0};
    send_all(socket_, &head, sizeof head);
  }
  [[nodiscard]] bool has_left(std::uint32_t rank) const noexcept override {
    return static_cast<const board*>(page_)->has_left(rank);
  }

 protected:
  void tell_abort(int code) noexcept override {
    tell(frame_kind::abort, abort_word{.when_ns = now_ns(), .code = code});
  }
  void tell_end(int code) noexcept override {
    tell(frame_kind::abort, abort_word{.when_ns = now_ns(), .code = code, .ordered = 1});
  }

 private:
  [[nodiscard]] failure broken() const {
    if (const auto d = ended_by()) return failure{"the job is over: " + d->text(), 0, ""};
    return failure{"penrun does not answer", errno, what_to_raise(errno)};
  }

  template <class Body>
  void tell(frame_kind kind, const Body& body) noexcept {
    char frame[sizeof(frame_header) + sizeof body];
    const frame_header head{kind, sizeof body};
    std::memcpy(frame, &head, sizeof head);
    std::memcpy(frame + sizeof head, &body, sizeof body);
    send_all(socket_, frame, sizeof frame);  // if penrun is gone, the kernel soon ends this process
  }

  result<std::vector<std::byte>> ask(frame_kind kind, std::span<const std::byte> body) {
    if (fence_begun_) return fence_given_up();
    errno = 0;
    const frame_header head{kind, static_cast<std::uint32_t>(body.size())};
    if (!send_all(socket_, &head, sizeof head) || !send_all(socket_, body.data(), body.size()))
      return broken();
    return hear(kind);
  }

  result<std::vector<std::byte>> hear(frame_kind kind) {
    frame_header answer{};
    if (!receive_all(socket_, &answer, sizeof answer)) return broken();
    if (answer.kind == frame_kind::over && !ended_by())
      return failure{"another process has left the job", ECANCELED, ""};
    if (answer.kind == frame_kind::too_long)
      return failure{"all processes together exchange more than " +
                         std::to_string(max_exchange >> 20) + " MiB at once",
                     EMSGSIZE, "exchange less, or in several calls"};
    std::vector<std::byte> out(answer.bytes);
    if (!receive_all(socket_, out.data(), out.size()) || answer.kind != kind) return broken();
    return out;
  }

  int socket_;
  void* page_ = nullptr;
  bool fence_begun_ = false;  // and not over: another collective would take its answer
  std::atomic<bool> left_{false};
};

}  // namespace

result<std::unique_ptr<job>> join_penrun(const settings& s) {
  const auto ticket = launch_ticket::parse(s.launch);
  if (!ticket) return failure{"PENSTOCK_LAUNCH=" + s.launch + " is not penrun's", 0, "unset it"};
  auto j = std::make_unique<penrun_job>(*ticket);
  if (auto opened = j->open(*ticket); !opened) return opened.error();
  if (auto met = j->fence(); !met) return met.error();
  return std::unique_ptr<job>(std::move(j));
}

}  // namespace penstock::job
