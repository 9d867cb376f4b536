// See decomposition.hpp.
#include "perf/ghost/decomposition.hpp"

namespace penstock::ghost {

decomposition::decomposition(std::uint32_t processes, std::uint32_t edge) noexcept : edge_(edge) {
  // The least surface: of a box edge/x * edge/y * edge/z that is proportional to x + y + z.
  std::uint64_t best = UINT64_MAX;
  for (std::uint32_t x = 1; x <= processes; ++x) {
    if (processes % x != 0) continue;
    for (std::uint32_t y = x; y <= processes / x; ++y) {
      if (processes / x % y != 0) continue;
      const std::uint32_t z = processes / x / y;
      if (z < y) break;
      const std::uint64_t sum = std::uint64_t{x} + y + z;
      if (sum >= best) continue;
      best = sum;
      parts_ = {x, y, z};  // x, along which memory runs, is cut least
    }
  }
}

bool decomposition::possible() const noexcept {
  for (const std::uint32_t p : parts_)
    if (edge_ / p < width) return false;
  return true;
}

triple decomposition::place_of(std::uint32_t rank) const noexcept {
  return {rank % parts_[0], rank / parts_[0] % parts_[1], rank / parts_[0] / parts_[1]};
}

box decomposition::box_of(std::uint32_t rank) const noexcept {
  const triple place = place_of(rank);
  const auto cut = [this](std::uint32_t i, std::uint32_t of) {
    return static_cast<std::uint32_t>(std::uint64_t{edge_} * i / of);
  };
  box b;
  for (unsigned a = 0; a < 3; ++a) {
    b.lo[a] = cut(place[a], parts_[a]);
    b.hi[a] = cut(place[a] + 1, parts_[a]);
  }
  return b;
}

std::uint32_t decomposition::neighbour(std::uint32_t rank, face f) const noexcept {
  triple place = place_of(rank);
  const std::uint32_t parts = parts_[f.axis];
  place[f.axis] = (place[f.axis] + (f.side == 0 ? parts - 1 : 1)) % parts;
  return place[0] + parts_[0] * (place[1] + parts_[1] * place[2]);
}

}  // namespace penstock::ghost
