// The known word that a mistyped one was meant to be: a setting, an option of a program.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace penstock {

/// The first of those `known` words that are closest to `word`, where at most `most` letters are
/// put in, left out or exchanged; empty: none is so close.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known,
                         std::size_t most);
/// The same for options, such as --window=4, of whose letters one in three may be wrong.
std::string_view nearest_option(std::string_view word, std::span<const std::string_view> known);

}  // namespace penstock
