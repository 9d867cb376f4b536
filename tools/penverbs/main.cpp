// penverbs COMMAND…: runs a program with shm0 or tcp0 as a device of the stock libibverbs.
#include <linux/netlink.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "lib/base/command_line.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/observer.hpp"
#include "nic/tcp/context.hpp"
#include "tools/penverbs/probe.hpp"
#include "tools/penverbs/stats.hpp"
#include "tools/penverbs/ways.hpp"

namespace penverbs {
namespace shm = penstock::nic::shm;
namespace {

/// Where the provider's libraries lie, beside this program, in the build tree or installed.
std::string library_folder() {
  std::error_code e;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", e).parent_path();
  for (const char* at : {PENVERBS_LIBRARIES, "../lib/penstock"}) {
    const auto folder = (own / at).lexically_normal();
    if (std::filesystem::exists(folder / "libpenstock-verbs-preload.so", e)) return folder;
  }
  return {};
}

/// Whether libibverbs would ask the kernel for devices.
bool kernel_has_rdma() {
  const int s = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
  if (s >= 0) ::close(s);
  return s >= 0;
}

void set(const char* name, const std::string& value) {
  if (::setenv(name, value.c_str(), 1) != 0) throw std::bad_alloc();
}

/// Puts an entry in front of a list that colons part.
void put_first(const char* name, const std::string& entry) {
  const char* before = std::getenv(name);
  set(name, before != nullptr && *before != '\0' ? entry + ":" + before : entry);
}

void prepare_environment(const way& w, const std::string& libraries, bool has_rdma) {
  set("SYSFS_PATH", w.tree);
  set("IBV_DRIVERS", libraries + "/libpenstock");
  ::unsetenv("RDMAV_DRIVERS");  // libibverbs would ask these first
  if (w.by_name) set("PENVERBS_DEVICE_NAME", device_prefix);
  if (w.by_name || has_rdma) put_first("LD_PRELOAD", libraries + "/libpenstock-verbs-preload.so");
  put_first("LD_LIBRARY_PATH", libraries + "/rdmacm");  // a librdmacm for these devices
}

pid_t child = 0;
void forward(int signal) {
  if (child > 0) ::kill(child, signal);
}

/// Becomes the command; returns only the exit code of a command that cannot be run.
int become(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const auto& a : command) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const int e = errno;
  std::fprintf(stderr, "penverbs: %s: %s\n", argv[0], std::strerror(e));
  return e == ENOENT ? 127 : 126;
}

/// Runs the command and waits for it; its exit code, 128 + signal for a death. Meanwhile it keeps
/// the counters up to date, if there are some.
int run(const std::vector<std::string>& command, stats* counts) {
  child = ::fork();
  if (child < 0) return std::perror("penverbs: fork"), 1;
  if (child == 0) std::_Exit(become(command));
  // A terminal sends these to the command, too; the others come to us alone.
  for (const int s : {SIGINT, SIGQUIT}) ::signal(s, SIG_IGN);
  for (const int s : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) ::signal(s, forward);
  int status = 0;
  constexpr int refresh_ms = 50;
  while (counts != nullptr && ::waitpid(child, &status, WNOHANG) == 0) {
    counts->refresh();
    ::poll(nullptr, 0, refresh_ms);
  }
  while (counts == nullptr && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct options {
  bool check = false, stats = false;
  std::string device = "shm0", way = "auto", personality, fault, fabric, devices, trace;
  std::vector<std::string> command;
};

/// Tries the ways in turn, or only the one that is asked for; answers the name of the way that
/// worked, or "". Says why the others did not if none worked, or for --check.
std::string choose(const options& o, way& w) {
  struct {
    const char *name, *text;
    bool (*go)(way&, std::string&);
  } const ways[] = {
      {"namespace", "a namespace with a /dev of its own", enter_namespace},
      {"link", "a link in /dev", make_link},
      {"preload", "a preloaded library", make_tree},
  };
  std::string refusals;
  for (const auto& v : ways) {
    if (o.way != "auto" && o.way != v.name) continue;
    if (shown.tcp && v.go == make_link)
      continue;  // its tree is that of all commands that see this /dev
    std::string why;
    if (v.go(w, why)) {
      if (o.check) std::fputs(refusals.c_str(), stderr);
      return v.name;
    }
    refusals += std::string("penverbs: not by ") + v.text + " (" + why + ")\n";
  }
  std::fputs(refusals.c_str(), stderr);
  return {};
}

/// Opens tcp0 for a moment, to learn its address. False: it cannot be opened, or could meet nobody.
bool prepare_tcp(const options& o) {
  if (o.stats || !o.trace.empty() || !o.fabric.empty() || !o.fault.empty() || !o.devices.empty()) {
    std::fprintf(
        stderr,
        "penverbs: --device tcp0 has no --stats, --trace, --fabric, --fault or --devices\n");
    return false;
  }
  const char* secret = std::getenv("PENSTOCK_TCP_SECRET");
  if (secret == nullptr || *secret == '\0') {
    std::fprintf(stderr,
                 "penverbs: set PENSTOCK_TCP_SECRET to a text, or the file of one, that the other "
                 "commands have, too\n");
    return false;
  }
  const auto context = penstock::nic::tcp::make_context_of_environment();
  if (!context) return false;
  shown.gid = shm::gid_of(*context, 0);
  shm::stop_context(*context);
  shown.tcp = true;
  set("PENVERBS_DEVICE", "tcp0");
  return true;
}

/// Sets what the contexts of the command read, and what the tree shows. False: a value is not
/// valid.
bool prepare_devices(const options& o) {
  if (!o.personality.empty()) set("PENSTOCK_SHM_PERSONALITY", o.personality);
  if (!o.fault.empty()) set("PENSTOCK_SHM_FAULT", o.fault);
  const auto words = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string(text != nullptr ? text : "");
  };
  const auto p =
      shm::parse_pretence(words("PENSTOCK_SHM_PERSONALITY"), words("PENSTOCK_SHM_FAULT"));
  if (!p) {
    std::fprintf(stderr, "penverbs: %s\n", p.error().message().c_str());
    return false;
  }
  shown.lids = p->plays.has_lids;
  auto devices = shm::parse_devices(o.devices.empty() ? words("PENVERBS_DEVICES") : o.devices);
  if (!devices) {
    std::fprintf(stderr, "penverbs: %s\n", devices.error().message().c_str());
    return false;
  }
  shown.all = *std::move(devices);
  if (!o.devices.empty()) set("PENVERBS_DEVICES", o.devices);
  const std::string fabric = o.fabric.empty() ? words("PENVERBS_FABRIC") : o.fabric;
  if (fabric.empty()) return true;
  std::error_code failed;
  const auto folder = std::filesystem::canonical(fabric, failed);
  if (const int e = failed ? failed.value() : shm::use_fabric(folder.c_str())) {
    std::fprintf(stderr, "penverbs: the fabric %s: %s; name a folder that the user may write to\n",
                 fabric.c_str(), std::strerror(e));
    return false;
  }
  set("PENVERBS_FABRIC", folder);
  return true;
}

/// Makes the file of the trace, if there is to be one. False: it cannot be made.
bool prepare_trace(const options& o) {
  if (o.trace.empty()) return true;
  std::error_code failed;
  const std::string file = std::filesystem::absolute(o.trace, failed);
  if (const int e = failed ? failed.value() : shm::packet_trace::make(file.c_str())) {
    std::fprintf(stderr, "penverbs: the trace %s: %s\n", o.trace.c_str(), std::strerror(e));
    return false;
  }
  set("PENVERBS_TRACE", file);
  return true;
}

int go(const options& o) {
  const std::string libraries = library_folder();
  if (libraries.empty()) {
    std::fprintf(stderr, "penverbs: the folder lib/penstock is not beside this program\n");
    return 1;
  }
  if (!prepare_devices(o) || !prepare_trace(o)) return 2;
  if (o.device == "tcp0" && !prepare_tcp(o)) return 2;
  const bool has_rdma = kernel_has_rdma();
  way w;
  const std::string chosen = choose(o, w);
  if (chosen.empty()) {
    std::fprintf(stderr, "penverbs: so there is no way to show a device here\n");
    return 1;
  }
  prepare_environment(w, libraries, has_rdma);
  stats counts;
  if (o.stats && !counts.begin(w.tree)) return std::perror("penverbs: --stats"), 1;
  if (o.stats) set("PENVERBS_STATS", counts.file());
  if (o.check) {
    std::printf("kernel     %s\n",
                has_rdma ? "has RDMA: its devices are hidden from the command" : "has no RDMA");
    std::printf("device by  %s\n", chosen.c_str());
    for (const char* name : {"PENSTOCK_SHM_PERSONALITY", "PENSTOCK_SHM_FAULT"})
      if (const char* text = std::getenv(name); text != nullptr && *text != '\0')
        std::printf("pretends   %s=%s\n", name, text);
    std::fflush(stdout);
  } else if (!w.leaves_something && !o.stats) {
    return become(o.command);
  }
  // The probe is a new program: what is preloaded concerns it, too.
  const int code = run(o.check ? std::vector<std::string>{"/proc/self/exe", "--probe"} : o.command,
                       o.stats ? &counts : nullptr);
  if (o.stats) counts.print();
  if (chosen == "link") remove_link();
  if (chosen == "preload") remove_tree(w);
  return code;
}

}  // namespace
}  // namespace penverbs

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--probe") == 0) return penverbs::probe();
  penverbs::options o;
  penstock::command_line line(
      "penverbs",
      "Runs a program with shm0 or tcp0 as a device of the system's libibverbs.\n"
      "This needs no RDMA hardware, no kernel module and no root. Commands "
      "of one user reach each other\n"
      "through the device.");
  line.flag("--check", o.check,
            "Says what is found here, and which of the ways --way would take; runs nothing");
  line.word("--way", o.way, {"auto", "namespace", "link", "preload"},
            "How the device is shown to libibverbs; auto tries the others in this order");
  line.word(
      "--device", o.device, {"shm0", "tcp0"},
      "Which device: shm0, or tcp0, which reaches other hosts over TCP; commands with the same "
      "PENSTOCK_TCP_SECRET reach each other");
  line.text(
      "--devices", o.devices,
      "How many devices there are, from shm0 on; or their NUMA nodes and rates in Gbit/s, as in "
      "numa=0:rate=200,numa=1:rate=400");
  line.text(
      "--fabric", o.fabric,
      "A folder: commands that name the same one reach each other from any network namespace or "
      "container");
  line.text("--personality", o.personality,
            "What the devices pretend to be: PENSTOCK_SHM_PERSONALITY");
  line.text("--fault", o.fault, "What goes wrong: PENSTOCK_SHM_FAULT");
  line.flag("--stats", o.stats,
            "Counts what each queue pair carries: a table at the end, and counters in the tree");
  line.text("--trace", o.trace,
            "A file for the messages, as packets of InfiniBand that Wireshark reads (pcap)");
  line.rest(o.command);
  line.footer(
      "Example, in two terminals:\n"
      "  penverbs ibv_rc_pingpong -d shm0 -g 0\n"
      "  penverbs ibv_rc_pingpong -d shm0 -g 0 localhost");
  line.parse(argc, argv);
  if (o.command.empty() && !o.check) {
    std::fprintf(stderr, "penverbs: no command given\n%s", line.help().c_str());
    return 2;
  }
  return penverbs::go(o);
}
