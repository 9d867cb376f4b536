// Job program: a thread of rank 0 stands still, like one that a debugger has stopped, inside each
// region that excludes other threads. Meanwhile others of the process send to the same peer (send),
// take and answer its requests (take), and make round trips with it (ask). Each either goes on, or
// waits for the held thread; the program prints a table of this. And three polling threads have to
// run three handlers of one sender at a time (three).
//   held MAY_WAIT...   REGION.DEED that may wait; any other that does not go on is a failure
#include <atomic>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/thread_index.hpp"
#include "lib/conduit/engine.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace penstock::conduit::PENSTOCK_ABI {
struct test_access {
  static peer& channel(engine& e, rank_id r) { return e.core_.begun(e.core_.channel(r, my_tag())); }
  // Leaves an end of p as the engine does. What was left for request_out is sent by polls.
  static void leave(engine& e, peer& p, queue_owner& o) {
    e.ways_.of(p, [&](auto& path) {
      if constexpr (requires { path.leave_replies(p, my_tag()); })
        if (&o == &p.reply_out) return path.leave_replies(p, my_tag());
      o.leave(my_tag());
    });
  }
};
}  // namespace penstock::conduit::PENSTOCK_ABI

namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;
constexpr std::uint64_t goes_on_ns = 20 * second_ns;  // only a thread that waits takes so long
constexpr std::uint64_t waits_ns = second_ns / 2;     // where it may wait
constexpr std::uint32_t knocks = 32;                  // of rank 1, on their way at a time

// ---- the thread that is held ----

std::atomic<bool> held{false}, let_go{false};

void stay() {
  held.store(true);
  while (!let_go.load()) {
    const timespec moment{0, 200'000};
    nanosleep(&moment, nullptr);
  }
}

enum class work : int { none, enter, poll, ask, end };
std::atomic<work> given{work::none};
std::atomic<bool> stay_in_request{false}, stay_in_reply{false};
thread_local bool is_victim = false;

// ---- the job ----

struct party {
  std::atomic<std::uint64_t> visited{0};               // rank 1: requests without an answer
  std::atomic<std::uint64_t> wanted{0};                // rank 1: knocks that may go
  std::atomic<std::uint64_t> replies{0};               // rank 1: to knocks
  std::atomic<bool> over{false};                       // rank 1
  std::atomic<std::uint64_t> knocked{0}, answered{0};  // rank 0
  std::atomic<int> inside{0};                          // rank 0: handlers that wait for others
  std::atomic<bool> meet{false}, met{false};
  short_handler<> answer, heard;

  void on_visit(token&) { visited.fetch_add(1); }
  void on_call(token& t) { JOB_CHECK(t.reply_short(answer) == status::ok); }
  void on_answer(token&) {
    if (is_victim && stay_in_reply.exchange(false)) stay(), held.store(false);
    answered.fetch_add(1);
  }
  void on_knock(token& t) {
    if (is_victim && stay_in_request.exchange(false)) stay(), held.store(false);
    if (meet.load()) {
      if (inside.fetch_add(1) + 1 == 3) met.store(true);
      const std::uint64_t until = now_ns() + waits_ns;
      while (!met.load() && now_ns() < until) std::this_thread::yield();
      inside.fetch_sub(1);
    }
    knocked.fetch_add(1);
    JOB_CHECK(t.reply_short(heard) == status::ok);
  }
  void on_heard(token&) { wanted.fetch_add(1), replies.fetch_add(1); }
  void on_over(token&) { over.store(true); }
};

class scene {
 public:
  scene(endpoint& ep, party& me, short_handler<> visit, short_handler<> call,
        std::set<std::string> may_wait)
      : ep_(ep), me_(me), visit_(visit), call_(call), may_wait_(std::move(may_wait)) {}

  void run() {
    victim_ = std::thread([this] { be_victim(); });
    auto& p = conduit::test_access::channel(ep_.internals(), 1);
    by_owner("request_out", p.request_out);
    by_owner("request_in", p.request_in);
    by_owner("reply_in", p.reply_in);
    by_owner("reply_out", p.reply_out);
    by_handler("request_handler", work::poll, stay_in_request);
    by_handler("reply_handler", work::ask, stay_in_reply);
    given.store(work::end);
    victim_.join();
    three();
  }
  [[nodiscard]] std::uint64_t visits() const { return visits_.load(); }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  void be_victim() {
    is_victim = true;
    while (true) switch (given.load()) {
        case work::none:
          std::this_thread::yield();
          break;
        case work::enter:
          while (!to_enter_->try_enter(thread_tag())) std::this_thread::yield();
          stay();
          conduit::test_access::leave(
              ep_.internals(), conduit::test_access::channel(ep_.internals(), 1), *to_enter_);
          while (given.load() == work::enter) std::this_thread::yield();
          held.store(false);
          break;
        case work::poll:
          (void)ep_.poll();
          break;
        case work::ask:
          ask();
          break;
        case work::end:
          return;
      }
  }
  void ask() {
    const std::uint64_t before = me_.answered.load();
    JOB_CHECK(ep_.request_short(1, call_) == status::ok);
    JOB_CHECK(ep_.wait_until([&] { return me_.answered.load() > before; }) == status::ok);
  }

  // The victim enters o, as whoever uses that end does, and stays there.
  void by_owner(const char* region, conduit::queue_owner& o) {
    let_go.store(false);
    to_enter_ = &o;
    given.store(work::enter);
    while (!held.load()) std::this_thread::yield();
    watch(region);
    rest();
  }
  void by_handler(const char* region, work w, std::atomic<bool>& flag) {
    let_go.store(false);
    flag.store(true);
    given.store(w);
    while (!held.load()) std::this_thread::yield();
    watch(region);
    rest();
  }
  void release() {
    let_go.store(true);
    while (held.load()) std::this_thread::yield();
  }
  void rest() {
    given.store(work::none);
    if (held.load()) release();
    for (auto& t : others_) t.join();
    others_.clear();
  }

  // The victim is held; who else goes on?
  void watch(const std::string& region) {
    std::printf("%-16s", region.c_str());
    tell(region, "send", [this] {
      for (int i = 0; i < 40; ++i) {
        JOB_CHECK(ep_.request_short(1, visit_) == status::ok);
        visits_.fetch_add(1);
      }
    });
    tell(region, "take", [this] {
      const std::uint64_t before = me_.knocked.load();
      JOB_CHECK(ep_.wait_until([&] { return me_.knocked.load() > before + 3; }) == status::ok);
    });
    tell(region, "ask", [this] { ask(); });
    std::printf("\n");
    std::fflush(stdout);
  }
  template <class Deed>
  void tell(const std::string& region, const char* deed, Deed work) {
    const auto done = std::make_shared<std::atomic<bool>>(false);
    others_.emplace_back([work, done] {
      work();
      done->store(true);
    });
    const bool may = may_wait_.contains(region + "." + deed);
    const std::uint64_t until = now_ns() + (may ? waits_ns : goes_on_ns);
    while (!done->load() && now_ns() < until) std::this_thread::yield();
    say(deed, done->load(), may);
  }
  void say(const char* deed, bool goes_on, bool may_wait) {
    std::printf("  %s: %s%s", deed, goes_on ? "goes on" : "waits",
                goes_on || may_wait ? "" : ", which it may not");
    failed_ |= !goes_on && !may_wait;
  }

  void three() {
    me_.meet.store(true);
    const bool may = may_wait_.contains("three.at_once");
    std::atomic<bool> enough{false};
    for (int i = 0; i < 3; ++i)
      others_.emplace_back([this, &enough] {
        JOB_CHECK(ep_.wait_until([&] { return enough.load(); }) == status::ok);
      });
    const std::uint64_t until = now_ns() + (may ? 4 * waits_ns : goes_on_ns);
    while (!me_.met.load() && now_ns() < until) std::this_thread::yield();
    me_.meet.store(false);
    enough.store(true);
    rest();
    std::printf("%-16s", "three handlers");
    say("at once", me_.met.load(), may);
    std::printf("\n");
  }

  endpoint& ep_;
  party& me_;
  short_handler<> visit_, call_;
  std::set<std::string> may_wait_;
  std::atomic<std::uint64_t> visits_{0};
  bool failed_ = false;
  conduit::queue_owner* to_enter_ = nullptr;  // given with work::enter
  std::thread victim_;
  std::vector<std::thread> others_;
};

}  // namespace

int main(int argc, char** argv) {
  auto w = world::join();
  JOB_CHECK(w);
  party me;
  endpoint ep = test::open_endpoint(*w);
  const auto visit = ep.add<&party::on_visit>(&me);
  const auto call = ep.add<&party::on_call>(&me);
  const auto knock = ep.add<&party::on_knock>(&me);
  const auto over = ep.add<&party::on_over>(&me);
  me.answer = ep.add<&party::on_answer>(&me);
  me.heard = ep.add<&party::on_heard>(&me);
  if (auto r = ep.start(); !r) fatal(3, "%s", r.error().message().c_str());
  JOB_CHECK(ep.size() == 2);
  JOB_CHECK(ep.barrier() == status::ok);
  std::uint64_t visits = 0;
  bool failed = false;
  if (ep.rank() == 0) {
    scene s(ep, me, visit, call, {argv + 1, argv + argc});
    s.run();
    visits = s.visits();
    failed = s.failed();
    JOB_CHECK(ep.quiet() == status::ok);
    JOB_CHECK(ep.request_short(1, over) == status::ok);
  } else {
    me.wanted.store(knocks);
    std::uint64_t sent = 0;
    while (!me.over.load()) {
      unsigned n = 0;
      (void)ep.wait_until([&] { return ++n > 1 || me.wanted.load() != 0 || me.over.load(); });
      if (me.over.load() || me.wanted.load() == 0) continue;
      me.wanted.fetch_sub(1);
      JOB_CHECK(ep.request_short(0, knock) == status::ok);
      ++sent;
    }
    // No answer that was left to a held thread is lost.
    JOB_CHECK(ep.wait_until([&] { return me.replies.load() == sent; }) == status::ok);
  }
  JOB_CHECK(ep.barrier() == status::ok);
  // Nothing that was handed over is lost.
  auto all = w->exchange(std::as_bytes(std::span(&visits, 1)));
  JOB_CHECK(all);
  if (ep.rank() == 1) {
    std::uint64_t sent;
    std::memcpy(&sent, (*all)[0].data(), sizeof sent);
    JOB_CHECK(me.visited.load() == sent);
  }
  JOB_CHECK(!failed);
  return 0;
}
