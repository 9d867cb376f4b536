// The heat equation of perf/ghost, whose faces travel
//   by mail     as Mediums (perf/ghost/exchange.hpp), or as messages that are received where they
//               are expected
//   by memory   by a put of each face into the neighbour's memory, and a sign that it is there
// Right if every bit is as in one process alone.
#pragma once

#include <algorithm>
#include <vector>

#include "perf/ghost/solve.hpp"
#include "perf/programs/transport.hpp"

namespace penstock::programs {

using ghost::decomposition;
using ghost::face;
using ghost::face_of;
using ghost::field;

/// The faces of a process in one buffer: each at the same place in all processes.
class packed_faces {
 public:
  packed_faces(rank_number rank, rank_number ranks, const decomposition& cut, field& f)
      : rank_(rank), cut_(cut), field_(f) {
    for (rank_number r = 0; r < ranks; ++r) {
      const ghost::box b = cut.box_of(r);
      for (unsigned axis = 0; axis < 3; ++axis)
        stride_ = std::max(stride_, b.cells() / b.extent(axis) * ghost::width * ghost::variables);
    }
    doubles_.resize(size());
  }
  /// Doubles of all faces.
  [[nodiscard]] std::size_t size() const noexcept { return 6 * stride_; }
  [[nodiscard]] std::size_t place_of(face f) const noexcept { return f.index() * stride_; }
  [[nodiscard]] rank_number neighbour(face f) const noexcept { return cut_.neighbour(rank_, f); }
  [[nodiscard]] bool is_own(face f) const noexcept { return neighbour(f) == rank_; }
  [[nodiscard]] std::size_t count(face f) const noexcept { return field_.face_size(f); }

  /// Packs the own cells next to a face.
  std::span<const double> pack(std::uint32_t step, face f) {
    const std::span to(doubles_.data() + place_of(f), count(f));
    field_.pack(step, f, 0, to);
    return to;
  }
  /// Calls send(face, doubles) for each face that another process needs; the others it unpacks.
  template <class Send>
  void each(std::uint32_t step, Send&& send) {
    for (unsigned i = 0; i < 6; ++i) {
      const face f = face_of((i + rank_) % 6);  // not all begin with the same neighbour
      const std::span<const double> cells = pack(step, f);
      if (is_own(f))
        unpack(step, f.opposite(), std::as_bytes(cells));
      else
        send(f, cells);
    }
  }
  void unpack(std::uint32_t step, face f, std::span<const std::byte> cells) {
    field_.unpack(step, f, 0, cells);
  }
  /// Unpacks all faces that have come, which lie as place_of() says.
  void unpack_from(std::uint32_t step, std::span<const double> came) {
    for (unsigned i = 0; i < 6; ++i)
      if (const face f = face_of(i); !is_own(f))
        unpack(step, f, std::as_bytes(came.subspan(place_of(f), count(f))));
  }

 private:
  rank_number rank_;
  const decomposition& cut_;
  field& field_;
  std::size_t stride_ = 0;
  std::vector<double> doubles_;
};

constexpr std::uint32_t heat_steps = 50;

/// cells: along each edge of the whole cube.
template <class Faces, class Job>
outcome heat(Job& job, std::size_t cells) {
  const auto edge = static_cast<std::uint32_t>(cells);
  const decomposition cut(job.size(), edge);
  if (!cut.possible()) return {0, false};
  field f(cut.box_of(job.rank()), edge);
  Faces faces(job, cut, f);
  const double seconds = timed(job, [&] { ghost::solve(faces, f, heat_steps); });
  const word sum = job.sum(f.checksum(heat_steps, f.own()));
  if (job.rank() != 0) return {seconds, true};
  const field alone = ghost::alone(edge, heat_steps);
  return {seconds, sum == alone.checksum(heat_steps, alone.own())};
}

}  // namespace penstock::programs
