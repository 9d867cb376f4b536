// start: what one rank of a job takes at its start: bytes and time of the exchange with the
// launcher, hellos, memory. In one process it plays jobs of any size, with the code of a rank and
// of its connections; the other ranks are none but what they say.
//
//   start [RANKS...]                    played: one rank of each job is there
//   penrun -n 16 start                  the same figures of a real job, of the rank in the middle
//
// Each row is of an endpoint of its own, played ones in a process of their own. The table says what
// was measured (time), what was counted (bytes and datagrams as they passed, memory by the kernel
// or the table that has it), and what the memory report plans. A played rank is connected to itself
// in place of others; where there are more ranks than the device has queue pairs for, to as many.
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <penstock/penstock.hpp>
#include <set>
#include <string>

#include "lib/base/clock.hpp"
#include "lib/base/command_line.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/base/mapped_memory.hpp"
#include "lib/conduit/report/connect_file.hpp"
#include "perf/json_line.hpp"
#include "perf/penperf/or_die.hpp"
#include "perf/start/crowd.hpp"
#include "perf/start/launcher.hpp"

namespace {

using namespace penstock;
using namespace penstock::start;
using conduit::engine;
using conduit::introduction;
using penstock::penperf::or_die;

/// By queue pairs; rings are for ranks of one host.
constexpr std::uint32_t ranks_of_host = 64;

/// Which connections are made at start; of `one`, the rank in the middle alone asks.
enum class pattern { none, one, barrier, all };
constexpr const char* pattern_names[] = {"none: on demand", "one, which does not ask",
                                         "a connect file: barriers", "CONNECT_STATIC: all"};
constexpr const char* pattern_keys[] = {"none", "one", "barrier", "all"};

/// What is known of one start. Written to a pipe as bytes.
struct figures {
  std::uint64_t ranks = 0;
  // Of the exchange: frames while the endpoint starts, and this thread's time.
  std::uint64_t exchanges = 0, sent = 0, received = 0, held = 0, exchange_cpu_ns = 0;
  std::uint64_t start_cpu_ns = 0, start_ns = 0;
  // Of the connector.
  std::uint64_t connections = 0, hellos_sent = 0, hello_bytes = 0, hellos_received = 0,
                connector_cpu_ns = 0;
  double hellos_each = 0;  ///< of both sides of a connection
  // Of memory.
  std::uint64_t known = 0, mapped = 0, process = 0;
  char report[6000] = "";
};

// Processor time of the connector's thread, by its name.
std::uint64_t connector_cpu_ns() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    if (text_of((task.path() / "comm").string()) == "penstock-conn\n")
      return std::strtoull(text_of((task.path() / "schedstat").string()).c_str(), nullptr, 10);
  return 0;
}

// The ranks to which `rank` connects at start, but for CONNECT_STATIC; a barrier's are those at
// distances of powers of two, both ways. Where all are more than the device has queue pairs for
// (two for each, and the ports of datagrams), they are as many as it has.
std::vector<std::uint32_t> named(const settings& s, pattern p, std::uint32_t rank,
                                 std::uint32_t size) {
  std::set<std::uint32_t> out;
  const int most = (or_die(nic::open_device(s)).limits.max_qp - 2) / 2;
  const auto room = static_cast<std::uint32_t>(most);
  for (std::uint32_t d = 1; p == pattern::all && size - 1 > room && d <= room; ++d)
    out.insert((rank + d) % size);
  if (p == pattern::one && rank == size / 2) out.insert((rank + 1) % size);
  for (std::uint32_t d = 1; p == pattern::barrier && d < size; d *= 2)
    out.insert({(rank + d) % size, (rank + size - d) % size});
  return {out.begin(), out.end()};
}

// The start of one endpoint. played: null in a real job; else where the crowd is to be, which the
// launcher asks for introductions.
figures start_one(watched_job& j, const launcher& by, settings s, pattern p,
                  std::unique_ptr<crowd>* played) {
  figures f;
  f.ranks = j.size();
  std::string file;
  const auto peers = named(s, p, j.rank(), j.size());
  s.connect_static = p == pattern::all && peers.empty();
  if (!peers.empty()) {
    char name[] = "/tmp/penstock-start-XXXXXX";
    const int fd = ::mkstemp(name);
    const std::string text = conduit::report::connect_file_head(j.size()) +
                             conduit::report::connect_file_line(j.rank(), peers);
    if (fd < 0 || ::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      fatal(1, "cannot write %s", name);
    ::close(fd);
    s.connectfile_in = file = name;
  }
  const traffic before = by.passed();
  j.exchanges = j.cpu_ns = j.held = 0;
  auto e = or_die(engine::open(j, s));
  const datagram_counts& counts = count_datagrams(e->device().context);
  if (played != nullptr && p != pattern::none)
    *played = std::make_unique<crowd>(*e, p == pattern::barrier || p == pattern::all);
  const std::uint64_t cpu = thread_cpu_ns(), began = now_ns();
  if (auto r = e->start(4096); !r) fatal(3, "%s", r.error().message().c_str());
  f.start_ns = now_ns() - began;
  f.start_cpu_ns = thread_cpu_ns() - cpu;
  const traffic after = by.passed();
  f.sent = after.sent - before.sent, f.received = after.received - before.received;
  f.exchanges = j.exchanges, f.held = j.held, f.exchange_cpu_ns = j.cpu_ns;
  // All have started; then the last hellos, for which nobody waits.
  (void)or_die(j.exchange({}));
  ::usleep(100'000);
  f.connections = e->counters().connections;
  f.hellos_sent = counts.sent, f.hellos_received = counts.received;
  f.hello_bytes = counts.sent_bytes + counts.received_bytes;
  f.connector_cpu_ns = connector_cpu_ns();
  f.known = e->fixed().known().bytes();
  const memory_in_use in_use = ask_kernel_for_memory();
  for (const mapped_use& u : in_use.noted) f.mapped += u.resident;
  f.process = in_use.process;
  std::snprintf(f.report, sizeof f.report, "%s", or_die(e->memory_report(0)).c_str());
  // Of both sides: what a played one says is what the rank hears.
  std::uint64_t both[] = {f.hellos_sent, f.connections}, hellos = 0, ends = 0;
  if (played != nullptr) {
    hellos = f.hellos_sent + f.hellos_received, ends = 2 * f.connections;
  } else {
    for (const auto& his : or_die(j.exchange(std::as_bytes(std::span(both))))) {
      std::memcpy(both, his.data(), sizeof both);
      hellos += both[0], ends += both[1];
    }
  }
  if (ends != 0) f.hellos_each = 2.0 * static_cast<double>(hellos) / static_cast<double>(ends);
  if (!file.empty()) ::unlink(file.c_str());
  if (played != nullptr) (void)e.release();  // the process ends: nobody is there to take leave of
  return f;
}

// A rank that has all of its own, but the address of its host's device, as in a job; no hello
// reaches it. By rings each has a device of its own.
introduction introduced(std::uint32_t r, introduction his, std::uint32_t of_device,
                        std::uint32_t own) {
  if (const std::uint32_t other = r / of_device + 1; r / of_device != own / of_device)
    std::memcpy(his.address.gid.raw + 12, &other, sizeof other);
  his.datagram_qp += r;
  his.segment_base += std::uint64_t{r} << 24;
  his.segment_rkey += r, his.map_rkey += r;
  return his;
}

// One start in a job that is played, in a process of its own.
figures play(const settings& of, std::uint32_t ranks, pattern p) {
  int ends[2];
  if (!opened("pipe", ::pipe(ends), ends)) fatal(1, "no pipe");
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    settings s = of;
    std::unique_ptr<crowd> others;
    launcher by(s, ranks, s.direct ? ranks : ranks_of_host,
                [&](std::uint32_t r, std::span<const std::byte> own) {
                  std::vector<std::byte> his(own.begin(), own.end());
                  introduction mine;
                  if (own.size() != sizeof mine) return his;
                  std::memcpy(&mine, own.data(), sizeof mine);
                  mine = others ? others->introduce(r, mine)
                                : introduced(r, mine, s.direct ? 1 : ranks_of_host, ranks / 2);
                  std::memcpy(his.data(), &mine, sizeof mine);
                  return his;
                });
    watched_job j(or_die(job::job::join(s)));
    const figures f = start_one(j, by, s, p, &others);
    ::_exit(::write(ends[1], &f, sizeof f) == sizeof f ? 0 : 1);
  }
  ::close(ends[1]);
  figures f;
  std::size_t got = 0;
  for (ssize_t n = 1; n > 0 && got < sizeof f;
       got += static_cast<std::size_t>(std::max(n, ssize_t{0})))
    n = ::read(ends[0], reinterpret_cast<char*>(&f) + got, sizeof f - got);
  ::close(ends[0]);
  int code = 0;
  if (child < 0 || ::waitpid(child, &code, 0) != child || code != 0 || got != sizeof f)
    fatal(1, "a start in a job of %u ranks has failed", ranks);
  return f;
}

// A number that the memory report says.
std::uint64_t said(const figures& f, const char* what) {
  const char* const at = std::strstr(f.report, what);
  return at == nullptr ? 0 : std::strtoull(at + std::strlen(what), nullptr, 10);
}

void print_json(const std::vector<figures>& by_pattern) {
  perf::json_line line;
  const figures& f = by_pattern[0];
  line.add("ranks", f.ranks).add("exchanges", f.exchanges).add("exchange_sent", f.sent);
  line.add("exchange_received", f.received).add("exchange_held", f.held);
  line.add("exchange_cpu_ns", f.exchange_cpu_ns).add("start_cpu_ns", f.start_cpu_ns);
  line.add("start_ns", f.start_ns).add("known", f.known).add("report", std::string(f.report));
  for (std::size_t i = 0; i < by_pattern.size(); ++i) {
    const figures& at = by_pattern[i];
    perf::json_line one;
    one.add("connections", at.connections).add("hellos_sent", at.hellos_sent);
    one.add("hellos_received", at.hellos_received).add("hello_bytes", at.hello_bytes);
    one.add("hellos_each", at.hellos_each).add("connector_cpu_ns", at.connector_cpu_ns);
    one.add("start_ns", at.start_ns).add("mapped", at.mapped).add("process", at.process);
    line.add(pattern_keys[i], one);
  }
  std::printf("%s\n", line.text().c_str());
}

void print_table(const std::vector<figures>& by_pattern, const char* way) {
  const auto ms = [](std::uint64_t ns) { return static_cast<double>(ns) * 1e-6; };
  const auto kb = [](std::uint64_t bytes) { return static_cast<double>(bytes) / 1024; };
  const figures& f = by_pattern[0];
  std::printf("one of %" PRIu64 " ranks at start, %s\n", f.ranks, way);
  std::printf("  exchanges with the launcher: %" PRIu64 " (counted)\n", f.exchanges);
  std::printf("  bytes sent %" PRIu64 ", received %" PRIu64 ", of heap until they are read %" PRIu64
              " (counted)\n",
              f.sent, f.received, f.held);
  std::printf("  processor time %.2f ms; of the whole start %.2f ms (measured)\n",
              ms(f.exchange_cpu_ns), ms(f.start_cpu_ns));
  std::printf("  bytes known of all ranks %" PRIu64 " (counted), pinned or shared %" PRIu64
              " (said by the memory report)\n",
              f.known, said(f, "pinned or shared in all"));
  std::printf("  %-26s %9s %13s %9s %12s %9s %9s %10s %10s\n", "connected at start", "ranks",
              "hellos sent", "received", "their bytes", "us each", "start ms", "mapped KB",
              "process KB");
  for (std::size_t i = 0; i < by_pattern.size(); ++i) {
    const figures& at = by_pattern[i];
    const double each = at.connections == 0 ? 0
                                            : static_cast<double>(at.connector_cpu_ns) * 1e-3 /
                                                  static_cast<double>(at.connections);
    std::printf("  %-26s %9" PRIu64 " %13" PRIu64 " %9" PRIu64 " %12" PRIu64
                " %9.1f %9.1f %10.0f %10.0f\n",
                pattern_names[i], at.connections, at.hellos_sent, at.hellos_received,
                at.hello_bytes, each, ms(at.start_ns), kb(at.mapped), kb(at.process));
  }
  std::printf("  (counted as they passed, or by the kernel; us each and start ms are measured)\n");
}

}  // namespace

int main(int argc, char** argv) {
  bool rings = false, json = false;
  std::vector<std::string> sizes;
  command_line line("start", "Measures what one rank of a job takes at its start.");
  line.flag("--rings", rings, "By rings in shared memory; without it, by queue pairs");
  line.flag("--json", json, "Prints a JSON object for each job");
  line.list("RANKS", sizes, "The sizes of the jobs that are played (2 16 256 1000 10000)");
  line.parse(argc, argv);
  settings s = or_die(read_settings());
  s.device = rings ? "shm0" : "tcp0";
  s.direct = rings;
  constexpr pattern patterns[] = {pattern::none, pattern::one, pattern::barrier, pattern::all};
  std::vector<figures> all;
  const auto print = [&] {
    if (json) return print_json(all);
    print_table(all, rings ? "by rings" : "by queue pairs");
  };
  if (!s.launch.empty()) {
    launcher by(s);
    watched_job j(or_die(job::job::join(s)));
    for (const pattern p : patterns) all.push_back(start_one(j, by, s, p, nullptr));
    if (j.rank() == j.size() / 2) print();
    j.finalize(0);
    return 0;
  }
  if (sizes.empty()) sizes = {"2", "16", "256", "1000", "10000"};
  for (const std::string& text : sizes) {
    const auto ranks = static_cast<std::uint32_t>(std::strtoul(text.c_str(), nullptr, 10));
    if (ranks < 2 || ranks > 1'000'000) line.refuse("RANKS", text + " is no size of a job");
    all.clear();
    for (const pattern p : patterns) all.push_back(play(s, ranks, p));
    print();
    std::fflush(stdout);
  }
  return 0;
}
