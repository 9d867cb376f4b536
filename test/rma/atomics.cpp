// Job program: every remote atomic on every type, one at a time against the expected value, then
// many at once from all ranks and threads, whose sum, maximum or bits show whether one was torn or
// lost. By the processor (mapped memory or messages) and, if there is one, by the device.
#include <barrier>
#include <cmath>
#include <limits>
#include <thread>

#include "penstock/atomic.hpp"
#include "test/rma/job.hpp"

using namespace penstock;
using op = atomic_ops;

namespace {

constexpr std::size_t page = 4096;

template <class T>
constexpr op arithmetic = op::get | op::set | op::swap | op::cas | op::add | op::sub | op::inc |
                          op::dec | op::mult | op::min | op::max |
                          (std::integral<T> ? op::bit_and | op::bit_or | op::bit_xor : op::get);

// One word of rank `to` that only this rank uses now.
template <class T>
void one_by_one(remote_memory& m, rank_id to, T* word) {
  atomic_domain<T> d(m, arithmetic<T>);
  JOB_CHECK(!d.by_device());
  T old{}, now{};
  const auto expect = [&](status s, T before, T after) {
    JOB_CHECK(s == status::ok);
    JOB_CHECK(old == before);
    JOB_CHECK(d.get(to, word, now) == status::ok);
    JOB_CHECK(now == after);
  };
  JOB_CHECK(d.set(to, word, T{7}) == status::ok);
  expect(d.swap(to, word, T{9}, old), T{7}, T{9});
  expect(d.cas(to, word, T{8}, T{1}, old), T{9}, T{9});
  expect(d.cas(to, word, T{9}, T{20}, old), T{9}, T{20});
  expect(d.fetch_add(to, word, T{5}, old), T{20}, T{25});
  expect(d.fetch_sub(to, word, T{4}, old), T{25}, T{21});
  expect(d.fetch_inc(to, word, old), T{21}, T{22});
  expect(d.fetch_dec(to, word, old), T{22}, T{21});
  expect(d.fetch_mult(to, word, T{3}, old), T{21}, T{63});
  expect(d.fetch_min(to, word, T{70}, old), T{63}, T{63});
  expect(d.fetch_min(to, word, T{12}, old), T{63}, T{12});
  expect(d.fetch_max(to, word, T{2}, old), T{12}, T{12});
  expect(d.fetch_max(to, word, T{14}, old), T{12}, T{14});
  old = T{14};
  expect(d.add(to, word, T{1}), T{14}, T{15});
  expect(d.sub(to, word, T{2}), T{14}, T{13});
  expect(d.inc(to, word), T{14}, T{14});
  expect(d.dec(to, word), T{14}, T{13});
  expect(d.mult(to, word, T{2}), T{14}, T{26});
  expect(d.min(to, word, T{11}), T{14}, T{11});
  expect(d.max(to, word, T{13}), T{14}, T{13});
  expect(d.cas(to, word, T{13}, T{14}), T{14}, T{14});
  if constexpr (std::integral<T>) {
    expect(d.fetch_and(to, word, T{6}, old), T{14}, T{6});
    expect(d.fetch_or(to, word, T{9}, old), T{6}, T{15});
    expect(d.fetch_xor(to, word, T{5}, old), T{15}, T{10});
    expect(d.bit_and(to, word, T{3}), T{15}, T{2});
    expect(d.bit_or(to, word, T{12}), T{15}, T{14});
    expect(d.bit_xor(to, word, T{15}), T{15}, T{1});
    JOB_CHECK(d.set(to, word, std::numeric_limits<T>::max()) == status::ok);
    expect(d.fetch_inc(to, word, old), std::numeric_limits<T>::max(),
           std::numeric_limits<T>::min());
    if constexpr (std::signed_integral<T>) {
      expect(d.fetch_min(to, word, T{-1}, old), std::numeric_limits<T>::min(),
             std::numeric_limits<T>::min());
      expect(d.fetch_max(to, word, T{-1}, old), std::numeric_limits<T>::min(), T{-1});
    }
  } else {
    JOB_CHECK(d.set(to, word, T(0.5)) == status::ok);
    expect(d.fetch_add(to, word, T(-0.75), old), T(0.5), T(-0.25));
    expect(d.fetch_max(to, word, T(-0.5), old), T(-0.25), T(-0.25));
  }
  operation late = d.template start<op::add>(to, word, T{1}, T{}, &old);
  const T before = now;
  JOB_CHECK(late.wait() == status::ok);
  JOB_CHECK(old == before);
}

// The device's operations, on a word that only this rank uses now.
void one_by_one_by_device(remote_memory& m, rank_id to, std::int64_t* word) {
  atomic_domain<std::int64_t> d(m, op::get | op::cas | op::add | op::sub | op::inc | op::dec);
  std::int64_t old = 0, now = 0;
  const auto expect = [&](status s, std::int64_t before, std::int64_t after) {
    JOB_CHECK(s == status::ok);
    JOB_CHECK(old == before);
    JOB_CHECK(d.get(to, word, now) == status::ok);
    JOB_CHECK(now == after);
  };
  expect(d.fetch_add(to, word, 100, old), 0, 100);
  expect(d.fetch_sub(to, word, 150, old), 100, -50);
  expect(d.fetch_inc(to, word, old), -50, -49);
  expect(d.fetch_dec(to, word, old), -49, -50);
  expect(d.cas(to, word, 1, 2, old), -50, -50);
  expect(d.cas(to, word, -50, 2, old), -50, 2);
  old = 0;
  expect(d.add(to, word, 1), 0, 3);
  expect(d.sub(to, word, 2), 0, 1);
  expect(d.inc(to, word), 0, 2);
  expect(d.dec(to, word), 0, 1);
}

// All ranks and threads at once on the same words of every rank: counters by fetch_add, by
// compare-and-swap, and the largest value seen.
template <class T>
struct contest {
  remote_memory& m;
  endpoint& ep;
  std::size_t offset;
  unsigned rounds;
  atomic_ops set = op::get | op::add | op::cas | op::inc | op::max;

  T* word(rank_id r, unsigned i) const {
    return reinterpret_cast<T*>(ep.segment_of(r).data() + offset) + i;
  }
  void run() const {
    atomic_domain<T> d(m, set);
    for (unsigned i = 0; i < rounds; ++i)
      for (rank_id r = 0; r < ep.size(); ++r) {
        T old{};
        JOB_CHECK(d.inc(r, word(r, 0)) == status::ok);
        JOB_CHECK(d.fetch_add(r, word(r, 1), T{2}, old) == status::ok);
        T expected{};
        JOB_CHECK(d.get(r, word(r, 2), expected) == status::ok);
        while (true) {
          JOB_CHECK(d.cas(r, word(r, 2), expected, expected + T{1}, old) == status::ok);
          if (old == expected) break;
          expected = old;
        }
      }
  }
  void check(unsigned contestants) const {
    atomic_domain<T> d(m, set);
    const auto total = static_cast<T>(contestants * rounds);
    for (rank_id r = 0; r < ep.size(); ++r)
      for (unsigned i = 0; i < 3; ++i) {
        T v{};
        JOB_CHECK(d.get(r, word(r, i), v) == status::ok);
        JOB_CHECK(v == (i == 1 ? static_cast<T>(total * 2) : total));
      }
  }
};

}  // namespace

int main(int argc, char** argv) {
  const unsigned threads = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1;
  const unsigned rounds = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 300;
  auto j = test::job::start(64 * page);
  remote_memory m(j.ep);
  for (rank_id to = 0; to < j.ep.size(); ++to) {
    std::byte* const mine = j.at(to, j.ep.rank() * 64);
    one_by_one(m, to, reinterpret_cast<std::int32_t*>(mine));
    one_by_one(m, to, reinterpret_cast<std::uint32_t*>(mine + 4));
    one_by_one(m, to, reinterpret_cast<std::int64_t*>(mine + 8));
    one_by_one(m, to, reinterpret_cast<std::uint64_t*>(mine + 16));
    one_by_one(m, to, reinterpret_cast<float*>(mine + 24));
    one_by_one(m, to, reinterpret_cast<double*>(mine + 32));
    one_by_one_by_device(m, to, reinterpret_cast<std::int64_t*>(mine + 40));
  }
  j.meet();

  const contest<std::uint64_t> by_device{m, j.ep, page, rounds,
                                         op::get | op::add | op::cas | op::inc};
  const contest<std::int32_t> small{m, j.ep, 2 * page, rounds};
  const contest<double> real{m, j.ep, 3 * page, rounds};
  {
    std::vector<std::jthread> all;
    const auto run = [&] {
      by_device.run();
      small.run();
      real.run();
    };
    for (unsigned i = 1; i < threads; ++i) all.emplace_back(run);
    run();
  }
  j.meet();
  const unsigned contestants = threads * j.ep.size();
  by_device.check(contestants);
  small.check(contestants);
  real.check(contestants);
  if (j.ep.rank() == 0)
    std::printf("64-bit counters: by %s\n",
                atomic_domain<std::uint64_t>(m, op::add).by_device() ? "device" : "processor");
  j.meet();
  return 0;
}
