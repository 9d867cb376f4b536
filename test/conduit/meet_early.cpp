// Job program: at its first barrier a rank names all its partners beforehand, so that their
// connections are made at the same time. Rank 4 comes late. Until then rank 0 waits for it in the
// first of three rounds, and rank 2 is its partner of the second, which has no reason of its own to
// connect with rank 0.
#include "lib/conduit/engine.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace penstock::conduit::PENSTOCK_ABI {
struct test_access {
  /// Whether requests to rank r need not wait for a connection.
  static bool connected(engine& e, std::uint32_t r) {
    return (e.peers_[r].ready.load(std::memory_order_acquire) >> lane_request & 1) != 0;
  }
};
}  // namespace penstock::conduit::PENSTOCK_ABI

namespace {

conduit::engine* here = nullptr;
short_handler<std::uint32_t> answer;
bool answered = false, connected = false;

void on_question(token& t, std::uint32_t rank) {
  const std::uint32_t is = conduit::test_access::connected(*here, rank) ? 1 : 0;
  JOB_CHECK(t.reply_short(answer, is) == status::ok);
}
void on_answer(token&, std::uint32_t is) { answered = true, connected = is != 0; }

}  // namespace

int main() {
  auto w = world::join();
  JOB_CHECK(w);
  JOB_CHECK(w->size() == 5);
  endpoint ep = test::open_endpoint(*w);
  here = &ep.internals();
  const auto question = ep.add<&on_question>();
  answer = ep.add<&on_answer>();
  if (auto r = ep.start(); !r) fatal(3, "%s", r.error().message().c_str());
  if (ep.rank() == 4)
    while (!connected) {
      answered = false;
      JOB_CHECK(ep.request_short(0, question, 2u) == status::ok);
      JOB_CHECK(ep.wait_until([] { return answered; }) == status::ok);
    }
  JOB_CHECK(ep.barrier() == status::ok);
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
