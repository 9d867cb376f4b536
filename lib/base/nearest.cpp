// See nearest.hpp.
#include "lib/base/nearest.hpp"

#include <algorithm>
#include <vector>

namespace penstock {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1] ? 1 : 0)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> known,
                         std::size_t most) {
  std::string_view best;
  std::size_t least = most + 1;
  for (const std::string_view k : known)
    if (const auto d = edit_distance(word, k); d < least) {
      least = d;
      best = k;
    }
  return best;
}

std::string_view nearest_option(std::string_view word, std::span<const std::string_view> known) {
  word = word.substr(0, word.find('='));
  const std::size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  return nearest(word, known, (word.size() - dashes) / 3);
}

}  // namespace penstock
