// hello: every process of the job greets its neighbour, and is answered.
//   penrun -n 4 hello
#include <cstdio>
#include <penstock/penstock.hpp>

using namespace penstock;

struct politeness {
  short_handler<unsigned> greeting, answer;
  bool greeted = false, answered = false;

  // Runs at the neighbour, while it polls.
  void on_greeting(token& t, unsigned from) {
    std::printf("rank %u: rank %u says hello\n", t.at().rank(), from);
    greeted = t.reply_short(answer, t.at().rank()) == status::ok;
  }
  // Runs at home again.
  void on_answer(token& t, unsigned from) {
    std::printf("rank %u: rank %u answers\n", t.at().rank(), from);
    answered = true;
  }
};

static int failed(const failure& e) {
  std::fprintf(stderr, "hello: %s\n", e.message().c_str());
  return 1;
}

int main() {
  result<world> job = world::join();
  if (!job) return failed(job.error());
  result<endpoint> ep = endpoint::open(*job);
  if (!ep) return failed(ep.error());

  politeness p;
  p.greeting = ep->add<&politeness::on_greeting>(&p);
  p.answer = ep->add<&politeness::on_answer>(&p);
  if (const auto started = ep->start(); !started) return failed(started.error());
  if (ep->rank() == 0) std::printf("%u processes, %s\n", ep->size(), ep->device().c_str());

  const rank_id neighbour = (ep->rank() + 1) % ep->size();
  status s = ep->request_short(neighbour, p.greeting, ep->rank());
  if (!is_failure(s)) s = ep->wait_until([&p] { return p.greeted && p.answered; });
  if (!is_failure(s)) s = ep->barrier();
  if (is_failure(s)) std::fprintf(stderr, "hello: %s\n", describe(s));
  return is_failure(s) ? 1 : 0;
}
