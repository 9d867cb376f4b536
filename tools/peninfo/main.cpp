// peninfo: lists what Penstock can use on this machine, and how it is set.
#include <cstdio>
#include <penstock/penstock.hpp>

#include "lib/base/command_line.hpp"
#include "lib/base/settings_table.hpp"
#include "lib/conduit/engine.hpp"
#include "tools/peninfo/devices.hpp"
#include "tools/peninfo/in_json.hpp"
#include "tools/peninfo/limits.hpp"

namespace {

int print_settings(bool all) {
  const auto s = penstock::read_settings();
  if (!s) {
    std::fprintf(stderr, "peninfo: %s\n", s.error().message().c_str());
    return 1;
  }
  std::fputs(penstock::settings_text(*s, all).c_str(), stdout);
  return 0;
}

// Opens the devices that a program would open, and says why.
int print_choice() {
  const auto s = penstock::read_settings();
  if (!s) {
    std::fprintf(stderr, "peninfo: %s\n", s.error().message().c_str());
    return 1;
  }
  unsigned rails = 0;
  for (const penstock::settings& rail : penstock::nic::rails_of(*s)) {
    const auto chosen = penstock::nic::open_device(rail);
    if (!chosen) {
      std::fprintf(stderr, "peninfo: %s\n", chosen.error().message().c_str());
      return 1;
    }
    if (++rails == 1)
      std::printf("\nA program started now would use %s: %s.\nInline sends up to %u bytes.\n",
                  chosen->name.c_str(), chosen->reason.c_str(), chosen->max_inline);
    else
      std::printf("Rail %u for parts of large puts and gets is %s: %s.\n", rails,
                  chosen->name.c_str(), chosen->reason.c_str());
  }
  return 0;
}

int print_json() {
  const auto s = penstock::read_settings();
  if (!s) {
    std::fprintf(stderr, "peninfo: %s\n", s.error().message().c_str());
    return 1;
  }
  const auto devices = penstock::nic::list_devices();
  std::fputs(peninfo::in_json(devices, penstock::nic::open_device(*s), *s).c_str(), stdout);
  return 0;
}

// In a job of several processes: what each pins in this job, and how it reaches each of the others.
int print_job(penstock::endpoint& ep) {
  if (auto r = ep.start(0); !r) {
    std::fprintf(stderr, "peninfo: %s\n", r.error().message().c_str());
    return 1;
  }
  for (penstock::rank_id r = 0; r < ep.size(); ++r) {
    if (r == ep.rank()) {
      std::printf("rank %u, %s", r, ep.memory_report().c_str());
      std::fflush(stdout);
    }
    if (ep.barrier() != penstock::status::ok) return 1;
  }
  return 0;
}

// 1 if a job of so many processes is refused, which is said.
int print_memory_of(penstock::endpoint& ep, std::uint32_t processes) {
  const auto report = ep.internals().memory_report(processes);
  if (report)
    std::fputs(report->c_str(), stdout);
  else
    std::fprintf(stderr, "peninfo: %s\n", report.error().message().c_str());
  return report ? 0 : 1;
}

// What each process of jobs of some sizes would pin; no such job is needed, only its size.
int print_memory(std::uint32_t processes) {
  auto w = penstock::world::join();
  if (!w) {
    std::fprintf(stderr, "peninfo: %s\n", w.error().message().c_str());
    return 1;
  }
  auto ep = penstock::endpoint::open(*w);
  if (!ep) {
    std::fprintf(stderr, "peninfo: %s\n", ep.error().message().c_str());
    return 1;
  }
  if (processes != 0) return print_memory_of(*ep, processes);
  if (ep->size() > 1) return print_job(*ep);
  int code = 0;
  for (const std::uint32_t n : {2u, 32u, 10'000u}) {
    if (n != 2) std::printf("\n");
    code |= print_memory_of(*ep, n);
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  bool settings = false, all = false, memory = false, json = false;
  std::uint32_t processes = 0;
  penstock::command_line line(
      "peninfo", "Lists devices, ports, addresses and limits, and says what a program would use.");
  line.flag(
      "--memory", memory,
      "Prints what a process pins in jobs of 2, 32 and 10000; in a job of several, prints what "
      "each process pins there, and by which path it reaches each other one");
  line.number("-n,--np", processes, "With --memory: the number of processes of the job", 0,
              10'000'000);
  line.flag("--settings", settings,
            "Prints name, value, default, source and help of the settings for users, and of others "
            "that are set");
  line.flag("--all", all, "With --settings: of every setting");
  line.flag("--json", json,
            "Prints devices, the choice of one, and every setting as one JSON object, for scripts");
  line.parse(argc, argv);
  if (json) return print_json();
  if (settings || all) return print_settings(all);
  if (memory || processes != 0) return print_memory(processes);
  std::fputs(peninfo::devices_text(penstock::nic::list_devices()).c_str(), stdout);
  std::fputs(peninfo::limits_text().c_str(), stdout);
  return print_choice();
}
