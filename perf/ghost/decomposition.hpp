// How the cube of cells is cut among the processes: into boxes, as near to cubes as the number of
// processes allows, periodic in all three directions.
#pragma once

#include <array>
#include <cstdint>

namespace penstock::ghost {

/// A ghost zone's width: the reach of the stencil (field.cpp).
inline constexpr std::uint32_t width = 4;
/// Variables in each cell.
inline constexpr std::uint32_t variables = 5;

using triple = std::array<std::uint32_t, 3>;  ///< x, y, z

/// Cells from lo up to, not including, hi.
struct box {
  triple lo{}, hi{};
  [[nodiscard]] std::uint32_t extent(unsigned axis) const noexcept { return hi[axis] - lo[axis]; }
  [[nodiscard]] std::uint64_t cells() const noexcept {
    return std::uint64_t{extent(0)} * extent(1) * extent(2);
  }
  friend bool operator==(const box&, const box&) = default;
};

/// One of the six faces of a box.
struct face {
  std::uint8_t axis = 0;  ///< 0 … 2
  std::uint8_t side = 0;  ///< 0: low, 1: high
  [[nodiscard]] unsigned index() const noexcept { return axis * 2u + side; }
  [[nodiscard]] face opposite() const noexcept {
    return {axis, static_cast<std::uint8_t>(1 - side)};
  }
};
constexpr face face_of(unsigned index) noexcept {
  return {static_cast<std::uint8_t>(index / 2), static_cast<std::uint8_t>(index % 2)};
}

/// Pure arithmetic; the same in every process.
class decomposition {
 public:
  /// edge: cells along each edge of the whole cube.
  decomposition(std::uint32_t processes, std::uint32_t edge) noexcept;
  /// Every box is at least `width` wide, so that a ghost zone lies in one neighbour.
  [[nodiscard]] bool possible() const noexcept;
  [[nodiscard]] const triple& parts() const noexcept { return parts_; }
  [[nodiscard]] box box_of(std::uint32_t rank) const noexcept;
  /// The rank beyond a face of rank's box; it may be rank itself.
  [[nodiscard]] std::uint32_t neighbour(std::uint32_t rank, face f) const noexcept;

 private:
  [[nodiscard]] triple place_of(std::uint32_t rank) const noexcept;
  triple parts_{1, 1, 1};
  std::uint32_t edge_;
};

}  // namespace penstock::ghost
