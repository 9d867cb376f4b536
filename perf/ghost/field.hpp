// The cells of one process: five variables of the heat equation, each on a box of cells with ghost
// zones around it, at two times (this step's and the next one's). Knows no messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "perf/ghost/decomposition.hpp"

namespace penstock::ghost {

/// The state of step n lies in copy n % 2, so a face of step n + 1 that comes early does not change
/// cells that step n still needs. Cells are addressed relative to the box: 0 … extent-1 are its
/// own, -width … -1 and extent … extent+width-1 are ghosts.
class field {
 public:
  /// own: this process's box in a cube of edge cells. Starts with the initial temperatures, step 0.
  field(const box& own, std::uint32_t edge);

  [[nodiscard]] const box& own() const noexcept { return own_; }

  /// Computes the cells of `part` (relative to the box) at step + 1 from those at step. Any order
  /// of parts gives the same bits.
  void advance(std::uint32_t step, const box& part) noexcept;
  /// The own cells that need no ghosts; empty extents where the box is too thin.
  [[nodiscard]] box inner() const noexcept;
  /// The own cells beside those: up to six boxes that do not overlap.
  [[nodiscard]] std::vector<box> outer() const;

  /// Doubles in one face's message of all variables.
  [[nodiscard]] std::uint32_t face_size(face f) const noexcept;
  /// Copies doubles [offset, offset + to.size()) of the own cells next to face f, for the
  /// neighbour.
  void pack(std::uint32_t step, face f, std::uint32_t offset, std::span<double> to) const noexcept;
  /// Writes doubles that the neighbour beyond f has packed into the ghosts beyond f. from: the
  /// bytes of these doubles, of any alignment. False, with nothing written, if they do not fit the
  /// face.
  bool unpack(std::uint32_t step, face f, std::uint32_t offset,
              std::span<const std::byte> from) noexcept;

  [[nodiscard]] double at(std::uint32_t step, std::uint32_t variable, std::uint32_t x,
                          std::uint32_t y, std::uint32_t z) const noexcept {
    return copy_[step % 2][index(variable, x + width, y + width, z + width)];
  }
  /// A sum over the cells of `part` (in cells of the whole cube, inside own()) that depends on
  /// every bit of every variable and on where it lies, but not on the order.
  [[nodiscard]] std::uint64_t checksum(std::uint32_t step, const box& part) const noexcept;
  /// All heat of one variable in the own cells.
  [[nodiscard]] double heat(std::uint32_t step, std::uint32_t variable) const noexcept;

 private:
  /// Of a cell counted from the first ghost.
  [[nodiscard]] std::size_t index(std::uint32_t v, std::uint32_t x, std::uint32_t y,
                                  std::uint32_t z) const noexcept {
    return ((std::size_t{v} * size_[2] + z) * size_[1] + y) * size_[0] + x;
  }
  /// A face's cells, counted from the first ghost: the own ones, or the ghosts beyond.
  [[nodiscard]] box own_layer(face f) const noexcept;
  [[nodiscard]] box ghost_layer(face f) const noexcept;
  template <class Copy>
  void rows(const box& layer, std::uint32_t offset, std::uint32_t count,
            Copy&& copy) const noexcept;

  box own_;
  std::uint32_t edge_;
  triple size_;  ///< extents with ghosts
  std::vector<double> copy_[2];
};

}  // namespace penstock::ghost
