// pentop: shows what a running job of this user does, by asking its processes on this host for
// their counters (setting WATCH). It only reads their answers, and changes nothing.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "lib/base/command_line.hpp"
#include "tools/pentop/view.hpp"

namespace {

using pentop::place;

struct options {
  std::string job;
  double interval = 1;
  std::uint32_t answer_ms = 500;
  std::size_t top = 20;
  bool once = false, json = false, list = false;
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
    if (!o.once && ::isatty(STDOUT_FILENO) != 0) fmt::print("\x1b[H\x1b[2J");
    fmt::print("{}", pentop::as_text(p, o.top));
    if (!o.once) fmt::print("\n");
  }
  std::fflush(stdout);
}

int watch(const options& o) {
  const std::string job = choose(o.job);
  const auto look = [&] {
    const auto all = jobs();
    const auto at = all.find(job);
    return at != all.end() ? pentop::take(at->second, static_cast<int>(o.answer_ms))
                           : pentop::sample{};
  };
  pentop::sample before = look();
  for (;;) {
    std::this_thread::sleep_for(std::chrono::duration<double>(o.interval));
    pentop::sample now = look();
    if (now.processes.empty() && now.silent.empty()) {
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
  penstock::command_line line("pentop",
                              "Shows what the ranks of a running job of yours do on this host.\n"
                              "It says who talks to whom and who waits for what, and shows rates "
                              "and credits. It ends with the\n"
                              "job, or by Ctrl-C.");
  line.text("job", o.job,
            "The job, as --list names it; where only one job runs here, it need not be named",
            {.type = "JOB"});
  line.flag("--list", o.list, "Lists the jobs that can be watched");
  line.flag("--once", o.once, "Shows one interval, and ends");
  line.flag("--json", o.json,
            "Prints one JSON object on a line for each interval, instead of tables");
  line.number("--interval", o.interval, "Seconds between two looks", 0.01, 3600.0);
  line.number("--patience", o.answer_ms, "Milliseconds to wait for the answer of a rank", 1u,
              60000u);
  line.number("--top", o.top, "Number of pairs of ranks to show");
  line.parse(argc, argv);
  std::signal(SIGPIPE, SIG_DFL);
  return o.list ? list() : watch(o);
}
