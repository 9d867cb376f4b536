// A distributed hash table with open addressing: every rank inserts keys, and then looks up keys
// of all ranks, every eighth of which nobody has inserted.
//   by mail     the owner inserts and answers; up to 64 questions of a rank are under way
//   by memory   the asker takes a place by compare-and-swap, and reads places until one has the
//               key
// Right if each question has the right answer, and each key that was inserted has one place.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "perf/programs/transport.hpp"

namespace penstock::programs {

/// Keys that are inserted are odd, those that are not are even; none is 0, which is an empty place.
constexpr word inserted_key(rank_number rank, word i) noexcept { return random_word(rank, i) | 1; }
constexpr word value_of(word key) noexcept { return mix(key + 1); }

/// The answers that a rank has had.
struct answers {
  word taken = 0, wrong = 0;
  void take(word key, bool found, word value) noexcept {
    ++taken;
    const bool inserted = key % 2 != 0;
    if (found != inserted || (found && value != value_of(key))) ++wrong;
  }
};

struct entry {
  word key, value;
};
constexpr std::size_t places_for(std::size_t keys) noexcept { return std::bit_ceil(2 * keys); }

template <template <class> class Mail, class Job>
class table_by_mail {
 public:
  table_by_mail(Job& job, std::size_t keys)
      : job_(job), places_(places_for(keys)), mail_(job, *this) {}

  void insert(word key) {
    const rank_number owner = rank_by(mix(key), job_.size());
    if (owner == job_.rank())
      place_of(key) = {key, value_of(key)};
    else
      mail_.send(owner, {to_insert, key, value_of(key)});
  }
  void look_up(word key) {
    const rank_number owner = rank_by(mix(key), job_.size());
    if (owner == job_.rank()) {
      const entry& e = place_of(key);
      return answers_.take(key, e.key == key, e.value);
    }
    if (asked_ - told_ == 64) mail_.wait([&] { return asked_ - told_ < 64; });
    ++asked_;
    mail_.send(owner, {question, key, 0});
  }
  void settle() {
    mail_.wait([&] { return told_ == asked_; });
    mail_.settle();
  }
  [[nodiscard]] const answers& had() const noexcept { return answers_; }
  [[nodiscard]] word keys_here() const noexcept {
    return static_cast<word>(
        std::count_if(places_.begin(), places_.end(), [](const entry& e) { return e.key != 0; }));
  }

  template <class Envelope>
  void on(Envelope&& about, letter l) {
    if (l.kind == to_insert) {
      place_of(l.a) = {l.a, l.b};
    } else if (l.kind == question) {
      const entry& e = place_of(l.a);
      about.answer({e.key == l.a ? found : missing, l.a, e.value});
    } else {
      ++told_;
      answers_.take(l.a, l.kind == found, l.b);
    }
  }
  template <class Envelope>
  void on(Envelope&&, words_view) {}

 private:
  enum : word { to_insert, question, found, missing };
  /// The key's place, or the empty one where it would be.
  entry& place_of(word key) noexcept {
    for (word at = mix(key);; ++at) {
      entry& e = places_[at & (places_.size() - 1)];
      if (e.key == key || e.key == 0) return e;
    }
  }
  Job& job_;
  std::vector<entry> places_;
  word asked_ = 0, told_ = 0;
  answers answers_;
  Mail<table_by_mail> mail_;
};

template <class Memory, class Job>
class table_by_memory {
 public:
  table_by_memory(Job& job, std::size_t keys)
      : job_(job), last_(places_for(keys) - 1), memory_(job, 2 * (last_ + 1)) {}

  void insert(word key) {
    const word hash = mix(key), value = value_of(key);
    const rank_number owner = rank_by(hash, job_.size());
    for (word at = hash;; ++at) {
      const word place = 2 * (at & last_);
      const word former = memory_.compare_and_swap(owner, place, 0, key);
      if (former != 0 && former != key) continue;
      return memory_.put(owner, place + 1, std::span(&value, 1));
    }
  }
  void look_up(word key) {
    const word hash = mix(key);
    const rank_number owner = rank_by(hash, job_.size());
    for (word at = hash;; ++at) {
      word e[2];
      memory_.get(owner, 2 * (at & last_), std::span(e));
      if (e[0] == key || e[0] == 0) return answers_.take(key, e[0] == key, e[1]);
    }
  }
  void settle() { job_.barrier(); }
  [[nodiscard]] const answers& had() const noexcept { return answers_; }
  [[nodiscard]] word keys_here() const noexcept {
    word n = 0;
    for (std::size_t at = 0; at <= last_; ++at) n += memory_.here()[2 * at] != 0;
    return n;
  }

 private:
  Job& job_;
  word last_;
  answers answers_;
  Memory memory_;
};

/// keys: of each rank, and as many questions.
template <class Transport, class Job>
outcome table(Job& job, std::size_t keys) {
  Transport t(job, keys);
  const double seconds = timed(job, [&] {
    for (std::size_t i = 0; i < keys; ++i) t.insert(inserted_key(job.rank(), i));
    t.settle();
    for (std::size_t i = 0; i < keys; ++i) {
      const word any = random_word(job.rank() + job.size(), i);
      const word key = inserted_key(rank_by(any, job.size()), any % keys);
      t.look_up(i % 8 == 0 ? any & ~word{1} : key);
    }
    t.settle();
  });
  const bool whole = job.sum(t.keys_here()) == keys * job.size();
  return {seconds, whole && t.had().taken == keys && t.had().wrong == 0};
}

}  // namespace penstock::programs
