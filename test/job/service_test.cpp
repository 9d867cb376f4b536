// penrun's service of collectives, without processes: frames go in and come out of members.
#include <doctest/doctest.h>

#include <cstring>
#include <span>
#include <vector>

#include "tools/penrun/service.hpp"

using penstock::job::frame_header;
using penstock::job::frame_kind;

namespace {

using bytes = std::vector<std::byte>;

bytes frame(frame_kind kind, std::size_t n) {
  const frame_header head{kind, static_cast<std::uint32_t>(n)};
  bytes out(sizeof head + n);
  std::memcpy(out.data(), &head, sizeof head);
  return out;
}

struct job {
  explicit job(std::uint32_t ranks, std::uint32_t most)
      : heard(ranks),
        served(
            members, ranks, [this](auto rank) { left.push_back(rank); }, most) {
    for (std::uint32_t r = 0; r < ranks; ++r)
      members.emplace_back([this, r](std::span<const std::byte> f) {
        std::memcpy(&heard[r], f.data(), sizeof heard[r]);
      });
  }
  // Each rank gives n bytes.
  void exchange(std::size_t n) {
    for (std::uint32_t r = 0; r < heard.size(); ++r)
      CHECK(served.take(r, frame(frame_kind::exchange, n)));
  }
  std::vector<frame_header> heard;
  std::vector<std::uint32_t> left;
  std::vector<penrun::member> members;
  penrun::service served;
};

}  // namespace

TEST_CASE("a rank that leaves without the others is told of, and stays one of the job") {
  job j(3, 1000);
  CHECK(j.served.take(2, frame(frame_kind::left, 0)));
  CHECK(j.left == std::vector<std::uint32_t>{2});
  j.exchange(8);
  for (const frame_header& h : j.heard) CHECK(h.kind == frame_kind::exchange);
  CHECK(!j.served.take(1, frame(frame_kind::left, 4)));  // it has no body
}

TEST_CASE("an exchange is answered with the lengths and bytes of all ranks") {
  job j(3, 1000);
  j.exchange(100);
  for (const frame_header& h : j.heard) {
    CHECK(h.kind == frame_kind::exchange);
    CHECK(h.bytes == 3 * (sizeof(std::uint32_t) + 100));
  }
}

TEST_CASE("ranks that give too much together are told so, and the next exchange goes on") {
  job j(3, 1000);
  j.exchange(330);
  for (const frame_header& h : j.heard) {
    CHECK(h.kind == frame_kind::too_long);
    CHECK(h.bytes == 0);
  }
  j.exchange(329);
  for (const frame_header& h : j.heard) CHECK(h.kind == frame_kind::exchange);
}

TEST_CASE("what a service of any job answers fits the length of a frame") {
  static_assert(penstock::job::max_exchange <= 0xffffffffu - sizeof(frame_header));
  static_assert(penstock::job::max_exchange >= penstock::job::max_contribution);
}
