// Command lines of the programs: options, their help, and complaints about wrong ones. It stands
// over CLI11, whose header is compiled once here and not in each program, since that takes longer
// than all else in a program. It is a library of its own (penstock_command_line), for tools and
// perf; the libraries that users link do not have it.
#pragma once

#include <charconv>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace penstock {

/// How the help shows an option's value, and whether it must be given.
struct option_shape {
  bool required = false;
  std::string type = "TEXT";  ///< what the help calls the value
  std::string initial = {};   ///< what the help shows as the default
};

/// A program declares its options first, and then parses once. A variable that is bound (`to`) must
/// live until parse() returns. Names are written as in "-n,--np"; a name without dashes is that of
/// a positional argument.
class command_line {
 public:
  /// Takes the text that was given, and answers what is wrong with it; empty: nothing is.
  using taker = std::function<std::string(const std::string& text)>;

  command_line(const std::string& name, const std::string& about);
  command_line(const command_line&) = delete;
  command_line& operator=(const command_line&) = delete;
  ~command_line();

  /// Printed below the options.
  void footer(const std::string& text);

  void flag(const std::string& names, bool& to, const std::string& help);
  /// Takes any value; parse() calls `take` once if the option is given.
  void option(const std::string& names, const std::string& help, taker take,
              const option_shape& s = {});
  void text(const std::string& names, std::string& to, const std::string& help,
            const option_shape& s = {});
  /// Takes one of `words`.
  void word(const std::string& names, std::string& to, const std::vector<std::string>& words,
            const std::string& help);
  /// Takes one of the words, each of which stands for a value.
  template <class T>
  void choice(const std::string& names, T& to, std::vector<std::pair<std::string, T>> words,
              const std::string& help);
  /// Takes a number from low to high; the help shows both, and the value that `to` has before.
  template <class T>
  requires std::is_arithmetic_v<T>
  void number(const std::string& names, T& to, const std::string& help,
              std::type_identity_t<T> low = std::numeric_limits<T>::lowest(),
              std::type_identity_t<T> high = std::numeric_limits<T>::max(), bool required = false);
  /// Takes a number of bytes, with K, M, G, T for powers of 1024.
  void bytes(const std::string& names, std::uint64_t& to, const std::string& help);
  /// Takes an option that may be repeated, or one or more positional words.
  void list(const std::string& names, std::vector<std::string>& to, const std::string& help,
            const option_shape& s = {});
  /// Takes all words from the first one that is no option of this program; a "--" before it is
  /// removed.
  void rest(std::vector<std::string>& to);

  /// Parses the command line. --help prints the help and ends the process with 0; a mistake is
  /// named, and ends it with 2.
  void parse(int argc, const char* const* argv);
  /// After parse(): complains, and ends the process with 2, as for any other mistake.
  [[noreturn]] void refuse(const std::string& where, const std::string& complaint) const;
  [[nodiscard]] bool given(const std::string& name) const;
  [[nodiscard]] std::string help() const;

 private:
  static std::string join(const std::vector<std::string>& words);
  struct parts;
  std::unique_ptr<parts> parts_;
};

template <class T>
void command_line::choice(const std::string& names, T& to,
                          std::vector<std::pair<std::string, T>> words, const std::string& help) {
  std::vector<std::string> all;
  all.reserve(words.size());
  for (const auto& w : words) all.push_back(w.first);
  const std::string list = join(all);
  option(names, help,
         [&to, words = std::move(words), list](const std::string& given) {
           for (const auto& w : words)
             if (w.first == given) return to = w.second, std::string();
           return given + " is none of " + list;
         },
         {.type = list});
}

namespace detail {
/// A number as people write it: 0.5 and not 0.500000.
template <class T>
std::string as_written(T value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}
}  // namespace detail

template <class T>
requires std::is_arithmetic_v<T>
void command_line::number(const std::string& names, T& to, const std::string& help,
                          std::type_identity_t<T> low, std::type_identity_t<T> high,
                          bool required) {
  const bool bounded =
      low != std::numeric_limits<T>::lowest() || high != std::numeric_limits<T>::max();
  const std::string range = high == std::numeric_limits<T>::max()
                                ? detail::as_written(low) + " or more"
                                : detail::as_written(low) + " to " + detail::as_written(high);
  option(names, help,
         [&to, low, high, bounded, range](const std::string& given) {
           T value{};
           const char* end = given.data() + given.size();
           const auto [stopped, error] = std::from_chars(given.data(), end, value);
           if (error == std::errc::invalid_argument || stopped != end)
             return given + " is not a number" + (bounded ? ": " + range : "");
           if (error != std::errc() || !(low <= value && value <= high))
             return given + " is not allowed: " + range;
           return to = value, std::string();
         },
         {.required = required,
          .type = bounded ? range : "NUMBER",
          .initial = required || !(to > T{}) ? std::string() : detail::as_written(to)});
}

}  // namespace penstock
