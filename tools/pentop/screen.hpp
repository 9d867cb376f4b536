// The terminal that pentop draws on: the alternate screen, without echo, until the object goes or a
// signal ends the program. One at a time.
#pragma once

#include <termios.h>

#include <cstddef>
#include <string>
#include <vector>

namespace pentop {

class screen {
 public:
  /// True if standard input and output are a terminal that can be drawn on.
  static bool possible();
  screen();
  ~screen();
  screen(const screen&) = delete;
  screen& operator=(const screen&) = delete;

  /// Its size now; 24 and 80 where it does not say.
  [[nodiscard]] static std::size_t rows();
  [[nodiscard]] static std::size_t columns();
  /// Draws the lines, from the top.
  static void show(const std::vector<std::string>& lines);
  /// The next key within so many seconds (layout.hpp); 0: none, or the size has changed; -1: the
  /// program is to end, since a signal says so or the terminal has gone.
  static int key(double seconds);

 private:
  termios before_{};
};

}  // namespace pentop
