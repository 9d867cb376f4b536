#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "perf/ghost/field.hpp"

using namespace penstock::ghost;

namespace {

/// All processes of a job in one, their faces carried by hand in pieces of a given number of
/// doubles.
struct whole_job {
  decomposition cut;
  std::vector<field> parts;
  std::uint32_t step = 0;

  whole_job(std::uint32_t processes, std::uint32_t edge) : cut(processes, edge) {
    for (std::uint32_t r = 0; r < processes; ++r) parts.emplace_back(cut.box_of(r), edge);
  }
  void advance(std::size_t piece) {
    std::vector<double> chunk(piece);
    for (std::uint32_t r = 0; r < parts.size(); ++r)
      for (unsigned i = 0; i < 6; ++i) {
        const face f = face_of(i);
        for (std::uint32_t at = 0, n = parts[r].face_size(f); at < n;) {
          const auto span = std::span(chunk).first(std::min<std::size_t>(piece, n - at));
          parts[r].pack(step, f, at, span);
          REQUIRE(parts[cut.neighbour(r, f)].unpack(step, f.opposite(), at, std::as_bytes(span)));
          at += static_cast<std::uint32_t>(span.size());
        }
      }
    for (field& p : parts) {
      p.advance(step, p.inner());
      for (const box& b : p.outer()) p.advance(step, b);
    }
    ++step;
  }
  [[nodiscard]] std::uint64_t checksum() const {
    std::uint64_t sum = 0;
    for (const field& p : parts) sum += p.checksum(step, p.own());
    return sum;
  }
  [[nodiscard]] double heat(std::uint32_t variable) const {
    double sum = 0;
    for (const field& p : parts) sum += p.heat(step, variable);
    return sum;
  }
};

std::uint64_t after(std::uint32_t processes, std::uint32_t edge, int steps, std::size_t piece) {
  whole_job job(processes, edge);
  for (int i = 0; i < steps; ++i) job.advance(piece);
  return job.checksum();
}

}  // namespace

TEST_CASE("The result is the same bit for bit however the cube is cut, and the faces are") {
  const std::uint64_t alone = after(1, 26, 5, 504);
  for (const std::uint32_t processes : {2u, 3u, 4u, 6u, 8u, 12u}) {
    CAPTURE(processes);
    CHECK(after(processes, 26, 5, 504) == alone);
  }
  CHECK(after(8, 26, 5, 37) == alone);
}

TEST_CASE("Boxes thinner than two ghost zones, which have no inner cells, give the same result") {
  CHECK(after(8, 10, 4, 504) == after(1, 10, 4, 504));
}

TEST_CASE("The checksum notices one bit, and a cell at another's place") {
  CHECK(after(1, 16, 3, 504) != after(1, 16, 4, 504));
  box all;
  all.hi = {16, 16, 16};
  const field f(all, 16);
  box a = all, b = all;
  a.hi[0] = 8;
  b.lo[0] = 8;
  CHECK(f.checksum(0, a) + f.checksum(0, b) == f.checksum(0, all));
  CHECK(f.checksum(0, a) != f.checksum(0, b));
}

TEST_CASE("Heat is neither made nor lost") {
  for (std::uint32_t v = 0; v < variables; ++v) {
    whole_job j(4, 24);
    const double before = j.heat(v);
    REQUIRE(before > 1);
    for (int i = 0; i < 20; ++i) j.advance(504);
    CHECK(j.heat(v) == doctest::Approx(before).epsilon(1e-12));
  }
}

TEST_CASE("A cell's next value is the eighth-order stencil over its own and its ghosts' cells") {
  const std::uint32_t edge = 16;
  box all;
  all.hi = {edge, edge, edge};
  field f(all, edge);
  // Ghosts beyond the low face of x hold their distance; the other faces' hold nothing.
  std::vector<double> ghosts(f.face_size(face_of(0)));
  for (std::uint32_t i = 0; i < ghosts.size(); ++i) ghosts[i] = width - i % width;
  REQUIRE(f.unpack(0, face_of(0), 0, std::as_bytes(std::span(ghosts))));
  box row;
  row.lo = {0, 5, 5};
  row.hi = {1, 6, 6};
  for (std::uint32_t v = 0; v < variables; ++v) {
    const auto u = [&](std::uint32_t x, std::uint32_t y, std::uint32_t z) {
      return f.at(0, v, x, y, z);
    };
    constexpr double w[] = {8.0 / 5, -1.0 / 5, 8.0 / 315, -1.0 / 560};
    double laplace = 3 * (-205.0 / 72) * u(0, 5, 5);
    for (std::uint32_t d = 1; d <= width; ++d)
      laplace += w[d - 1] * (d + u(d, 5, 5) + u(0, 5 + d, 5) + u(0, 5 - d, 5) + u(0, 5, 5 + d) +
                             u(0, 5, 5 - d));
    const double expected = u(0, 5, 5) + 0.018 * (v + 1) * laplace;
    f.advance(0, row);
    CHECK(f.at(1, v, 0, 5, 5) == doctest::Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("Bytes that do not fit a face are refused") {
  box all;
  all.hi = {8, 8, 8};
  field f(all, 8);
  std::vector<double> d(f.face_size(face_of(0)) + 1);
  const auto bytes = std::as_bytes(std::span(d));
  CHECK_FALSE(f.unpack(0, face_of(0), 0, bytes));
  CHECK_FALSE(f.unpack(0, face_of(0), 0, bytes.first(12)));
  CHECK_FALSE(f.unpack(0, face_of(0), f.face_size(face_of(0)), bytes.first(8)));
  CHECK(f.unpack(0, face_of(0), f.face_size(face_of(0)) - 1, bytes.first(8)));
}
