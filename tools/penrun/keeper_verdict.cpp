// Which process's end ends the job, and with which code. Processes that lose a peer complain (they
// abort, or exit with a code of their own), and a complaint may arrive before the peer itself has
// been reaped. So a complaint waits for the processes that were ending when it arrived: a death by
// signal, or an exit without a word, counts before it.
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>

#include "tools/penrun/descendants.hpp"
#include "tools/penrun/keeper_loop.hpp"

namespace penrun {
namespace {

// A process may take long to end (its memory goes first), but not for ever.
constexpr std::uint64_t witness_ns = 2'000'000'000;
// Reports may be on their way from other hosts, whose ending processes cannot be seen from here.
constexpr std::uint64_t relay_ns = 100'000'000;
constexpr const char* after_leaving = " after it had left the job";

}  // namespace

void keeper::judge() {
  if (!over_ && complaint()) {
    if (verdict_ns_ == 0) call_witnesses();
    const bool all_here = std::all_of(witnesses_.begin(), witnesses_.end(),
                                      [this](std::uint32_t rank) { return pids_[rank] == 0; });
    if (penstock::now_ns() < verdict_ns_ && (!all_here || !remotes_.empty())) return;
  }
  verdict_ns_ = 0;
  witnesses_.clear();
  settle();
  service_.give_up_if_incomplete();
}

// True if a process says or shows that it failed, and none has died by a signal, which needs no
// waiting.
bool keeper::complaint() const {
  bool any = std::any_of(members_.begin(), members_.end(),
                         [](const member& m) { return m.abort_code.has_value(); });
  for (const auto& [rank, status] : ended_) {
    const member& m = members_[rank];
    if (m.finalized) {
      any = any || (status != 0 && code_ == 0);
    } else if (!m.abort_code) {
      if (WIFSIGNALED(status)) return false;
      any = any || status != 0 || m.joined;
    }
  }
  return any;
}

void keeper::call_witnesses() {
  for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
    const member& m = members_[rank];
    if (pids_[rank] <= 0 || !is_ending(pids_[rank])) continue;
    // All messages that it sent before it began to end have arrived by now.
    if (service_.receive(rank) && !m.finalized && !m.abort_code) witnesses_.push_back(rank);
  }
  if (!witnesses_.empty() || !remotes_.empty())
    verdict_ns_ = penstock::now_ns() + (remotes_.empty() ? witness_ns : relay_ns);
}

void keeper::settle() {
  // 0: a death by signal, 1: an exit without a word, 2: one with code 0, 3: the process has said
  // why it ends.
  const auto weight = [this](const ending& e) {
    const member& m = members_[e.rank];
    return m.finalized || m.abort_code ? 3 : WIFSIGNALED(e.status) ? 0 : e.status != 0 ? 1 : 2;
  };
  std::vector<ending> ended;
  ended.swap(ended_);
  std::stable_sort(ended.begin(), ended.end(),
                   [&](const ending& a, const ending& b) { return weight(a) < weight(b); });
  const auto said =
      std::find_if(ended.begin(), ended.end(), [&](const ending& e) { return weight(e) == 3; });
  for (auto it = ended.begin(); it != said; ++it) on_exit(it->rank, it->status);
  const member* first = nullptr;
  for (const member& m : members_)
    if (m.abort_code && (first == nullptr || m.abort_ns < first->abort_ns)) first = &m;
  if (first != nullptr)
    end_job({static_cast<int>(first - members_.data()), *first->abort_code, first->ordered},
            *first->abort_code);
  for (auto it = said; it != ended.end(); ++it) on_exit(it->rank, it->status);
}

void keeper::on_exit(std::uint32_t rank, int status) {
  --alive_;
  member& m = members_[rank];
  m.gone = true;
  streams_[2 * rank + 1].forward();
  if (status != 0 && m.joined)
    repeats_.failed(rank);
  else
    repeats_.release(rank);
  const int rank_int = static_cast<int>(rank);
  if (WIFSIGNALED(status)) {
    const int sig = WTERMSIG(status);
    if (m.abort_code) return end_job({rank_int, *m.abort_code, m.ordered}, *m.abort_code);
    if (m.finalized) {  // a death after leaving in good order is no success, but takes nothing away
      note_code(128 + sig, penstock::job::death{rank_int, -sig}.text() + after_leaving);
      return;
    }
    if (asked_to_end_ && sig == sent_) {
      note_code(128 + sig, penstock::job::death{rank_int, -sig}.text() + ", which was sent to all");
      return end_job({-1, -sig}, 128 + sig);
    }
    return end_job({rank_int, -sig}, 128 + sig);
  }
  int code = WEXITSTATUS(status);
  if (m.abort_code) return end_job({rank_int, *m.abort_code, m.ordered}, *m.abort_code);
  std::string why = penstock::job::death{rank_int, code}.text();
  if (m.finalized) why += after_leaving;
  if (code == 0 && m.finalized && m.final_code != 0) {
    code = m.final_code & 255;
    why = "rank " + std::to_string(rank) + " left the job with code " + std::to_string(code);
  }
  if (m.finalized || !m.joined) {
    note_code(code, std::move(why));
    // A process that never joined is not missed by the others, unless they wait for it or its code
    // says that it failed.
    if (!m.finalized && (code != 0 || service_.incomplete())) end_job({rank_int, code}, code);
    return;
  }
  // The others miss it, whatever its code. 0 is no success here, or the job's code would depend on
  // whether they had time to notice.
  if (code == 0) {
    if (!over_ && !options_.quiet)
      std::fprintf(stderr,
                   "penrun: rank %u ended without leaving the job (by exit or _exit before its "
                   "endpoint was destroyed, or after a failed start?): code 1\n",
                   rank);
    note_code(1, "");
  }
  end_job({rank_int, code}, code);
}

}  // namespace penrun
