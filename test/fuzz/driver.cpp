// Runs a target without libFuzzer: on each input of its corpus, then on inputs that are made of
// these by chance.
//   TARGET SECONDS CORPUS [SEED]     CORPUS is a folder; the seed is printed. An input that ends
//   the process is written to crash-TARGET in the working directory, and belongs into the corpus.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "test/fuzz/target.hpp"

namespace {

using bytes = std::vector<std::uint8_t>;
namespace fs = std::filesystem;

bytes now;  // the input that runs
std::string crash;

void save_and_end(int number) {
  const int fd = ::open(crash.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd >= 0) {
    (void)!::write(fd, now.data(), now.size());
    ::close(fd);
  }
  ::signal(number, SIG_DFL);
  ::raise(number);
}

class chance {
 public:
  explicit chance(std::uint32_t seed) : with_(seed) {}
  std::size_t below(std::size_t n) { return n == 0 ? 0 : with_() % n; }

 private:
  std::mt19937 with_;
};

bytes changed(bytes b, const std::vector<bytes>& corpus, chance& c) {
  static constexpr std::uint8_t edges[] = {0,   1,   0x7f, 0x80, 0xff, '\n', ' ',
                                           ';', '=', ':',  ',',  '9',  '-',  '"'};
  for (std::size_t n = 1 + c.below(6); n != 0; --n) {
    const std::size_t at = c.below(b.size() + 1);
    switch (c.below(6)) {
      case 0:
        if (at < b.size()) b[at] ^= static_cast<std::uint8_t>(1u << c.below(8));
        break;
      case 1:
        if (at < b.size()) b[at] = edges[c.below(std::size(edges))];
        break;
      case 2:
        b.insert(b.begin() + static_cast<std::ptrdiff_t>(at),
                 static_cast<std::uint8_t>(c.below(256)));
        break;
      case 3:
        b.erase(b.begin() + static_cast<std::ptrdiff_t>(at),
                b.begin() + static_cast<std::ptrdiff_t>(std::min(b.size(), at + 1 + c.below(8))));
        break;
      case 4: {  // the end of another one
        const bytes& o = corpus[c.below(corpus.size())];
        b.resize(at);
        b.insert(b.end(), o.begin() + static_cast<std::ptrdiff_t>(c.below(o.size() + 1)), o.end());
        break;
      }
      default:
        if (at < b.size()) b[at] = static_cast<std::uint8_t>(b[at] + c.below(33) - 16);
    }
  }
  if (b.size() > 4096) b.resize(4096);
  return b;
}

void run(bytes input) {
  now = std::move(input);
  (void)LLVMFuzzerTestOneInput(now.data(), now.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const double seconds = std::atof(argv[1]);
  const auto seed =
      argc > 3 ? static_cast<std::uint32_t>(std::atoll(argv[3])) : std::random_device{}();
  crash = "crash-" + fs::path(argv[0]).filename().string();
  for (const int s : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) ::signal(s, save_and_end);
  std::vector<bytes> corpus;
  for (const auto& file : fs::directory_iterator(argv[2])) {
    std::ifstream f(file.path(), std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(f), std::istreambuf_iterator<char>());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "%s has no input\n", argv[2]);
    return 1;
  }
  for (const bytes& b : corpus) run(b);
  std::printf("%zu inputs; seed %u\n", corpus.size(), seed);
  std::fflush(stdout);
  chance c(seed);
  std::size_t n = 0;
  using clock = std::chrono::steady_clock;
  const auto until = clock::now() + std::chrono::duration<double>(seconds);
  for (; clock::now() < until; ++n) run(changed(corpus[c.below(corpus.size())], corpus, c));
  std::printf("%zu further inputs\n", n);
  return 0;
}
