// A program closes descriptors of the library's: the job goes on, or ends in time with a line that
// says so. All above each number in turn are closed.
//   closed COMMAND...    COMMAND K early|late is a job of closing.cpp
#include <cstdio>
#include <string>
#include <vector>

#include "test/faults/trials.hpp"
#include "test/job/run.hpp"

namespace {

constexpr int over_time = 124;  // penrun's code when its --timeout is over

testing::outcome tried(char** command, std::size_t k, const char* when) {
  std::vector<std::string> words;
  for (char** w = command; *w != nullptr; ++w) words.emplace_back(*w);
  words.push_back(std::to_string(k));
  words.emplace_back(when);
  return testing::run(words);
}

std::string verdict(const testing::outcome& o) {
  const std::string said = o.err.substr(0, 2000);
  if (o.code < 0 || o.code == over_time) return "hangs\n" + said;
  if (o.code == 0) return o.err.empty() ? "" : "ends well, and says\n" + said;
  return o.err.find("the program has closed a descriptor of the library's") != o.err.npos
             ? ""
             : "ends with code " + std::to_string(o.code) + " without the cause\n" + said;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  char** const command = argv + 1;
  std::size_t count = 4;  // of descriptors: found by asking for one that is too many
  while (tried(command, count + 1, "late").out.find("no more") == std::string::npos)
    if (++count > 60) return std::puts("FAILED: the descriptors have no end"), 1;
  const char* const when[] = {"early", "late"};
  return testing::run_trials(
             2 * count,
             [&](std::size_t i) {
               return "from descriptor " + std::to_string(i / 2) + " on" + ", " + when[i % 2];
             },
             [&](std::size_t i) { return verdict(tried(command, i / 2, when[i % 2])); }) != 0;
}
