// The exchange of ghost zones: each of a process's six faces goes to the neighbour beyond it, cut
// into Medium requests, whose handler writes them into the neighbour's ghosts.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "penstock/penstock.hpp"
#include "perf/ghost/decomposition.hpp"
#include "perf/ghost/field.hpp"

namespace penstock::ghost {

/// One per process. Why two counters are enough: a neighbour sends step n + 2 only after it has
/// finished step n + 1, for which it needed our faces of n + 1, which we send only when our faces
/// of n have all arrived. So at most the steps n and n + 1 are under way, here and in field.
class exchange {
 public:
  /// Registers its handler, before the endpoint starts. Faces are sent in pieces of at most
  /// piece_bytes bytes and at most the largest Medium.
  exchange(endpoint& ep, const decomposition& cut, field& f, std::size_t piece_bytes = ~0ull);

  /// Sends the faces of a step. Waits (polling) while credits are short.
  status send(std::uint32_t step);
  /// Polls until all faces of the step have arrived.
  status finish(std::uint32_t step);

  [[nodiscard]] std::uint64_t bytes_sent() const noexcept { return bytes_sent_; }

 private:
  struct piece {
    std::uint32_t step;
    std::uint32_t face;    ///< the receiver's, face::index()
    std::uint32_t offset;  ///< in doubles, within the face
  };
  void arrived(token& t, std::span<std::byte> payload, piece p);
  status send_face(std::uint32_t step, face f);

  endpoint& ep_;
  const decomposition& cut_;
  field& field_;
  payload_handler<piece> on_piece_;
  std::vector<double> chunk_;
  std::uint64_t expected_ = 0;  ///< doubles of all six faces
  std::uint64_t bytes_sent_ = 0;
  std::array<std::atomic<std::uint64_t>, 2> arrived_{};  ///< doubles, by step % 2
};

}  // namespace penstock::ghost
