// Which entries of a client's table of handlers can be registered, and at which indexes.
// handlers.cpp uses it. It registers nothing.
#pragma once

#include <gasnetex.h>

#include <bitset>
#include <cstddef>
#include <optional>
#include <span>

#include "lib/conduit/message/handlers.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {

/// The indexes that have a handler.
using taken_indexes = std::bitset<conduit::user_handlers>;

/// An entry that cannot be registered, by its place in the table.
struct wrong_entry {
  std::size_t at;
  const char* why;
};

/// Why the entry cannot be registered beside those that are taken, or null.
[[nodiscard]] inline const char* wrong_with(const gex_AM_Entry_t& e,
                                            const taken_indexes& taken) noexcept {
  constexpr gex_Flags_t kinds = GEX_FLAG_AM_SHORT | GEX_FLAG_AM_MEDLONG;
  if (e.gex_fnptr == nullptr) return "it has no function";
  if (e.gex_index != 0 && e.gex_index < GEX_AM_INDEX_BASE) return "its index is the library's";
  if (e.gex_index != 0 && taken[e.gex_index]) return "its index is taken";
  if (e.gex_nargs > gex_AM_MaxArgs()) return "it has more than 16 arguments";
  if ((e.gex_flags & ~(kinds | GEX_FLAG_AM_REQREP)) != 0) return "its flags are unknown";
  if ((e.gex_flags & kinds) == 0) return "its flags name no kind of message";
  if ((e.gex_flags & GEX_FLAG_AM_SHORT) != 0 && (e.gex_flags & GEX_FLAG_AM_MEDLONG) != 0)
    return "it cannot take both Shorts and messages with a payload";
  if ((e.gex_flags & GEX_FLAG_AM_REQREP) == 0) return "its flags name neither requests nor replies";
  return nullptr;
}

/// Gives each entry of index 0 the highest index that is free once all others have theirs; nothing
/// is changed where an entry is wrong, or finds none, which is returned. taken: by earlier tables.
[[nodiscard]] inline std::optional<wrong_entry> place_entries(std::span<gex_AM_Entry_t> table,
                                                              taken_indexes taken) noexcept {
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (const char* const why = wrong_with(table[i], taken)) return wrong_entry{i, why};
    if (table[i].gex_index != 0) taken.set(table[i].gex_index);
  }
  std::size_t room = conduit::user_handlers - GEX_AM_INDEX_BASE;
  for (std::size_t i = GEX_AM_INDEX_BASE; i < conduit::user_handlers; ++i) room -= taken[i];
  for (std::size_t i = 0; i < table.size(); ++i)
    if (table[i].gex_index == 0 && room-- == 0) return wrong_entry{i, "all indexes are taken"};
  unsigned next = conduit::user_handlers - 1;
  for (gex_AM_Entry_t& e : table) {
    if (e.gex_index != 0) continue;
    while (taken[next]) --next;
    e.gex_index = static_cast<gex_AM_Index_t>(next--);
  }
  return std::nullopt;
}

}  // namespace penstock::gasnet::PENSTOCK_ABI
