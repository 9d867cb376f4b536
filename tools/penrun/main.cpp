// penrun: starts N processes of a program as one job, with nothing else installed than a remote
// shell where other hosts are named.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "lib/base/command_line.hpp"
#include "lib/base/settings.hpp"
#include "tools/penrun/agent.hpp"
#include "tools/penrun/guard.hpp"
#include "tools/penrun/hosts.hpp"
#include "tools/penrun/keeper.hpp"

int main(int argc, char** argv) {
  // Started by another penrun, on another host.
  if (argc == 2 && std::string_view(argv[1]) == "--agent")
    return penrun::guard([](int lifeline) { return penrun::serve_as_agent(lifeline); });
  penrun::options o;
  std::vector<std::string> exported;
  double timeout = 0, grace = -1;
  std::string bind = "none", hosts, rsh;
  penstock::command_line line(
      "penrun",
      "Starts N processes of a program as one job, on this host or on those of --host.\n"
      "Exit code: the first that is not zero, 128 + signal for a death, 124 for --timeout.");
  line.number("-n,--np", o.processes, "number of processes", 1, 100000, true);
  line.list("-x", exported, "NAME=VALUE for the environment of the processes; may be repeated");
  line.text("--host", hosts, "HOST,... or HOST:PROCESSES,...: where to start them, by ssh");
  line.text("--rsh", rsh,
            "in place of ssh: a command that runs COMMAND HOST PROGRAM... (PENSTOCK_RSH)");
  line.word("--bind", bind, {"core", "none"}, "core: pin rank i to the i-th core; none");
  line.number("--timeout", timeout, "seconds after which the job is killed, saying where it was");
  line.number("--grace", grace, "seconds that survivors of a death have (PENSTOCK_DEATH_GRACE)");
  line.flag("-l,--label", o.label, "puts [rank] before each line of output");
  line.flag("-q,--quiet", o.quiet, "says nothing about deaths");
  line.rest(o.command);
  line.parse(argc, argv);
  if (o.command.empty()) {
    std::fprintf(stderr, "penrun: no program given\n%s", line.help().c_str());
    return 2;
  }
  for (const auto& e : exported) {
    const auto equals = e.find('=');
    if (equals == e.npos || equals == 0) {
      std::fprintf(stderr, "penrun: -x %s: NAME=VALUE is wanted\n", e.c_str());
      return 2;
    }
    setenv(e.substr(0, equals).c_str(), e.substr(equals + 1).c_str(), 1);
    o.export_names.push_back(e.substr(0, equals));
  }
  unsetenv("PENSTOCK_LAUNCH");  // of a job that we may be a process of
  // Read here already: a mistake is told once and not by every process.
  const auto settings = penstock::read_settings();
  if (!settings) {
    std::fprintf(stderr, "penrun: %s\n", settings.error().message().c_str());
    return 2;
  }
  if (!hosts.empty()) {
    auto spread = penrun::spread(hosts, o.processes);
    if (!spread) {
      std::fprintf(stderr, "penrun: %s\n", spread.error().message().c_str());
      return 2;
    }
    o.hosts = std::move(*spread);
  }
  o.rsh = rsh.empty() ? settings->rsh : rsh;
  o.bind = bind == "core";
  o.timeout_ns = timeout > 0 ? static_cast<std::uint64_t>(timeout * 1e9) : 0;
  o.grace_ns = grace >= 0 ? static_cast<std::uint64_t>(grace * 1e9) : settings->death_grace_ns;
  return penrun::guard([&o](int lifeline) { return penrun::keep(o, lifeline); });
}
