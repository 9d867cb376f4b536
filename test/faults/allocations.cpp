// The k-th allocation of a job's rank, or of its launcher, fails, once or from then on: the job
// runs, or ends in time with a line that says that memory was short. How many there are is found by
// running the job once.
//   allocations PRELOAD MOST COMMAND...     COMMAND ends with code 0; MOST: trials of each kind,
//   spread over all k
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "test/faults/trials.hpp"
#include "test/job/run.hpp"

namespace {

namespace fs = std::filesystem;

struct trial {
  const char* kind;
  std::uint64_t first;
  bool once;
  const char* who;
};

std::string text_of(const trial& t) {
  return std::string(t.kind) + " " + std::to_string(t.first) +
         (t.once ? " fails" : " and all behind it fail") +
         (t.who[0] == '-' ? " in the launcher" : std::string(" in rank ") + t.who);
}

class files {
 public:
  files() {
    std::string name = (fs::temp_directory_path() / "penstock-allocations-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      std::perror("mkdtemp");
      std::exit(1);
    }
    folder_ = name;
  }
  ~files() { fs::remove_all(folder_); }
  files(const files&) = delete;
  files& operator=(const files&) = delete;
  [[nodiscard]] std::string counter(std::size_t i) const {
    const fs::path path = folder_ / std::to_string(i);
    std::ofstream(path, std::ios::binary) << std::string(8, '\0');
    return path.string();
  }

 private:
  fs::path folder_;
};

testing::outcome run(const trial& t, const std::string& counter, const char* preload,
                     char** command) {
  std::vector<std::string> words{"/usr/bin/env", std::string("LD_PRELOAD=") + preload,
                                 "TEST_FAIL=" + std::string(t.kind) + ":" +
                                     std::to_string(t.first) + ":" + (t.once ? "1:" : "0:") +
                                     t.who + ":" + counter};
  for (char** w = command; *w != nullptr; ++w) words.emplace_back(*w);
  return testing::run(words);
}

// Empty if the trial ended well.
std::string judge(const testing::outcome& o) {
  const std::string said = o.err + o.out.substr(0, std::min<std::size_t>(o.out.size(), 1000));
  if (o.code < 0 || o.code == 124) return "hangs\n" + said;
  if (o.code == 0) return "";
  const auto has = [&](const char* word) { return o.err.find(word) != o.err.npos; };
  // The C library's own line, where it cannot note what to destroy when a thread ends.
  if (has("failed to register TLS destructor: out of memory")) return "";
  if (has("terminate called")) return "ends by std::terminate\n" + said;
  for (const char* signal : {"SIGSEGV", "SIGABRT", "SIGBUS", "Segmentation fault", "Aborted"})
    if (has(signal)) return std::string("ends by ") + signal + "\n" + said;
  if (o.code >= 128) return "ends with code " + std::to_string(o.code) + "\n" + said;
  if (has("memory") || has("allocate")) return "";
  return "ends with code " + std::to_string(o.code) + " without a line about memory\n" + said;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const char* const preload = argv[1];
  const auto most = static_cast<std::uint64_t>(std::atoll(argv[2]));
  char** const command = argv + 3;
  const files f;
  std::vector<trial> trials;
  std::size_t files_made = 0;
  for (const char* who : {"1", "-"}) {
    for (const char* kind : {"malloc", "mmap"}) {
      const std::string counter = f.counter(files_made++);
      const testing::outcome o = run({kind, 0, true, who}, counter, preload, command);
      std::uint64_t n = 0;
      std::ifstream(counter, std::ios::binary).read(reinterpret_cast<char*>(&n), sizeof n);
      if (o.code != 0 || n == 0) {
        std::printf(
            "FAILED: the job ends with %d where nothing fails, and %llu calls of %s were seen\n%s",
            o.code, static_cast<unsigned long long>(n), kind, o.err.c_str());
        return 1;
      }
      std::printf("%llu calls of %s, %s\n", static_cast<unsigned long long>(n), kind,
                  who[0] == '-' ? "launcher" : "rank 1");
      const std::uint64_t tries = std::min(most, n);
      for (std::uint64_t i = 0; i < tries; ++i)
        for (const bool once : {true, false})
          trials.push_back({kind, 1 + i * n / tries, once, who});
    }
  }
  const int failures = testing::run_trials(
      trials.size(), [&](std::size_t i) { return text_of(trials[i]); },
      [&](std::size_t i) {
        return judge(run(trials[i], f.counter(files_made + i), preload, command));
      });
  return failures == 0 ? 0 : 1;
}
