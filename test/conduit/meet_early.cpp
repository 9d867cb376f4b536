// Job program: at its first barrier a rank names all its partners beforehand, so that their
// connections are made at the same time.
//   meet_early [words|slots]
// The barrier of the C++ interface; or that of gasnet.h, by messages, or by slots in the segment.
// Rank 4 comes late. Until then rank 0 waits for it in the first round, or its parent in a tree
// waits for it; and ranks 2 and 4 are partners of rank 0 in later rounds, with which it has no
// reason of its own to connect yet, by the lane on which its words go.
#include <cstring>
#include <optional>

#include "lib/conduit/collective/barrier.hpp"
#include "lib/conduit/engine.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace penstock::conduit::PENSTOCK_ABI {
struct test_access {
  /// Whether requests to rank r, or puts, need not wait for a connection.
  static bool connected(engine& e, std::uint32_t r, bool puts) {
    const unsigned lane = puts && !e.maps(r) ? lane_rma : lane_request;
    return (e.core_.peers_[r].ready.load(std::memory_order_acquire) >> lane & 1) != 0;
  }
};
}  // namespace penstock::conduit::PENSTOCK_ABI

namespace {

conduit::engine* here = nullptr;
short_handler<std::uint32_t> answer;
bool answered = false, connected = false, by_put = false;

void on_question(token& t, std::uint32_t rank) {
  bool is = conduit::test_access::connected(*here, rank, by_put);
  if (by_put) is = is && conduit::test_access::connected(*here, t.at().size() - 1, by_put);
  JOB_CHECK(t.reply_short(answer, is ? 1u : 0u) == status::ok);
}
void on_answer(token&, std::uint32_t is) { answered = true, connected = is != 0; }

}  // namespace

int main(int argc, char** argv) {
  const bool words = argc > 1 && std::strcmp(argv[1], "words") == 0;
  by_put = argc > 1 && !words;
  auto w = world::join();
  JOB_CHECK(w);
  JOB_CHECK(w->size() == 5);
  endpoint ep = test::open_endpoint(*w);
  here = &ep.internals();
  const auto question = ep.add<&on_question>();
  answer = ep.add<&on_answer>();
  constexpr std::uint8_t handler = 8;
  std::optional<conduit::barrier> split;
  if (argc > 1) split.emplace(*here, handler);
  if (auto r = ep.start(by_put ? 65536 : 0); !r) fatal(3, "%s", r.error().message().c_str());
  if (by_put) split->use_segment();
  const auto meet = [&] {
    if (!split) return ep.barrier() == status::ok;
    conduit::barrier_vote all;
    split->notify({});
    return split->pass(all) == status::ok;
  };
  if (ep.rank() == 4)
    while (!connected) {
      answered = false;
      JOB_CHECK(ep.request_short(0, question, 2u) == status::ok);
      JOB_CHECK(ep.wait_until([] { return answered; }) == status::ok);
    }
  JOB_CHECK(meet());
  JOB_CHECK(meet());
  if (split) JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
