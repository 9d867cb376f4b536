// Job program of two ranks: the instructions of operations by the C++ interface. Rank 0 asks and
// transfers, rank 1 answers; each prints those of its side. bounded compares them with the bounds.
#include <sched.h>

#include <array>
#include <cstdint>
#include <span>

#include "penstock/penstock.hpp"
#include "penstock/rma.hpp"
#include "test/conduit/job_check.hpp"
#include "test/instructions/steps.h"

using namespace penstock;

namespace {

enum kind { short_, medium, kinds };

struct party {
  short_handler<std::uint32_t> ask, answer;
  payload_handler<> ask_medium, answer_medium;
  unsigned asked = 0, answered = 0;
  kind last = short_;
  bool counts = false, over = false;
  short_handler<> count, end;

  void on_ask(token& t, std::uint32_t i) {
    ++asked, last = short_;
    (void)t.reply_short(answer, i);
  }
  void on_answer(token&, std::uint32_t) { ++answered; }
  void on_ask_medium(token& t, std::span<std::byte> payload) {
    ++asked, last = medium;
    (void)t.reply_medium(answer_medium, payload);
  }
  void on_answer_medium(token&, std::span<std::byte>) { ++answered; }
  void on_count(token&) { counts = !counts; }
  void on_end(token&) { over = true; }
};

std::array<std::byte, 64> payload{};

status ask(endpoint& ep, party& me, kind k) {
  return k == short_ ? ep.request_short(1, me.ask, std::uint32_t{7})
                     : ep.request_medium(1, me.ask_medium, std::span<const std::byte>(payload));
}

void asks(endpoint& ep, party& me) {
  steps_of request[kinds] = {{"request_short", 0, {}}, {"request_medium", 0, {}}};
  steps_of reply[kinds] = {{"poll_short_reply", 0, {}}, {"poll_medium_reply", 0, {}}};
  steps_of empty{"poll_empty", 0, {}};
  for (const kind k : {short_, medium}) {
    for (int i = 0; i < steps_warm_up + steps_rounds; ++i) {
      const bool counts = i >= steps_warm_up;
      const unsigned before = me.answered;
      status s{};
      if (!counts) {
        JOB_CHECK(ask(ep, me, k) == status::ok);
        JOB_CHECK(ep.wait_until([&] { return me.answered != before; }) == status::ok);
        continue;
      }
      if (i == steps_warm_up) JOB_CHECK(ep.request_short(1, me.count) == status::ok);
      steps_note(&request[k],
                 k == short_ ? STEPS(s = ask(ep, me, short_)) : STEPS(s = ask(ep, me, medium)));
      JOB_CHECK(s == status::ok);
      while (me.answered == before) {
        steps_wait();
        const long n = STEPS(s = ep.poll());
        JOB_CHECK(s == status::ok);
        steps_note(me.answered == before ? &empty : &reply[k], n);
      }
    }
    JOB_CHECK(ep.request_short(1, me.count) == status::ok);
    steps_print(&request[k]);
    steps_print(&reply[k]);
  }
  while (empty.count < steps_samples) {
    status s{};
    steps_note(&empty, STEPS(s = ep.poll()));
    JOB_CHECK(s == status::ok);
  }
  steps_print(&empty);
}

void transfers(endpoint& ep) {
  remote_memory memory(ep);
  steps_of put{"put", 0, {}}, get{"get", 0, {}};
  std::uint64_t word = 5;
  auto* const there = ep.segment_of(1).data();
  for (int i = 0; i < steps_samples; ++i) {
    status s{};
    const long p = STEPS(s = memory.put(1, there, std::as_bytes(std::span(&word, 1))));
    JOB_CHECK(s == status::ok);
    const long g = STEPS(s = memory.get(std::as_writable_bytes(std::span(&word, 1)), 1, there));
    JOB_CHECK(s == status::ok && word == 5);
    steps_note(&put, p), steps_note(&get, g);
  }
  steps_print(&put);
  steps_print(&get);
}

void answers(endpoint& ep, party& me) {
  steps_of handled[kinds] = {{"poll_short_request", 0, {}}, {"poll_medium_request", 0, {}}};
  while (!me.over) {
    const unsigned before = me.asked;
    status s{};
    if (!me.counts) {
      JOB_CHECK(ep.poll() == status::ok);
      sched_yield();
      continue;
    }
    steps_wait();
    const long n = STEPS(s = ep.poll());
    JOB_CHECK(s == status::ok);
    if (me.asked == before) continue;
    steps_note(&handled[me.last], n);
  }
  steps_print(&handled[short_]);
  steps_print(&handled[medium]);
}

}  // namespace

int main() {
  auto w = world::join();
  JOB_CHECK(w);
  party me;
  endpoint ep = test::open_endpoint(*w);
  me.ask = ep.add<&party::on_ask>(&me);
  me.answer = ep.add<&party::on_answer>(&me);
  me.ask_medium = ep.add<&party::on_ask_medium>(&me);
  me.answer_medium = ep.add<&party::on_answer_medium>(&me);
  me.count = ep.add<&party::on_count>(&me);
  me.end = ep.add<&party::on_end>(&me);
  if (auto r = ep.start(4096); !r) fatal(3, "%s", r.error().message().c_str());
  JOB_CHECK(ep.barrier() == status::ok);
  steps_begin();
  if (ep.rank() == 0) {
    asks(ep, me);
    transfers(ep);
    JOB_CHECK(ep.request_short(1, me.end) == status::ok);
  } else {
    answers(ep, me);
  }
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
