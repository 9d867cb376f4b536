#include "perf/twin_ring.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <thread>
#include <vector>

#include "perf/probe.hpp"

using namespace penstock::perf;

namespace {

std::vector<std::byte> pattern(std::size_t n, unsigned seed) {
  std::vector<std::byte> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<std::byte>(i * 7 + seed + i / 251);
  return v;
}

/// Sends messages of all the sizes, several laps of the ring, and compares what was read.
template <layout L>
void all_arrives(const std::vector<std::size_t>& sizes, int times) {
  auto memory = std::make_unique<ring_memory>();
  std::uint64_t sent = 0;
  std::jthread producer([&] {
    ring_producer out(*memory);
    for (int t = 0; t < times; ++t)
      for (const std::size_t n : sizes) {
        const auto message = pattern(n, static_cast<unsigned>(t));
        // The words are summed as they are cut into lines, as the consumer does.
        std::size_t at = 0;
        while (at < n) {
          const bool cut = L == layout::slots || at == 0;
          const std::size_t here = cut && n - at > line_body ? line_body : n - at;
          sent += read_all(message.data() + at, here);
          at += here;
        }
        out.push<L>(message.data(), n);
      }
  });
  ring_consumer in(*memory);
  for (int t = 0; t < times; ++t)
    for (const std::size_t n : sizes) in.pop<L>(n);
  producer.join();
  CHECK(in.sum() == sent);
}

}  // namespace

TEST_CASE("A message takes the lines its layout needs") {
  CHECK(lines_of(layout::slots, 8) == 1);
  CHECK(lines_of(layout::slots, 56) == 1);
  CHECK(lines_of(layout::slots, 57) == 2);
  CHECK(lines_of(layout::slots, 4096) == 74);
  CHECK(lines_of(layout::record, 56) == 1);
  CHECK(lines_of(layout::record, 120) == 2);
  CHECK(lines_of(layout::record, 121) == 3);
  CHECK(lines_of(layout::record, 4096) == 65);
  CHECK(lines_of(layout::slots, longest_message) <= ring_lines);
}

TEST_CASE("Everything that goes into the bare ring in slots comes out, over many laps") {
  all_arrives<layout::slots>({8, 56, 57, 64, 1, 512, 4096, 8, longest_message}, 300);
}

TEST_CASE("Everything that goes into the bare ring as records comes out, over many laps") {
  // 8 and 16 bytes are whole words, so that a cut at the ring's end falls between words.
  all_arrives<layout::record>({8, 56, 64, 120, 128, 512, 4096, 8, longest_message}, 300);
}

TEST_CASE("A full bare ring makes the producer wait until lines are free") {
  auto memory = std::make_unique<ring_memory>();
  std::atomic<int> pushed{0};
  std::jthread producer([&] {
    ring_producer out(*memory);
    const auto m = pattern(8, 1);
    for (int i = 0; i < 300; ++i) {
      out.push<layout::slots>(m.data(), m.size());
      pushed.store(i + 1, std::memory_order_relaxed);
    }
  });
  const std::uint64_t limit = penstock::now_ns() + 20'000'000'000;
  while (pushed.load(std::memory_order_relaxed) < 256 && penstock::now_ns() < limit)
    std::this_thread::yield();
  for (int i = 0; i < 2000; ++i) std::this_thread::yield();  // time to overrun, if it could
  CHECK(pushed.load(std::memory_order_relaxed) == 256);
  ring_consumer in(*memory);
  for (int i = 0; i < 300; ++i) in.pop<layout::slots>(8);
  producer.join();
  CHECK(pushed.load(std::memory_order_relaxed) == 300);
}

TEST_CASE("The placement probe answers a time in both, and can be repeated on the same line") {
  probe_line line;
  double other[2] = {};
  std::jthread second([&] {
    for (double& o : other) o = probe_cache_line(line, false);
  });
  for (int i = 0; i < 2; ++i) CHECK(probe_cache_line(line, true) > 0);
  second.join();
  CHECK(other[0] > 0);
  CHECK(other[1] > 0);
}
