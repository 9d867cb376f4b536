// penrun: starts N processes of a program as one job. It needs nothing else installed, except a
// remote shell if other hosts are named.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>

#include "lib/base/command_line.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/base/no_memory.hpp"
#include "lib/base/settings.hpp"
#include "tools/penrun/agent.hpp"
#include "tools/penrun/ended.hpp"
#include "tools/penrun/guard.hpp"
#include "tools/penrun/hosts.hpp"
#include "tools/penrun/keeper.hpp"
#include "tools/penrun/known_state.hpp"
#include "tools/penrun/room.hpp"
#include "tools/penrun/spellings.hpp"

namespace {

int complain(const penstock::failure& why, int code = 2) {
  std::fprintf(stderr, "penrun: %s\n", why.message().c_str());
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  penstock::open_missing_stdio();
  penstock::end_by_a_line_without_memory();
  penrun::start_from_a_known_state();
  if (penrun::without_processor_time())
    return complain({"ulimit -t is 0, so that no process may run", 0, "raise ulimit -t"}, 1);
  // Another penrun, on another host, has started this one.
  if (argc == 2 && std::string_view(argv[1]) == "--agent")
    return penrun::guard([](int lifeline) { return penrun::serve_as_agent(lifeline); });
  penrun::options o;
  std::vector<std::string> exported;
  double timeout = 0, grace = -1;
  std::string hosts, hostfile, folder, rsh;
  penstock::command_line line(
      "penrun",
      "Starts N processes of a program as one job, on this host or on those of --host.\n"
      "The exit code is the first that is not zero, 128 + signal for a death, 124 for --timeout.\n"
      "mpirun's spellings of these options are accepted too: -np, -H, -host, -hostfile, -wd, ...");
  line.number("-n,--np", o.processes, "Number of processes", 1, 100000, true);
  line.list(
      "-x", exported,
      "Puts NAME=VALUE into the environment of the processes; NAME alone also passes its value "
      "on to other hosts; may be repeated");
  line.text("--host", hosts,
            "Hosts to start the processes on, by ssh: HOST,... or HOST:PROCESSES,...");
  line.text("--hostfile", hostfile,
            "File that names a host in each line: HOST, HOST:PROCESSES "
            "or HOST slots=PROCESSES");
  line.text("--wdir", folder, "Folder in which the processes start");
  line.text(
      "--rsh", rsh,
      "Command that takes the place of ssh, started as COMMAND HOST PROGRAM... (PENSTOCK_RSH)");
  line.word("--bind-to", o.bind, {"none", "core", "hwthread", "numa", "socket"},
            "Binds each process to one of these of its host, in turn");
  line.number("--timeout", timeout,
              "Seconds after which penrun says where each process is, and kills the job");
  line.number("--grace", grace,
              "Seconds after a death before the other processes are killed (PENSTOCK_DEATH_GRACE)");
  line.flag("-l,--label", o.label, "Puts [rank] before each line of output");
  line.flag("-q,--quiet", o.quiet, "Says nothing about deaths");
  line.rest(o.command);
  const auto words = penrun::in_our_words({argv + 1, argv + argc});
  if (!words) return complain(words.error());
  std::vector<const char*> ours{argv[0]};
  for (const auto& w : *words) ours.push_back(w.c_str());
  line.parse(static_cast<int>(ours.size()), ours.data());
  if (o.command.empty()) {
    std::fprintf(stderr, "penrun: no program given\n%s", line.help().c_str());
    return 2;
  }
  if (o.command[0].empty()) return complain({"the program's name is empty", 0, ""});
  for (const auto& e : exported) {
    const auto equals = e.find('=');
    const std::string name = e.substr(0, equals);
    if (name.empty()) return complain({"-x " + e + ": NAME=VALUE or NAME is wanted", 0, ""});
    if (equals != e.npos) {
      if (setenv(name.c_str(), e.substr(equals + 1).c_str(), 1) != 0) throw std::bad_alloc();
    } else if (getenv(name.c_str()) == nullptr) {
      std::fprintf(stderr, "penrun: -x %s: it is not set here\n", name.c_str());
    }
    o.export_names.push_back(name);
  }
  unsetenv("PENSTOCK_LAUNCH");  // of a job in which this may itself be a process
  // Read here already, so that a mistake is reported once and not by every process.
  const auto settings = penstock::read_settings();
  if (!settings) return complain(settings.error());
  if (!hostfile.empty()) {
    auto named = penrun::read_hostfile(hostfile);
    if (!named) return complain(named.error());
    if (hosts.empty()) hosts = *named;
  }
  if (!folder.empty() && ::chdir(folder.c_str()) != 0)
    return complain({"--wdir " + folder, errno, ""});
  if (!hosts.empty()) {
    auto spread = penrun::spread(hosts, o.processes);
    if (!spread) return complain(spread.error());
    o.hosts = std::move(*spread);
  } else if (auto room = penrun::room_for(o.processes); !room) {
    return complain(room.error(), 1);
  }
  if (const auto mpi = penrun::mpi_library_of(o.command[0]); !mpi.empty() && o.processes > 1)
    std::fprintf(
        stderr,
        "penrun: %s is linked with MPI (%s), to which penrun does not introduce processes: "
        "each would be alone in MPI_COMM_WORLD; prterun, mpirun and srun start MPI and "
        "Penstock alike\n",
        o.command[0].c_str(), mpi.c_str());
  o.rsh = rsh.empty() ? settings->rsh : rsh;
  o.timeout_ns = timeout > 0 ? static_cast<std::uint64_t>(timeout * 1e9) : 0;
  o.grace_ns = grace >= 0 ? static_cast<std::uint64_t>(grace * 1e9) : settings->death_grace_ns;
  return penrun::guard([&o](int lifeline) { return penrun::keep(o, lifeline); });
}
