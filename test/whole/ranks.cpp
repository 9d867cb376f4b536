// See ranks.hpp. This file alone is compiled without access control: an endpoint is made of an
// engine that has joined our job, where programs have one job in a process.
#include "test/whole/ranks.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "lib/base/no_memory.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/job/job.hpp"
#include "test/whole/memory.hpp"
#include "test/whole/scheduler.hpp"

namespace penstock::whole {
namespace {

using all_bytes = std::vector<std::vector<std::byte>>;

/// A meeting of all ranks, again and again; each leaves its bytes.
struct round {
  explicit round(std::uint32_t ranks) : bytes(ranks) {}
  all_bytes bytes;
  std::shared_ptr<const all_bytes> last;  ///< of the round that is over
  std::uint32_t arrived = 0, over = 0;
  bool given_up = false;

  /// Returns the number of the round that the caller is in.
  std::uint32_t arrive(std::uint32_t rank, std::span<const std::byte> mine) {
    const spared here;
    bytes[rank].assign(mine.begin(), mine.end());
    const std::uint32_t now = over;
    if (++arrived == bytes.size()) {
      last = std::make_shared<const all_bytes>(std::exchange(bytes, all_bytes(bytes.size())));
      arrived = 0;
      ++over;
      wake(this);
    }
    return now;
  }
  /// False: a rank has died, and does not come.
  [[nodiscard]] bool await(std::uint32_t which) const {
    while (over == which && !given_up) (void)sleep_at(this, for_ever);
    return over != which;
  }
  void give_up() noexcept {
    given_up = true;
    wake(this);
  }
};

class member;

}  // namespace

struct launcher::board {
  explicit board(std::uint32_t n)
      : exchanges(n), fences(n), meetings(n), ranks(n), members(n), left(n), done(n) {}
  round exchanges, fences, meetings;
  std::uint32_t ranks, finished = 0;
  std::vector<member*> members;
  std::vector<bool> left, done;
  std::optional<job::death> over;
  std::string name;
};

namespace {

class member final : public job::job {
 public:
  member(launcher::board& b, std::uint32_t rank) : board_(b) {
    rank_ = rank;
    host_rank_ = rank;
    size_ = b.ranks;
    host_ranks_.resize(b.ranks);
    std::iota(host_ranks_.begin(), host_ranks_.end(), 0u);
    name_ = b.name;
    ended_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    board_.members[rank_] = this;
    if (board_.over) announce(*board_.over);
  }
  ~member() override {
    board_.members[rank_] = nullptr;
    ::close(ended_fd_);
  }
  void hear(penstock::job::death d) noexcept { announce(d); }
  result<all_bytes> exchange(std::span<const std::byte> mine) override {
    is_doing("exchanging addresses");
    if (!board_.exchanges.await(board_.exchanges.arrive(rank_, mine))) return vain();
    is_doing("running");
    const spared here;
    return *board_.exchanges.last;
  }
  result<void> fence() override {
    if (!board_.fences.await(board_.fences.arrive(rank_, {}))) return vain();
    return {};
  }
  result<void> begin_fence() override {
    begun_ = board_.fences.arrive(rank_, {});
    return {};
  }
  result<bool> fence_is_over() override {
    if (board_.fences.over == begun_ && board_.fences.given_up) return vain();
    return board_.fences.over != begun_;
  }
  void tell_left() noexcept override { board_.left[rank_] = true; }
  [[nodiscard]] bool has_left(std::uint32_t rank) const noexcept override {
    return board_.left[rank];
  }
  void finalize(int code) override {
    if (code != 0)
      fail("EXIT CODE", "rank " + std::to_string(rank_) + " leaves with " + std::to_string(code));
    if (!board_.done[rank_]) ++board_.finished;
    board_.done[rank_] = true;
  }

 protected:
  void tell_abort(int code) noexcept override {
    fail("ABORT", "rank " + std::to_string(rank_) + " ends the job with " + std::to_string(code));
  }

 private:
  failure vain() const { return {"the job is over: " + ended_by()->text(), 0, ""}; }
  launcher::board& board_;
  std::uint32_t begun_ = 0;
};

}  // namespace

launcher::launcher(std::uint32_t ranks, std::uint64_t seed)
    : board_(std::make_unique<board>(ranks)) {
  numbers draw(seed, "the job's name");
  for (int i = 0; i < 32; ++i) board_->name += "0123456789abcdef"[draw.below(16)];
}
launcher::~launcher() = default;

result<endpoint> launcher::open(std::uint32_t rank, const setting_overrides& settings) {
  return or_no_memory("opening an endpoint", [&]() -> result<endpoint> {
    auto s = read_settings(settings);
    if (!s) return s.error();
    std::shared_ptr<member> j(new member(*board_, rank), [](member* m) {
      m->finalize(m->missed() ? 1 : 0);
      delete m;
    });
    auto e = conduit::engine::open(*j, *s);
    if (!e) return e.error();
    (*e)->keep(j);
    return endpoint(std::move(*e));
  });
}

bool launcher::meet(std::uint32_t rank) {
  return board_->meetings.await(board_->meetings.arrive(rank, {}));
}

void launcher::tell_of_death(std::uint32_t rank) noexcept {
  const spared here;
  board& b = *board_;
  if (b.done[rank]) return;
  b.over = penstock::job::death{static_cast<int>(rank), -SIGKILL};
  for (member* m : b.members)
    if (m != nullptr) m->hear(*b.over);
  for (round* r : {&b.exchanges, &b.fences, &b.meetings}) r->give_up();
}

std::uint32_t launcher::finished() const noexcept { return board_->finished; }

}  // namespace penstock::whole
