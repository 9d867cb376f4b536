// The language of PENSTOCK_SHM_PERSONALITY and PENSTOCK_SHM_FAULT: words or NAME=VALUE, separated
// by commas.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::nic::shm {

struct word {
  std::string_view name, value;
  bool has_value = false;
};

/// Cuts the text at the first `at` and answers the part before it; the part behind it stays in
/// `text`.
inline std::string_view cut(std::string_view& text, char at) noexcept {
  const auto end = text.find(at);
  const std::string_view first = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  return first;
}

inline word next_word(std::string_view& text) noexcept {
  std::string_view one = cut(text, ',');
  while (one.starts_with(' ')) one.remove_prefix(1);
  while (one.ends_with(' ')) one.remove_suffix(1);
  const bool has_value = one.find('=') != one.npos;
  const std::string_view name = cut(one, '=');
  return {name, one, has_value};
}

/// Reads the number at the start of the text and removes it from there. False: there is none.
template <class Number>
bool take_number(std::string_view& text, Number& to) noexcept {
  const auto [end, e] = std::from_chars(text.data(), text.data() + text.size(), to);
  if (e != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

/// The names of the rows, for messages to the user.
template <class Rows>
std::string names_of(const Rows& rows) {
  std::string all;
  for (const auto& r : rows) all += (all.empty() ? "" : ", ") + std::string(r.name);
  return all;
}

}  // namespace penstock::nic::shm
