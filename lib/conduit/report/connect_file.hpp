// The files of the settings CONNECTFILE_OUT and CONNECTFILE_IN: which ranks each rank was connected
// to. They have the form of GASNet's: lines of "size:" and "base:" with the number of ranks and the
// base of the numbers that follow, then lines such as "0: 1 3-5".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI::report {

/// What such a file begins with, in a job of so many ranks.
std::string connect_file_head(std::uint32_t ranks);
/// The line of `rank`; peers in ascending order.
std::string connect_file_line(std::uint32_t rank, const std::vector<std::uint32_t>& peers);
/// The ranks that the text names for `rank`, without itself. It fails if the text is of a job of
/// another size, or names what is no rank.
result<std::vector<std::uint32_t>> connect_file_peers(const std::string& text, std::uint32_t rank,
                                                      std::uint32_t ranks);

/// `name` with the rank for each %. Without one, a file is that of all ranks.
std::string connect_file_name(std::string name, std::uint32_t rank);

}  // namespace penstock::conduit::PENSTOCK_ABI::report
