// peninfo: what there is on this machine for Penstock to use, and how it is set.
#include <cstdio>

#include "lib/base/command_line.hpp"
#include "lib/base/settings_table.hpp"
#include "tools/peninfo/devices.hpp"

namespace {

int print_settings() {
  const auto s = penstock::read_settings();
  if (!s) {
    std::fprintf(stderr, "peninfo: %s\n", s.error().message().c_str());
    return 1;
  }
  std::fputs(penstock::settings_text(*s).c_str(), stdout);
  return 0;
}

// Opens what a program would open, and says why.
int print_choice() {
  const auto s = penstock::read_settings();
  if (!s) {
    std::fprintf(stderr, "peninfo: %s\n", s.error().message().c_str());
    return 1;
  }
  const auto chosen = penstock::nic::open_device(*s);
  if (!chosen) {
    std::fprintf(stderr, "peninfo: %s\n", chosen.error().message().c_str());
    return 1;
  }
  std::printf("\nA program started now would use %s: %s.\nInline sends up to %u bytes.\n",
              chosen->name.c_str(), chosen->reason.c_str(), chosen->max_inline);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  bool settings = false;
  penstock::command_line line(
      "peninfo", "Lists devices, ports, addresses and limits; with --settings every setting.");
  line.flag("--settings", settings, "name, value, default, source and help of every setting");
  line.parse(argc, argv);
  if (settings) return print_settings();
  std::fputs(peninfo::devices_text(penstock::nic::list_devices()).c_str(), stdout);
  return print_choice();
}
