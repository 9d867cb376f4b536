// See picture.hpp.
#include "perf/ghost/picture.hpp"

#include <png.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

namespace penstock::ghost {

namespace {

struct image {
  std::uint32_t edge;
  std::vector<std::uint8_t> rgb;
};

/// Black, blue, red, orange, white: the colours of a thing that is heated.
std::array<std::uint8_t, 3> colour(double t) noexcept {
  constexpr std::array<std::array<double, 3>, 5> stops = {
      {{8, 8, 24}, {36, 44, 140}, {200, 32, 60}, {250, 160, 30}, {255, 252, 230}}};
  const double at = std::clamp(std::isnan(t) ? 0 : t, 0.0, 1.0) * (stops.size() - 1);
  const std::size_t i = std::min(static_cast<std::size_t>(at), stops.size() - 2);
  std::array<std::uint8_t, 3> c;
  for (unsigned k = 0; k < 3; ++k)
    c[k] = static_cast<std::uint8_t>(
        std::lround(stops[i][k] + (stops[i + 1][k] - stops[i][k]) * (at - static_cast<double>(i))));
  return c;
}

image paint(std::span<const double> temperatures, std::uint32_t edge) {
  const std::uint32_t scale = std::max(1u, (383 + edge) / edge);
  image m{edge * scale, {}};
  m.rgb.reserve(std::size_t{m.edge} * m.edge * 3);
  for (std::uint32_t y = 0; y < m.edge; ++y)
    for (std::uint32_t x = 0; x < m.edge; ++x)
      for (const std::uint8_t c : colour(temperatures[std::size_t{y / scale} * edge + x / scale]))
        m.rgb.push_back(c);
  return m;
}

bool ends_with(const std::string& path, const char* end) noexcept {
  const std::size_t n = std::strlen(end);
  return path.size() > n && path.compare(path.size() - n, n, end) == 0;
}

result<void> write_ppm(const std::string& path, const image& m) {
  std::FILE* f = std::fopen(path.c_str(), "wb");
  if (f == nullptr) return failure{"cannot write " + path, errno, {}};
  std::fprintf(f, "P6\n%u %u\n255\n", m.edge, m.edge);
  const bool whole = std::fwrite(m.rgb.data(), 1, m.rgb.size(), f) == m.rgb.size();
  const int code = errno;
  if (std::fclose(f) != 0 || !whole) return failure{"cannot write " + path, code, {}};
  return {};
}

result<void> write_png(const std::string& path, const image& m) {
  png_image head{};
  head.version = PNG_IMAGE_VERSION;
  head.width = head.height = m.edge;
  head.format = PNG_FORMAT_RGB;
  if (png_image_write_to_file(&head, path.c_str(), 0, m.rgb.data(), 0, nullptr) == 0)
    return failure{"cannot write " + path + ": " + head.message, 0, {}};
  return {};
}

}  // namespace

bool is_picture_name(const std::string& path) noexcept {
  return ends_with(path, ".png") || ends_with(path, ".ppm");
}

result<void> write_picture(const std::string& path, std::span<const double> temperatures,
                           std::uint32_t edge) {
  const image m = paint(temperatures, edge);
  return ends_with(path, ".png") ? write_png(path, m) : write_ppm(path, m);
}

}  // namespace penstock::ghost
