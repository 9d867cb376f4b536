// See repeats.hpp.
#include "tools/penrun/repeats.hpp"

#include <algorithm>

#include "lib/base/clock.hpp"

namespace penrun {
namespace {

// How long a process may take from its last line to its end, and how long a line is kept back.
constexpr std::uint64_t keep_ns = 500'000'000;
// A process that prints the same later than this does not fail for the same reason.
constexpr std::uint64_t memory_ns = 10'000'000'000;
constexpr std::size_t memory_lines = 256;
constexpr std::size_t quoted = 64;

// "penstock[3/8 13:05:09.123]: error: …" is the same from every rank, and at any time.
std::string words_of(std::string_view line) {
  constexpr std::string_view tag = "penstock[";
  std::string words(line.substr(0, line.find_last_not_of('\n') + 1));
  if (words.starts_with(tag))
    if (const auto end = words.find("]: "); end != words.npos)
      words.erase(tag.size() - 1, end + 2 - tag.size());
  return words;
}

// "rank 2", "ranks 0, 3-5"
std::string text_of(const std::set<std::uint32_t>& ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (auto it = ranks.begin(); it != ranks.end();) {
    const std::uint32_t first = *it;
    std::uint32_t last = first;
    while (++it != ranks.end() && *it == last + 1) ++last;
    out += std::to_string(first);
    if (last != first) out.append("-").append(std::to_string(last));
    if (it != ranks.end()) out.append(", ");
  }
  return out;
}

}  // namespace

bool repeats::said_by_another(std::uint32_t rank, const std::string& words) const {
  return std::any_of(shown_.begin(), shown_.end(),
                     [&](const shown& s) { return s.by != rank && s.words == words; });
}

void repeats::show(std::uint32_t rank, std::string_view line) {
  show_(rank, line);
  shown_.push_back({words_of(line), rank, penstock::now_ns()});
  if (shown_.size() > memory_lines) shown_.pop_front();
}

void repeats::take(std::uint32_t rank, std::string_view line) {
  const std::uint64_t now = penstock::now_ns();
  while (!shown_.empty() && shown_.front().at_ns + memory_ns < now) shown_.pop_front();
  // Lines behind a kept one are kept, too, so that a process's lines stay in order.
  const auto at = kept_.find(rank);
  if (at == kept_.end() && !said_by_another(rank, words_of(line))) return show(rank, line);
  kept& k = kept_[rank];
  if (k.lines.empty()) k.since_ns = now;
  k.lines.emplace_back(line);
  if (failed_.contains(rank))
    failed(rank);
  else if (k.lines.size() > memory_lines)
    release(rank);
}

void repeats::failed(std::uint32_t rank) {
  failed_.insert(rank);
  const auto node = kept_.extract(rank);
  if (node.empty()) return;
  for (const auto& line : node.mapped().lines) {
    const std::string words = words_of(line);
    if (!said_by_another(rank, words)) {
      show(rank, line);
      continue;
    }
    const auto at = std::find_if(counted_.begin(), counted_.end(),
                                 [&](const auto& c) { return c.first == words; });
    auto& ranks = at != counted_.end()
                      ? at->second
                      : counted_.emplace_back(words, std::set<std::uint32_t>{}).second;
    ranks.insert(rank);
  }
}

void repeats::release(std::uint32_t rank) {
  const auto node = kept_.extract(rank);
  if (node.empty()) return;
  for (const auto& line : node.mapped().lines) show(rank, line);
}

void repeats::release_old() {
  const std::uint64_t now = penstock::now_ns();
  std::vector<std::uint32_t> old;
  for (const auto& [rank, k] : kept_)
    if (k.since_ns + keep_ns <= now) old.push_back(rank);
  for (const auto rank : old) release(rank);
}

std::uint64_t repeats::next_ns() const {
  std::uint64_t next = 0;
  for (const auto& [rank, k] : kept_)
    if (next == 0 || k.since_ns + keep_ns < next) next = k.since_ns + keep_ns;
  return next;
}

std::string repeats::summary() const {
  std::string out;
  for (const auto& [words, ranks] : counted_) {
    out.append("penrun: the same from ").append(text_of(ranks)).append(": ");
    out.append(words, 0, quoted).append(words.size() > quoted ? "...\n" : "\n");
  }
  return out;
}

}  // namespace penrun
