// Job program of two ranks: which queue pairs are made in a thread domain, whose provider takes no
// lock for a post. Each domain of the process has one of its own, and at no time are two threads
// inside posts to queue pairs of one thread domain. Several threads share each domain, send, answer
// in polls of their own and of other domains, put and get.
//   thread_domains DOMAINS   where that many have a thread domain
// The device's table of calls is a copy that knows thread domains; its posts take 100 ns longer, so
// that two threads meet there.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <thread>
#include <vector>

#include "lib/base/backoff.hpp"
#include "lib/base/clock.hpp"
#include "lib/conduit/engine.hpp"
#include "penstock/penstock.hpp"
#include "penstock/rma.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

constexpr unsigned most_domains = 8;

/// A parent domain as a provider may keep it: the plain one, and whether a thread posts there.
struct parent {
  ibv_pd pd{};  // first: verbs shows its address
  ibv_pd* plain = nullptr;
  std::atomic<bool> used{false}, posting{false};
  std::atomic<int> queue_pairs{0};
};
std::array<parent, most_domains> parents;
std::array<ibv_td, most_domains> threads_of;
std::atomic<unsigned> tds{0}, ever{0}, posts{0};

// By number of the queue pair on shm0, which are dense in a process; null: of the plain domain.
constexpr std::size_t most_pairs = 1 << 16;
std::array<std::atomic<parent*>, most_pairs> made_in;

parent* parent_of(ibv_pd* pd) {
  for (parent& p : parents)
    if (&p.pd == pd) return &p;
  return nullptr;
}

const nic::calls* real = nullptr;
int (*real_post)(ibv_qp*, ibv_send_wr*, ibv_send_wr**) = nullptr;

int post(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  parent* const p = made_in[qp->qp_num % most_pairs].load();
  if (p == nullptr) return real_post(qp, wr, bad);
  if (p->posting.exchange(true)) fatal(9, "two threads post to queue pairs of one thread domain");
  const int e = real_post(qp, wr, bad);
  for (const std::uint64_t until = now_ns() + 100; now_ns() < until;) cpu_relax();
  posts.fetch_add(1);
  p->posting.store(false);
  return e;
}

nic::calls knows_thread_domains() {
  nic::calls c = *real;
  c.alloc_td = [](ibv_context*, ibv_td_init_attr*) -> ibv_td* {
    JOB_CHECK(tds.load() < most_domains);
    return &threads_of[tds.fetch_add(1)];
  };
  c.dealloc_td = [](ibv_td*) {
    tds.fetch_sub(1);
    return 0;
  };
  c.alloc_parent_domain = [](ibv_context*, ibv_parent_domain_init_attr* a) -> ibv_pd* {
    for (parent& p : parents)
      if (!p.used.exchange(true)) {
        p.pd.context = a->pd->context;
        p.plain = a->pd;
        ever.fetch_add(1);
        return &p.pd;
      }
    errno = ENOMEM;
    return nullptr;
  };
  c.dealloc_pd = [](ibv_pd* pd) {
    parent* const p = parent_of(pd);
    if (p == nullptr) return real->dealloc_pd(pd);
    JOB_CHECK(p->queue_pairs.load() == 0);
    p->used.store(false);
    return 0;
  };
  c.create_qp = [](ibv_pd* pd, ibv_qp_init_attr* init) {
    parent* const p = parent_of(pd);
    ibv_qp* const qp = real->create_qp(p != nullptr ? p->plain : pd, init);
    if (qp != nullptr && p != nullptr) {
      p->queue_pairs.fetch_add(1);
      JOB_CHECK(made_in[qp->qp_num % most_pairs].exchange(p) == nullptr);
    }
    return qp;
  };
  c.destroy_qp = [](ibv_qp* qp) {
    if (parent* const p = made_in[qp->qp_num % most_pairs].exchange(nullptr))
      p->queue_pairs.fetch_sub(1);
    return real->destroy_qp(qp);
  };
  return c;
}

}  // namespace

namespace penstock::conduit::PENSTOCK_ABI {

/// Before the endpoint starts, as later its threads read what is changed here.
struct test_access {
  static void watch(engine& e) {
    real = e.core_.device_.verbs;
    static nic::calls watched = knows_thread_domains();
    e.core_.device_.verbs = &watched;
    auto& ops = e.core_.device_.context->ops;
    real_post = std::exchange(ops.post_send, post);
  }
  /// The parent domain of each queue pair of messages and transfers; null where it has none.
  template <class Look>
  static void each_queue_pair(engine& e, Look&& look) {
    for (const peer& p : e.core_.all_begun())
      for (const queues::lane& l : p.lanes)
        if (l.qp != nullptr) look(p.home->index, made_in[l.qp->qp_num % most_pairs].load());
  }
};

}  // namespace penstock::conduit::PENSTOCK_ABI

namespace {

constexpr unsigned workers = concurrent(build_mode) ? 4 : 1;
constexpr std::uint32_t messages = 1500;
constexpr std::size_t share = 8192;

struct party {
  std::atomic<std::uint32_t> handled{0}, answers[workers] = {};
  short_handler<std::uint32_t> answer;
  void on_request(token& t, std::span<std::byte>, std::uint32_t who) {
    handled.fetch_add(1);
    JOB_CHECK(t.reply_short(answer, who) == status::ok);
  }
  void on_answer(token&, std::uint32_t who) { answers[who].fetch_add(1); }
};

void work(endpoint& ep, remote_memory& mem, party& me, payload_handler<std::uint32_t> ask,
          unsigned who) {
  const rank_id other = 1 - ep.rank();
  std::vector<std::byte> bytes(share), read(share);
  test::fill(bytes, who + 10 * ep.rank());
  std::byte* const there = ep.segment_of(other).data() + who * share;
  for (std::uint32_t i = 0; i < messages; ++i) {
    const std::size_t n = i % 16 == 15 ? 2000 : 8;
    JOB_CHECK(ep.request_medium(other, ask, std::span(bytes).first(n), who) == status::ok);
    if (i % 32 == 0) JOB_CHECK(mem.put(other, there, bytes) == status::ok);
  }
  JOB_CHECK(ep.wait_until([&] { return me.answers[who].load() == messages; }) == status::ok);
  JOB_CHECK(mem.get(read, other, there) == status::ok && read == bytes);
  JOB_CHECK(ep.wait_until([&] { return me.handled.load() == workers * messages; }) == status::ok);
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned expected = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 0;
  auto w = world::join();
  JOB_CHECK(w);
  party me;
  {
    endpoint ep = test::open_endpoint(*w);
    const auto ask = ep.add<&party::on_request>(&me);
    me.answer = ep.add<&party::on_answer>(&me);
    auto& e = ep.internals();
    conduit::test_access::watch(e);
    if (auto r = ep.start(workers * share); !r) fatal(3, "%s", r.error().message().c_str());
    remote_memory mem(ep);
    JOB_CHECK(ep.barrier() == status::ok);
    std::vector<std::thread> others;
    for (unsigned t = 1; t < workers; ++t)
      others.emplace_back([&, t] { work(ep, mem, me, ask, t); });
    work(ep, mem, me, ask, 0);
    for (auto& t : others) t.join();
    JOB_CHECK(ep.barrier() == status::ok);

    std::array<parent*, most_domains> of{};
    unsigned pairs = 0;
    conduit::test_access::each_queue_pair(e, [&](std::uint32_t domain, parent* p) {
      JOB_CHECK((p != nullptr) == (expected != 0));
      JOB_CHECK(of[domain] == nullptr || of[domain] == p);
      of[domain] = p;
      ++pairs;
    });
    for (unsigned i = 0; i < expected; ++i)
      for (unsigned j = 0; j < i; ++j) JOB_CHECK(of[i] != nullptr && of[i] != of[j]);
    std::printf("%u queue pairs, %u thread domains, %u posts there\n", pairs, ever.load(),
                posts.load());
    JOB_CHECK(pairs != 0 && ever.load() == expected);
    JOB_CHECK((posts.load() != 0) == (expected != 0));
    JOB_CHECK(ep.barrier() == status::ok);
  }
  JOB_CHECK(tds.load() == 0);
  for (const parent& p : parents) JOB_CHECK(!p.used.load());
  return 0;
}
