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

/// What lies in the lines of a message of n bytes: payload and what is copied behind it.
std::size_t bytes_in_lines(std::size_t n) { return n == 8 ? 8 : lines_of(n) * 64 - 8; }

/// Sends messages of all the sizes, several laps of the ring, and compares what was read.
template <std::uint64_t Lines>
void all_arrives(const std::vector<std::size_t>& sizes, unsigned times) {
  auto memory = std::make_unique<ring_memory<Lines>>();
  std::uint64_t sent = 0;
  std::jthread producer([&] {
    ring_producer<Lines> out(*memory);
    for (unsigned t = 0; t < times; ++t)
      for (const std::size_t n : sizes) {
        const auto message = pattern(bytes_in_lines(n), t);
        sent += read_all(message.data(), message.size());
        out.push(message.data(), n);
      }
  });
  ring_consumer<Lines> in(*memory);
  for (unsigned t = 0; t < times; ++t)
    for (const std::size_t n : sizes) in.template pop<1>(n);
  producer.join();
  CHECK(in.sum() == sent);
}

}  // namespace

TEST_CASE("A message takes one line for its first 56 bytes and one for every 64 more") {
  CHECK(lines_of(8) == 1);
  CHECK(lines_of(56) == 1);
  CHECK(lines_of(57) == 2);
  CHECK(lines_of(120) == 2);
  CHECK(lines_of(121) == 3);
  CHECK(lines_of(4096) == 65);
  CHECK(lines_of(longest_message<64>) <= 32);
}

TEST_CASE("Reading all bytes sums them as words, and a rest as bytes") {
  std::vector<std::byte> bytes(64 + 16 + 3, std::byte{0});
  for (const std::size_t word : {0u, 3u, 7u, 8u, 9u}) bytes[word * 8] = std::byte{1};
  CHECK(read_all(bytes.data(), 64) == 3);
  CHECK(read_all(bytes.data(), 80) == 5);
  bytes[82] = std::byte{7};
  CHECK(read_all(bytes.data(), 83) == 12);
}

TEST_CASE("Everything that goes into the bare ring comes out, over many laps") {
  all_arrives<256>({8, 56, 57, 64, 8, 512, 4096, 8, longest_message<256>}, 300);
  all_arrives<64>({8, 8, 120, 512, 1, 64, longest_message<64>, 8}, 600);
}

TEST_CASE("A full bare ring makes the producer wait until lines are free") {
  auto memory = std::make_unique<ring_memory<256>>();
  std::atomic<int> pushed{0};
  std::jthread producer([&] {
    ring_producer<256> out(*memory);
    const auto m = pattern(8, 1);
    for (int i = 0; i < 300; ++i) {
      out.push(m.data(), m.size());
      pushed.store(i + 1, std::memory_order_relaxed);
    }
  });
  const std::uint64_t limit = penstock::now_ns() + 20'000'000'000;
  while (pushed.load(std::memory_order_relaxed) < 256 && penstock::now_ns() < limit)
    std::this_thread::yield();
  for (int i = 0; i < 2000; ++i) std::this_thread::yield();  // time to overrun, if it could
  CHECK(pushed.load(std::memory_order_relaxed) == 256);
  ring_consumer<256> in(*memory);
  for (int i = 0; i < 300; ++i) in.pop<0>(8);
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
