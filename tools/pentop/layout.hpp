// pentop's screen as lines of text, and what keys do to it. No terminal is needed, nor touched.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/pentop/view.hpp"

namespace pentop {

/// What the user has chosen by keys.
struct choices {
  enum class order : char { rank = 'r', messages = 'm', bytes = 'b', waits = 'w' };
  order sorted = order::rank;
  bool reversed = false;
  bool help = false;
  bool paused = false;
  bool pairs = false;         ///< keys that scroll move the table of pairs, not that of ranks
  double interval = 1;        ///< seconds
  std::size_t first[2] = {};  ///< the first row of each table that is shown
};

/// Keys that are no characters.
enum special_key : int { key_up = 1000, key_down, key_page_up, key_page_down, key_home, key_end };

/// Does what a key means. False: the program ends.
bool press(int key, std::size_t rows, choices& c);

/// Exactly `rows` lines of at most `columns` characters: the job, both tables as far as they fit,
/// and the keys. Moves c.first back to where rows are.
std::vector<std::string> lay_out(const picture& p, choices& c, std::size_t rows,
                                 std::size_t columns);

}  // namespace pentop
