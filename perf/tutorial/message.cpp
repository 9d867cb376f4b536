// Step 1 of the tutorial: rank 0 asks every rank for its share of a sum and is answered.
//   penrun -n 4 tutorial_message
#include <array>
#include <cstdint>
#include <cstdio>
#include <penstock/penstock.hpp>

using namespace penstock;

struct sum {
  payload_handler<std::uint64_t> work;  // a request: numbers to add up, and where they begin
  short_handler<std::uint64_t> result;  // its reply: their sum
  std::uint64_t total = 0;
  unsigned answers = 0;

  // Runs at the rank that was asked, while it polls.
  void on_work(token& t, std::span<std::byte> payload, std::uint64_t first) {
    std::array<std::uint64_t, 100> numbers;
    if (payload.size() != sizeof numbers) return;
    std::memcpy(numbers.data(), payload.data(), sizeof numbers);
    std::uint64_t s = 0;
    for (const std::uint64_t n : numbers) s += n;
    std::printf("rank %u: the 100 numbers from %lu on make %lu\n", t.at().rank(), first, s);
    (void)t.reply_short(result, s);
  }
  // Runs at rank 0, while it polls.
  void on_result(token&, std::uint64_t s) {
    total += s;
    ++answers;
  }
};

// What rank 0 does, and in the end all: the first failure, or ok.
static status run(endpoint& ep, sum& s) {
  if (ep.rank() == 0) {
    for (rank_id r = 0; r < ep.size(); ++r) {
      std::array<std::uint64_t, 100> numbers;
      for (std::uint64_t i = 0; i < numbers.size(); ++i) numbers[i] = r * numbers.size() + i;
      const status sent =
          ep.request_medium(r, s.work, std::as_bytes(std::span(numbers)), numbers[0]);
      if (is_failure(sent)) return sent;
    }
    const status waited = ep.wait_until([&] { return s.answers == ep.size(); });
    if (is_failure(waited)) return waited;
    std::printf("rank 0: all together make %lu\n", s.total);
  }
  return ep.barrier();  // handlers run meanwhile: here the other ranks do their work
}

int main() {
  result<world> job = world::join();
  if (!job) return std::fprintf(stderr, "%s\n", job.error().message().c_str()), 1;
  result<endpoint> ep = endpoint::open(*job);
  if (!ep) return std::fprintf(stderr, "%s\n", ep.error().message().c_str()), 1;

  sum s;
  s.work = ep->add<&sum::on_work>(&s);  // the same handlers in the same order on every rank
  s.result = ep->add<&sum::on_result>(&s);
  if (const auto started = ep->start(); !started)
    return std::fprintf(stderr, "%s\n", started.error().message().c_str()), 1;

  const status done = run(*ep, s);
  if (is_failure(done)) std::fprintf(stderr, "tutorial_message: %s\n", describe(done));
  return is_failure(done) ? 1 : 0;
}
