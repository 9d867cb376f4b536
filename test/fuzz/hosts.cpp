// Lists of hosts, from the command line and from files.
#include "tools/penrun/hosts.hpp"
#include "test/fuzz/target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  fuzz::input in(data, bytes);
  const std::uint32_t processes = in.byte() + 1u;
  const bool by_file = in.byte() % 2 != 0;
  std::string list(in.rest());
  if (by_file) {
    const fuzz::memory_file file(list);
    const auto text = penrun::read_hostfile(file.path());
    if (!text) return 0;
    list = *text;
  }
  const auto hosts = penrun::spread(list, processes);
  if (!hosts) return 0;
  std::uint32_t next = 0;
  for (const penrun::host& h : *hosts) {
    FUZZ_CHECK(h.first == next && h.count != 0 && !h.name.empty() && h.name.front() != '-');
    next += h.count;
  }
  FUZZ_CHECK(next == processes);
  return 0;
}
