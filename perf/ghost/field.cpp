// See field.hpp. The equation du/dt = a (d2u/dx2 + d2u/dy2 + d2u/dz2), forward in time, with the
// eighth-order second difference in space: nine points along each axis. It reaches four cells, so
// ghost zones are four wide, and it lies on the axes, so faces are all that is exchanged: no edges,
// no corners. The expression is the same for every cell and compiled without contraction
// (CMakeLists.txt), so where a cell lies, and which process computes it, does not change its bits.
#include "perf/ghost/field.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace penstock::ghost {

namespace {

// Weights of the second difference: at the cell, and at 1 … 4 cells from it.
constexpr double w0 = -205.0 / 72, w1 = 8.0 / 5, w2 = -1.0 / 5, w3 = 8.0 / 315, w4 = -1.0 / 560;

/// a dt / dx². Stable up to 2 / (3 * 6.5) = 0.102, since the second difference's largest eigenvalue
/// is 6.5.
constexpr double diffusion(std::uint32_t variable) noexcept { return 0.018 * (variable + 1); }

/// Hot balls at places and with temperatures that differ between the variables.
double initial(std::uint32_t v, const triple& at, std::uint32_t edge) noexcept {
  struct ball {
    double x, y, z, radius, heat;
  };
  constexpr ball balls[] = {{0.30, 0.30, 0.50, 0.18, 1.0},
                            {0.70, 0.62, 0.48, 0.12, 0.7},
                            {0.25, 0.78, 0.55, 0.08, 0.9},
                            {0.80, 0.20, 0.45, 0.10, 0.5}};
  double heat = 0;
  for (const ball& b : balls) {
    const double turn = 0.07 * v;
    const double x = (at[0] + 0.5) / edge - b.x, y = (at[1] + 0.5) / edge - b.y - turn,
                 z = (at[2] + 0.5) / edge - b.z + turn;
    if (x * x + y * y + z * z < b.radius * b.radius) heat = b.heat;
  }
  return heat;
}

std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 31)) * 0x7fb5d329728ea185u;
  x = (x ^ (x >> 27)) * 0x81dadef4bc2dd44du;
  return x ^ (x >> 33);
}

}  // namespace

field::field(const box& own, std::uint32_t edge) : own_(own), edge_(edge) {
  for (unsigned a = 0; a < 3; ++a) size_[a] = own.extent(a) + 2 * width;
  for (auto& c : copy_) c.resize(index(variables, 0, 0, 0));
  for (std::uint32_t v = 0; v < variables; ++v)
    for (std::uint32_t z = 0; z < own.extent(2); ++z)
      for (std::uint32_t y = 0; y < own.extent(1); ++y)
        for (std::uint32_t x = 0; x < own.extent(0); ++x)
          copy_[0][index(v, x + width, y + width, z + width)] =
              initial(v, {own.lo[0] + x, own.lo[1] + y, own.lo[2] + z}, edge);
}

void field::advance(std::uint32_t step, const box& part) noexcept {
  const std::size_t row = size_[0], plane = row * size_[1];
  const std::uint32_t n = part.extent(0);
  for (std::uint32_t v = 0; v < variables; ++v) {
    const double k = diffusion(v);
    for (std::uint32_t z = part.lo[2]; z < part.hi[2]; ++z)
      for (std::uint32_t y = part.lo[1]; y < part.hi[1]; ++y) {
        const std::size_t first = index(v, part.lo[0] + width, y + width, z + width);
        const double* __restrict in = copy_[step % 2].data() + first;
        double* __restrict out = copy_[(step + 1) % 2].data() + first;
        for (std::uint32_t x = 0; x < n; ++x) {
          const double* c = in + x;
          const auto ring = [=](std::size_t d) {
            return ((c[-static_cast<std::ptrdiff_t>(d)] + c[d]) +
                    (c[-static_cast<std::ptrdiff_t>(d * row)] + c[d * row])) +
                   (c[-static_cast<std::ptrdiff_t>(d * plane)] + c[d * plane]);
          };
          const double laplace =
              3 * w0 * c[0] + w1 * ring(1) + w2 * ring(2) + w3 * ring(3) + w4 * ring(4);
          out[x] = c[0] + k * laplace;
        }
      }
  }
}

box field::inner() const noexcept {
  box b;
  for (unsigned a = 0; a < 3; ++a) {
    b.lo[a] = std::min(width, own_.extent(a));
    b.hi[a] = std::max(b.lo[a], own_.extent(a) - b.lo[a]);
  }
  return b;
}

std::vector<box> field::outer() const {
  std::vector<box> parts;
  const box in = inner();
  box rest;  // the cells that remain; shrinks by two slabs an axis
  for (unsigned a = 0; a < 3; ++a) rest.hi[a] = own_.extent(a);
  for (unsigned a = 3; a-- > 0;) {
    box low = rest, high = rest;
    low.hi[a] = in.lo[a];
    high.lo[a] = in.hi[a];
    rest.lo[a] = in.lo[a];
    rest.hi[a] = in.hi[a];
    for (const box& b : {low, high})
      if (b.cells() != 0) parts.push_back(b);
  }
  return parts;
}

box field::own_layer(face f) const noexcept {
  box b;
  for (unsigned a = 0; a < 3; ++a) b.lo[a] = width, b.hi[a] = width + own_.extent(a);
  if (f.side == 0)
    b.hi[f.axis] = 2 * width;
  else
    b.lo[f.axis] = own_.extent(f.axis);
  return b;
}

box field::ghost_layer(face f) const noexcept {
  box b = own_layer(f);
  b.lo[f.axis] = f.side == 0 ? 0 : width + own_.extent(f.axis);
  b.hi[f.axis] = b.lo[f.axis] + width;
  return b;
}

std::uint32_t field::face_size(face f) const noexcept {
  return static_cast<std::uint32_t>(own_layer(f).cells() * variables);
}

/// Calls copy(first, n) for each run of cells next to each other in memory. A face's message holds
/// the variables one after the other, in each the cells in the order of memory.
template <class Copy>
void field::rows(const box& layer, std::uint32_t offset, std::uint32_t count,
                 Copy&& copy) const noexcept {
  const std::uint32_t nx = layer.extent(0), ny = layer.extent(1), nz = layer.extent(2);
  std::uint32_t x = offset % nx, y = offset / nx % ny, z = offset / nx / ny % nz;
  std::uint32_t v = offset / nx / ny / nz;
  while (count != 0) {
    const std::uint32_t n = std::min(nx - x, count);
    copy(index(v, layer.lo[0] + x, layer.lo[1] + y, layer.lo[2] + z), n);
    count -= n;
    x = 0;
    if (++y < ny) continue;
    y = 0;
    if (++z < nz) continue;
    z = 0;
    ++v;
  }
}

void field::pack(std::uint32_t step, face f, std::uint32_t offset,
                 std::span<double> to) const noexcept {
  double* out = to.data();
  rows(own_layer(f), offset, static_cast<std::uint32_t>(to.size()),
       [&](std::size_t first, std::uint32_t n) {
         std::memcpy(out, copy_[step % 2].data() + first, n * sizeof(double));
         out += n;
       });
}

bool field::unpack(std::uint32_t step, face f, std::uint32_t offset,
                   std::span<const std::byte> from) noexcept {
  const std::size_t count = from.size() / sizeof(double);
  if (from.size() % sizeof(double) != 0 || count > face_size(f) || offset > face_size(f) - count)
    return false;
  const std::byte* in = from.data();
  rows(ghost_layer(f), offset, static_cast<std::uint32_t>(count),
       [&](std::size_t first, std::uint32_t n) {
         std::memcpy(copy_[step % 2].data() + first, in, n * sizeof(double));
         in += n * sizeof(double);
       });
  return true;
}

std::uint64_t field::checksum(std::uint32_t step, const box& part) const noexcept {
  std::uint64_t sum = 0;
  for (std::uint32_t v = 0; v < variables; ++v)
    for (std::uint32_t z = part.lo[2]; z < part.hi[2]; ++z)
      for (std::uint32_t y = part.lo[1]; y < part.hi[1]; ++y)
        for (std::uint32_t x = part.lo[0]; x < part.hi[0]; ++x) {
          const double u = at(step, v, x - own_.lo[0], y - own_.lo[1], z - own_.lo[2]);
          const std::uint64_t place = ((std::uint64_t{v} * edge_ + z) * edge_ + y) * edge_ + x;
          sum += mix(std::bit_cast<std::uint64_t>(u) + mix(place + 1));
        }
  return sum;
}

double field::heat(std::uint32_t step, std::uint32_t variable) const noexcept {
  double sum = 0;
  for (std::uint32_t z = 0; z < own_.extent(2); ++z)
    for (std::uint32_t y = 0; y < own_.extent(1); ++y)
      for (std::uint32_t x = 0; x < own_.extent(0); ++x) sum += at(step, variable, x, y, z);
  return sum;
}

}  // namespace penstock::ghost
