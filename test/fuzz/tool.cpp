// Files that a tool reads: its main() runs with a file whose text is the input. TOOL names that
// function, OUT its option for a file to write.
#include <array>

#include "test/fuzz/target.hpp"

int TOOL(int argc, char** argv);

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const fuzz::memory_file file({reinterpret_cast<const char*>(data), bytes});
  std::string name = "tool", path = file.path(), option = OUT, out = "/dev/null";
  std::array<char*, 5> words{name.data(), path.data(), option.data(), out.data(), nullptr};
  static const bool quiet = std::freopen("/dev/null", "w", stdout) != nullptr;
  FUZZ_CHECK(quiet);
  const int code = TOOL(4, words.data());
  FUZZ_CHECK(code >= 0 && code < 3);
  return 0;
}
