// Random access updates: every rank inverts bits of words that lie anywhere, all ranks' at once.
//   by mail     updates are collected for each target, and travel by hundreds
//   by memory   each is an atomic exclusive-or
// Right if each rank's words are those that all ranks' updates make one after the other.
#pragma once

#include <algorithm>
#include <vector>

#include "perf/programs/transport.hpp"

namespace penstock::programs {

template <template <class> class Mail, class Job>
class updates_by_mail {
 public:
  updates_by_mail(Job& job, std::size_t words)
      : rank_(job.rank()), here_(words), collected_(job.size()), mail_(job, *this) {}

  void update(rank_number to, word value) {
    if (to == rank_) return apply(value);
    collected_[to].push_back(value);
    if (collected_[to].size() != most_words) return;
    mail_.send(to, collected_[to]);
    mail_.poll();
  }
  void finish() {
    for (rank_number to = 0; to < collected_.size(); ++to)
      if (!collected_[to].empty()) mail_.send(to, collected_[to]);
    mail_.settle();
  }
  [[nodiscard]] std::span<const word> here() const noexcept { return here_; }

  template <class Envelope>
  void on(Envelope&&, letter) {}
  template <class Envelope>
  void on(Envelope&&, words_view values) {
    for (std::size_t i = 0; i < values.size(); ++i) apply(values[i]);
  }

 private:
  void apply(word value) noexcept { here_[value & (here_.size() - 1)] ^= value; }
  rank_number rank_;
  std::vector<word> here_;
  std::vector<std::vector<word>> collected_;  // by target
  Mail<updates_by_mail> mail_;
};

template <class Memory, class Job>
class updates_by_memory {
 public:
  updates_by_memory(Job& job, std::size_t words) : last_(words - 1), memory_(job, words) {}
  void update(rank_number to, word value) { memory_.exclusive_or(to, value & last_, value); }
  void finish() { memory_.flush(); }
  [[nodiscard]] std::span<const word> here() const noexcept { return memory_.here(); }

 private:
  word last_;
  Memory memory_;
};

/// words: of each rank, a power of 2, and a quarter as many updates.
template <class Transport, class Job>
outcome updates(Job& job, std::size_t words) {
  const std::size_t count = words / 4;
  Transport table(job, words);
  const double seconds = timed(job, [&] {
    for (std::size_t i = 0; i < count; ++i) {
      const word value = random_word(job.rank(), i);
      table.update(rank_by(value, job.size()), value);
    }
    table.finish();
  });
  std::vector<word> expected(words);
  for (rank_number r = 0; r < job.size(); ++r)
    for (std::size_t i = 0; i < count; ++i) {
      const word value = random_word(r, i);
      if (rank_by(value, job.size()) == job.rank()) expected[value & (words - 1)] ^= value;
    }
  const std::span<const word> here = table.here();
  return {seconds, std::equal(here.begin(), here.end(), expected.begin(), expected.end())};
}

}  // namespace penstock::programs
