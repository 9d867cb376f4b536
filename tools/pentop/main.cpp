// pentop: shows what a running job of this user does, by asking its processes on this host for
// their counters (setting WATCH). It only reads their answers, and changes nothing.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "lib/base/clock.hpp"
#include "lib/base/command_line.hpp"
#include "tools/pentop/layout.hpp"
#include "tools/pentop/screen.hpp"
#include "tools/pentop/view.hpp"

namespace {

using pentop::place;

struct options {
  std::string job;
  double interval = 1;
  std::uint32_t answer_ms = 500;
  std::size_t top = 20;
  bool once = false, json = false, list = false, plain = false;
};

// The processes of the first endpoint of each job, by job.
std::map<std::string, std::vector<place>> jobs() {
  std::map<std::string, std::vector<place>> all;
  for (const place& p : pentop::find())
    if (p.endpoint == 0) all[p.job].push_back(p);
  return all;
}

int list() {
  for (const auto& [job, places] : jobs()) {
    const pentop::sample s = pentop::take({places.front()}, 500);
    const bool known = !s.processes.empty();
    fmt::print("{}  {} processes here  {}\n", job, places.size(),
               known ? s.processes.begin()->second.program : "(does not answer)");
  }
  return 0;
}

// The job that the user means; ends the program if that is not clear.
std::string choose(const std::string& wanted) {
  const auto all = jobs();
  if (!wanted.empty() && all.contains(wanted)) return wanted;
  if (wanted.empty() && all.size() == 1) return all.begin()->first;
  if (!wanted.empty())
    fmt::print(stderr, "pentop: no job {} of yours runs here\n", wanted);
  else if (all.empty())
    fmt::print(stderr, "pentop: no job of yours runs here that can be watched (setting WATCH)\n");
  else
    fmt::print(stderr, "pentop: {} jobs of yours run here; name one of those that --list shows\n",
               all.size());
  std::exit(2);
}

void show(const pentop::picture& p, const options& o) {
  if (o.json) {
    fmt::print("{}\n",
               pentop::as_json(p).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", pentop::as_text(p, o.top));
    if (!o.once) fmt::print("\n");
  }
  std::fflush(stdout);
}

pentop::sample look(const std::string& job, const options& o) {
  const auto all = jobs();
  const auto at = all.find(job);
  return at != all.end() ? pentop::take(at->second, static_cast<int>(o.answer_ms))
                         : pentop::sample{};
}

bool has_ended(const pentop::sample& s) { return s.processes.empty() && s.silent.empty(); }

// Shows the job on a screen until it ends, which is true, or the user does.
bool watch_on_screen(const std::string& job, const options& o) {
  const pentop::screen terminal;
  pentop::choices chosen;
  chosen.interval = o.interval;
  pentop::sample before = look(job, o);
  pentop::picture shown = pentop::compare(job, before, before);
  std::uint64_t next = penstock::now_ns() + 200'000'000;  // the first figures come soon
  for (;;) {
    pentop::screen::show(
        pentop::lay_out(shown, chosen, pentop::screen::rows(), pentop::screen::columns()));
    const std::uint64_t now = penstock::now_ns();
    // Also where a look has taken the whole interval: only this hears keys and signals.
    const int key = pentop::screen::key(now < next ? static_cast<double>(next - now) * 1e-9 : 0.0);
    if (key < 0 || !pentop::press(key, pentop::screen::rows(), chosen)) return false;
    if (penstock::now_ns() < next) continue;
    next = penstock::now_ns() + static_cast<std::uint64_t>(chosen.interval * 1e9);
    pentop::sample seen = look(job, o);
    if (has_ended(seen)) return true;
    if (chosen.paused) continue;
    shown = pentop::compare(job, before, seen);
    before = std::move(seen);
  }
}

int watch(const options& o) {
  const std::string job = choose(o.job);
  if (!o.once && !o.json && !o.plain && pentop::screen::possible()) {
    if (watch_on_screen(job, o)) fmt::print(stderr, "pentop: job {} has ended\n", job);
    return 0;
  }
  pentop::sample before = look(job, o);
  for (;;) {
    std::this_thread::sleep_for(std::chrono::duration<double>(o.interval));
    pentop::sample now = look(job, o);
    if (has_ended(now)) {
      fmt::print(stderr, "pentop: job {} has ended\n", job);
      return o.once ? 1 : 0;
    }
    show(pentop::compare(job, before, now), o);
    if (o.once) return 0;
    before = std::move(now);
  }
}

}  // namespace

int main(int argc, char** argv) {
  options o;
  penstock::command_line line(
      "pentop",
      "Shows what the ranks of a running job of yours do on this host.\n"
      "It says who talks to whom and who waits for what, and shows rates "
      "and credits. On a terminal\n"
      "it fills the screen and takes keys (h lists them). It ends with the\n"
      "job, by q, or by Ctrl-C.");
  line.text("job", o.job,
            "The job, as --list names it; where only one job runs here, it need not be named",
            {.type = "JOB"});
  line.flag("--list", o.list, "Lists the jobs that can be watched");
  line.flag("--once", o.once, "Shows one interval, and ends");
  line.flag("--json", o.json,
            "Prints one JSON object on a line for each interval, instead of tables");
  line.flag("--plain", o.plain, "Prints tables one below the other on a terminal, too");
  line.number("--interval", o.interval, "Seconds between two looks", 0.01, 3600.0);
  line.number("--patience", o.answer_ms, "Milliseconds to wait for the answer of a rank", 1u,
              60000u);
  line.number("--top", o.top, "Number of pairs of ranks to show");
  line.parse(argc, argv);
  std::signal(SIGPIPE, SIG_DFL);
  return o.list ? list() : watch(o);
}
