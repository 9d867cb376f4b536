// Job program: barriers are counted in the host's page, and rank 1 overwrites its words once. The
// job must end well or with a line about it, and never hang.
//   page_rogue SEED
#include <unistd.h>

#include <cstdlib>
#include <random>

#include "lib/conduit/collective/host_page.hpp"
#include "lib/conduit/engine.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

void scribble(conduit::counting_words& words, rank_id ranks, std::mt19937_64& random) {
  auto& word = words.word[random() % 2];
  constexpr std::uint64_t one = std::uint64_t{1} << 34;
  switch (random() % 6) {
    case 0:
      word.store(random());
      break;
    case 1:
      word.fetch_add(one);
      break;
    case 2:
      word.fetch_sub(one);
      break;
    case 3:
      word.fetch_xor(one << 14 << random() % 16);
      break;
    case 4:
      words.came[random() % ranks].store(static_cast<std::uint8_t>(random()));
      break;
    default:
      for (auto& w : words.word) w.store(0);
      for (rank_id r = 0; r < ranks; ++r) words.came[r].store(0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  auto w = world::join();
  JOB_CHECK(w);
  endpoint ep = test::open_endpoint(*w);
  if (auto r = ep.start(4096); !r) fatal(3, "%s", r.error().message().c_str());
  conduit::host_page* const page = ep.internals().page();
  JOB_CHECK(page != nullptr);
  std::mt19937_64 random(std::strtoull(argc > 1 ? argv[1] : "1", nullptr, 10));
  const unsigned barriers = 200, when = 1 + static_cast<unsigned>(random() % 100);
  for (unsigned i = 0; i < barriers; ++i) {
    if (ep.rank() == 1 && i == when) {
      if (const auto us = random() % 500; us > 100) usleep(static_cast<useconds_t>(us));
      scribble(page->meeting(), ep.size(), random);
    }
    JOB_CHECK(ep.barrier() == status::ok);
  }
  return 0;
}
