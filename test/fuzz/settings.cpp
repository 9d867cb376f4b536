// Settings, one by one and in sets: lines NAME=VALUE from the environment, behind a + given by the
// program, and behind a @ in the system's file.
#include <vector>

#include "lib/base/settings.hpp"
#include "test/fuzz/target.hpp"

using namespace penstock;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  fuzz::input in(data, bytes);
  std::vector<setting_override> given;
  std::vector<std::string> environment;
  std::string in_file;
  std::string text(in.rest());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const std::size_t sign = line.find('=');
    if (line.starts_with("+") && sign != line.npos)  // given by the program
      given.emplace_back(line.substr(1, sign - 1), line.substr(sign + 1));
    else if (line.starts_with("@"))
      in_file += line.substr(1) + "\n";
    else
      environment.push_back("PENSTOCK_" + line.substr(0, line.find('\0')));
    at = end + 1;
  }
  std::vector<const char*> pointers;
  for (const std::string& s : environment) pointers.push_back(s.c_str());
  const fuzz::memory_file file(in_file);
  const auto read = read_settings(given, pointers, file.path());
  if (!read) FUZZ_CHECK(!read.error().message().empty());
  return 0;
}
