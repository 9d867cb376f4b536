// A picture of a slice of temperatures, as PNG or PPM by the file's name.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lib/base/result.hpp"

namespace penstock::ghost {

/// True for names that end in .png or .ppm.
bool is_picture_name(const std::string& path) noexcept;

/// Writes edge * edge temperatures, row by row, 0 … 1 from dark to bright (beyond that cut off).
/// Small slices are enlarged by a whole factor to 384 pixels or more.
result<void> write_picture(const std::string& path, std::span<const double> temperatures,
                           std::uint32_t edge);

}  // namespace penstock::ghost
