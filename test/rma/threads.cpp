// Job program: several threads at once put, get and set at random in their own parts of every
// segment, with many operations in flight, which are waited for in any order, and by other threads,
// too. Each part has a copy here that says what it must hold.
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string_view>
#include <thread>

#include "test/rma/job.hpp"

using namespace penstock;

namespace {

constexpr std::size_t constant = 5000;
std::size_t part = 1 << 17, longest = 65538;  // of a thread in each segment; of a transfer

// A get that another thread may wait for, with the memory it goes to.
struct handed {
  std::unique_ptr<std::vector<std::byte>> bytes;
  operation op;
};

class hand_over {
 public:
  void give(handed&& h) {
    const std::lock_guard l(lock_);
    ops_.push_back(std::move(h));
  }
  // The oldest, which is mostly another thread's.
  handed take() {
    const std::lock_guard l(lock_);
    handed h = std::move(ops_.front());
    ops_.pop_front();
    return h;
  }

 private:
  std::mutex lock_;
  std::deque<handed> ops_;
};

struct worker {
  test::job& j;
  hand_over& others;
  unsigned number, threads, steps;

  void run() {
    remote_memory m(j.ep);
    std::mt19937 random(j.ep.rank() * 100 + number);
    const auto pick = [&](std::size_t below) { return random() % below; };
    const std::size_t place = (j.ep.rank() * threads + number) * part;
    std::vector<std::vector<std::byte>> model(j.ep.size(), std::vector<std::byte>(part));
    std::vector<std::vector<std::byte>> sources;
    std::vector<std::byte> back(part);
    for (unsigned step = 0; step < steps; ++step) {
      const auto to = static_cast<rank_id>(pick(j.ep.size()));
      std::byte* const base = j.at(to, place);
      // A burst of puts that do not overlap, then a look at everything around them.
      const std::size_t slots = 1 + pick(12), width = part / slots;
      std::vector<operation> ops;
      sources.clear();
      sources.reserve(slots);
      for (std::size_t k = 0; k < slots; ++k) {
        const std::size_t n = pick(std::min<std::size_t>(width, pick(4) == 0 ? longest : 3000));
        const std::size_t at = k * width + pick(width - n);
        std::byte* const image = model[to].data() + at;
        switch (pick(5)) {
          case 0: {
            const auto v = static_cast<std::byte>(random());
            ops.push_back(m.set_nb(to, base + at, v, n));
            std::fill_n(image, n, v);
            continue;
          }
          case 1:
            sources.emplace_back(n);
            test::fill(sources.back(), static_cast<std::uint32_t>(random()));
            std::copy_n(sources.back().data(), n, image);
            ops.push_back(m.put_nb(to, base + at, sources.back(), source_reuse::on_completion));
            break;
          case 2:
            sources.emplace_back(n);
            test::fill(sources.back(), static_cast<std::uint32_t>(random()));
            std::copy_n(sources.back().data(), n, image);
            JOB_CHECK(m.put_nbi(to, base + at, sources.back(), source_reuse::on_completion) ==
                      status::ok);
            break;
          default:
            sources.emplace_back(n);
            test::fill(sources.back(), static_cast<std::uint32_t>(random()));
            std::copy_n(sources.back().data(), n, image);
            ops.push_back(m.put_nb(to, base + at, sources.back()));
            std::fill(sources.back().begin(), sources.back().end(), std::byte{});
            break;
        }
      }
      std::shuffle(ops.begin(), ops.end(), random);
      if (pick(2) == 0) JOB_CHECK(wait_some(ops) == status::ok);
      JOB_CHECK(wait_all(ops) == status::ok);
      JOB_CHECK(m.wait_puts() == status::ok);
      JOB_CHECK(m.get(back, to, base) == status::ok);
      JOB_CHECK(back == model[to]);
      // A get of bytes that nobody changes, waited for by whoever comes across it.
      handed mine{std::make_unique<std::vector<std::byte>>(1 + pick(constant)), {}};
      mine.op = m.get_nb(*mine.bytes, to, j.at(to, j.ep.segment().size() - constant));
      others.give(std::move(mine));
      handed found = others.take();
      JOB_CHECK(found.op.wait() == status::ok);
      JOB_CHECK(test::holds(*found.bytes, 5));
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  const unsigned threads = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1;
  const unsigned steps = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 100;
  if (argc > 3 && std::string_view(argv[3]) == "large") part = 1 << 22, longest = 3 << 20;
  constexpr rank_id size = 8;
  auto j = test::job::start(std::size_t{size} * threads * part + 8192);
  test::fill(j.ep.segment().last(constant), 5);
  j.meet();
  JOB_CHECK(j.ep.size() <= size);
  hand_over others;
  for (unsigned i = 1; i < threads; ++i)
    others.give({std::make_unique<std::vector<std::byte>>(), operation()});
  {
    std::vector<std::jthread> all;
    for (unsigned i = 1; i < threads; ++i)
      all.emplace_back([&, i] { worker{j, others, i, threads, steps}.run(); });
    worker{j, others, 0, threads, steps}.run();
  }
  j.meet();
  return 0;
}
