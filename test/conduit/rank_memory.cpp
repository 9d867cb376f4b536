// What memory a process has for each rank of its job before any message, by the kernel's count: a
// child starts an endpoint in a job that is computed (a thousand ranks, then many more;
// the other ranks are none but their introductions), and looks at its Pss before and after. The
// other ranks differ in all that ranks differ in: address, connector, segment and keys.
//   rank_memory MOST_BYTES [RANKS]
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <string>

#include "lib/base/settings.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/introduction.hpp"
#include "lib/job/job.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;
using conduit::engine;
using conduit::introduction;

namespace {

class computed_job final : public job::job {
 public:
  explicit computed_job(std::uint32_t ranks) {
    rank_ = host_rank_ = ranks / 2;
    size_ = ranks;
    host_ranks_.resize(ranks);
    std::iota(host_ranks_.begin(), host_ranks_.end(), 0u);
    name_ = std::string(32, '7');
  }
  result<std::vector<std::vector<std::byte>>> exchange(std::span<const std::byte> mine) override {
    std::vector<std::vector<std::byte>> all(size_, {mine.begin(), mine.end()});
    introduction own;
    if (mine.size() != sizeof own) return all;
    std::memcpy(&own, mine.data(), sizeof own);
    for (std::uint32_t r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      introduction his = own;
      std::memcpy(his.address.gid.raw + 12, &r, sizeof r);
      his.datagram_qp += r;
      his.segment_base += std::uint64_t{r} << 24;
      his.segment_rkey += r, his.map_rkey += r;
      std::memcpy(all[r].data(), &his, sizeof his);
    }
    return all;
  }
  result<void> fence() override { return {}; }
  void finalize(int) override {}

 protected:
  void tell_abort(int) noexcept override {}
};

std::size_t pss_bytes() {
  ::malloc_trim(0);  // what the exchange at start has used and given back
  std::ifstream file("/proc/self/smaps_rollup");
  std::string line;
  // Not of the program's file: how many others run it changes while this looks.
  unsigned long kb = 0, sum = 0;
  while (std::getline(file, line))
    if (std::sscanf(line.c_str(), "Pss_Anon: %lu kB", &kb) == 1 ||
        std::sscanf(line.c_str(), "Pss_Shmem: %lu kB", &kb) == 1)
      sum += kb;
  JOB_CHECK(sum != 0);  // else this kernel does not split Pss
  return sum * 1024;
}

// Bytes by which a process grows when it starts in a job of that many ranks.
std::size_t grown_by(std::uint32_t ranks) {
  int ends[2];
  JOB_CHECK(::pipe(ends) == 0);
  const pid_t child = ::fork();
  JOB_CHECK(child >= 0);
  if (child == 0) {
    auto s = read_settings();
    JOB_CHECK(s);
    const std::size_t before = pss_bytes();
    computed_job j(ranks);
    auto e = engine::open(j, *s);
    if (!e) fatal(3, "%s", e.error().message().c_str());
    if (auto r = (*e)->start(4096); !r) fatal(3, "%s", r.error().message().c_str());
    const std::size_t grown = pss_bytes() - before;
    const auto last = (*e)->segment_of(ranks - 1);
    JOB_CHECK(last.size() == 4096 && last.data() != (*e)->segment().data());
    if (std::getenv("RANK_MEMORY_MAPS") != nullptr)
      (void)std::system(("cat /proc/" + std::to_string(::getpid()) + "/smaps >&2").c_str());
    ::_exit(::write(ends[1], &grown, sizeof grown) == sizeof grown ? 0 : 1);
  }
  ::close(ends[1]);
  std::size_t grown = 0;
  int code = 0;
  JOB_CHECK(::read(ends[0], &grown, sizeof grown) == sizeof grown);
  JOB_CHECK(::waitpid(child, &code, 0) == child && code == 0);
  ::close(ends[0]);
  return grown;
}

}  // namespace

int main(int argc, char** argv) {
  const double most = argc > 1 ? std::atof(argv[1]) : 64;
  const std::uint32_t few = 1000;
  const auto many = argc > 2 ? static_cast<std::uint32_t>(std::atoi(argv[2])) : 100000;
  const std::size_t less = grown_by(few), more = grown_by(many);
  const double each = (static_cast<double>(more) - static_cast<double>(less)) / (many - few);
  std::printf("a process of %u ranks has %zu bytes, of %u ranks %zu: %.1f bytes a rank\n", few,
              less, many, more, each);
  if (each > most) fatal(9, "%.1f bytes a rank are more than %.0f", each, most);
  return 0;
}
