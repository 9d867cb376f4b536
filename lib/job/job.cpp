// What all launchers' clients share: the choice among them, the end of the job, names and tickets.
#include "lib/job/job.hpp"

#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lib/base/descriptors.hpp"
#include "lib/base/forked.hpp"
#include "lib/base/log.hpp"
#include "lib/base/no_memory.hpp"
#include "lib/base/settings_table.hpp"
#include "lib/job/launchers.hpp"
#include "lib/job/wire.hpp"

namespace penstock::job {
namespace {

// The job that fatal() reports to. A process is in one job at a time.
std::atomic<job*> current{nullptr};

void on_fatal(int code) noexcept {
  if (is_forked()) return;  // the child ends alone
  // F2 use  load-acquire current  <- F1
  if (job* j = current.load(std::memory_order_acquire)) j->abort(code, nullptr);
}

// Warns where a launcher has started several processes, and this one could not join them: each is
// then a job of its own, which is hardly what the user meant.
void warn_if_launched(const settings& s) {
  std::uint32_t processes = 0;
  std::from_chars(s.launcher_size.data(), s.launcher_size.data() + s.launcher_size.size(),
                  processes);
  if (processes < 2 || (!s.launcher_rank.empty() && s.launcher_rank != "0")) return;
  std::string name;
  const auto rows = settings_table();
  for (std::size_t i = 0; i < rows.size() && i < s.sources.size(); ++i)
    if (std::string_view(rows[i].name) == "LAUNCHER_SIZE") name = s.sources[i];
  log(log_level::warning,
      "%s says that %u processes were started together, but not by PMIx, PMI or penrun, so each is "
      "a "
      "job of its own; use srun --mpi=pmix or --mpi=pmi2, mpirun, prterun or penrun",
      name.c_str(), processes);
}

}  // namespace

std::span<const std::uint32_t> job::neighbours(std::uint32_t most) const noexcept {
  const std::span<const std::uint32_t> all = host_ranks_;
  if (most == 0 || most >= all.size()) return all;
  const std::size_t first = host_rank_ / most * most;
  return all.subspan(first, std::min<std::size_t>(most, all.size() - first));
}

std::string death::text() const {
  if (rank < 0 && code_or_signal >= 0) return "the launcher has ended it";
  const std::string who = rank < 0 ? "the launcher" : "rank " + std::to_string(rank);
  if (code_or_signal >= 0) return who + " ended with code " + std::to_string(code_or_signal);
  const char* name = sigdescr_np(-code_or_signal);
  return who + (rank < 0 ? " received signal " : " was killed by signal ") +
         std::to_string(-code_or_signal) + " (" + (name != nullptr ? name : "unknown") + ")";
}

result<std::unique_ptr<job>> job::join(const settings& s) {
  if (is_forked()) return failure{forked_text, 0, forked_hint};
  // What the launcher has left for this process has been used up.
  static std::atomic<bool> once{false};
  // relaxed: nothing is read because of it
  if (once.load(std::memory_order_relaxed))
    return failure{"this process has joined its job before", 0,
                   "a process joins once; pass the world on, and open several endpoints of it"};
  end_by_a_line_without_memory();
  const doing now{"joining the job"};
  auto joined = !s.launch.empty() ? join_penrun(s)
                : !s.pmix.empty() ? join_pmix(s)
                : s.pmi_fd.empty() && s.pmi_port.empty()
                    ? result<std::unique_ptr<job>>(join_alone())
                    : join_pmi(s);
  if (!joined) return joined;
  once.store(true, std::memory_order_relaxed);
  job& j = **joined;
  log_threshold(s.log);
  if (s.launch.empty() && s.pmix.empty() && s.pmi_fd.empty() && s.pmi_port.empty())
    warn_if_launched(s);
  if (j.size() > 1) log_identity(j.rank(), j.size());
  if (s.verbose_env && j.rank() == 0) std::fputs(settings_text(s, true).c_str(), stderr);
  // F1 publish  store-release current  -> F2  the object is complete
  current.store(&j, std::memory_order_release);
  set_fatal_hook(on_fatal);
  watch_forks();
  return joined;
}

job* job::joined() noexcept {
  // F2, as in on_fatal()
  return current.load(std::memory_order_acquire);
}

job::~job() {
  job* self = this;
  // No other thread may be in fatal() while the job is destroyed. relaxed: nothing is published.
  current.compare_exchange_strong(self, nullptr, std::memory_order_relaxed);
}

void job::abort(int code, const char* why) {
  if (code == 0) code = 1;
  if (why != nullptr && why[0] != '\0') log(log_level::error, "%s", why);
  if (!is_forked()) tell_abort(code);
  ::_exit(code);
}

void job::end(int code) {
  std::fflush(nullptr);
  if (!is_forked()) tell_end(code);
  ::_exit(code);
}

void job::tell_end(int code) noexcept {
  if (code != 0 && size_ > 1) log(log_level::error, "ends the job with code %d", code);
  tell_abort(code);
}

failure fence_given_up() {
  return {"a fence that all were to meet at has been given up", ECANCELED, ""};
}

std::optional<death> job::ended_by() const noexcept {
  // J2 poll  load-acquire own_ended_  <- J1: as in ended()
  return unpack(ended_->load(std::memory_order_acquire));
}

void job::announce(death d) noexcept {
  std::uint64_t none = 0;
  // J1 announce  cas acq_rel own_ended_  -> J2
  if (!own_ended_.compare_exchange_strong(none, pack(d), std::memory_order_acq_rel,
                                          std::memory_order_relaxed))
    return;
  if (ended_fd_ >= 0) ring_bell(ended_fd_);
}

std::string launch_ticket::text() const {
  return std::to_string(socket) + ":" + std::to_string(board) + ":" + std::to_string(bell) + ":" +
         std::to_string(rank) + ":" + std::to_string(size) + ":" + std::to_string(host_first) +
         ":" + std::to_string(host_size) + ":" + name;
}

std::optional<launch_ticket> launch_ticket::parse(std::string_view text) {
  launch_ticket t{};
  const auto number = [&text](auto& into) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
    if (error != std::errc{} || end == text.data() + text.size() || *end != ':') return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
    return true;
  };
  if (!number(t.socket) || !number(t.board) || !number(t.bell) || !number(t.rank) ||
      !number(t.size) || !number(t.host_first) || !number(t.host_size))
    return std::nullopt;
  if (t.rank >= t.size || t.host_size > t.size || t.host_first > t.size - t.host_size ||
      t.rank < t.host_first || t.rank - t.host_first >= t.host_size || text.size() != name_digits)
    return std::nullopt;
  t.name = text;
  return t;
}

result<void> check_place(const char* protocol, std::uint32_t rank, std::uint32_t size) {
  if (rank < size && size <= most_ranks) return {};
  return failure{std::string("the launcher says by ") + protocol + " that this is process " +
                     std::to_string(rank) + " of " + std::to_string(size),
                 0, ""};
}

result<std::string> name_from(std::span<const std::byte> bytes) {
  std::string name(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (name.size() == name_digits && name.find_first_not_of(hex_digits) == name.npos) return name;
  return failure{"the job's name, which rank 0 gave to the launcher, came back changed", 0, ""};
}

std::string random_name() {
  std::uint8_t bytes[name_digits / 2];
  // A request of at most 256 bytes is never cut short; only a kernel without the call refuses it.
  if (getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes))
    fatal(1, "getrandom: the kernel gives no random bytes: %s", std::strerror(errno));
  std::string out;
  for (const auto b : bytes) {
    out += hex_digits[b >> 4];
    out += hex_digits[b & 15];
  }
  return out;
}

}  // namespace penstock::job
