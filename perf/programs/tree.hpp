// An unbalanced tree is counted: rank 0 has all of it at first, and ranks without work steal. A
// node's children are a function of its number: none, or with a probability of a little less than
// a quarter four, so that subtrees differ by orders of magnitude.
//   by mail     a thief asks a rank, which answers with its oldest nodes. The end is found as
//               Dijkstra and Scholten do: who got nodes tells the giver when they and what was
//               given of them are done
//   by memory   a rank lays out its oldest nodes, and a thief, or the rank itself, takes them by
//               compare-and-swap. A counter at rank 0 has the pieces that are not done
// Right if all ranks together count as many nodes as rank 0 does alone.
#pragma once

#include <sched.h>

#include <algorithm>
#include <vector>

#include "perf/programs/transport.hpp"

namespace penstock::programs {

using nodes = std::vector<word>;

/// Replaces the last node by its children.
inline void expand(nodes& stack) {
  constexpr int work = 32;  // about 100 ns, as a small hash of bytes takes
  constexpr word share = word{0xffffffff} / 1000 * 247;
  const word node = stack.back();
  stack.pop_back();
  if (node >> 32 >= share) return;
  for (word child = 0; child < 4; ++child) {
    word number = node + child + 1;
    for (int i = 0; i < work; ++i) number = mix(number);
    stack.push_back(number);
  }
}
inline nodes first_nodes(std::size_t count) {
  nodes stack;
  for (std::size_t i = 0; i < count; ++i) stack.push_back(random_word(0, i));
  return stack;
}

constexpr std::size_t rich = 64;  ///< Who has so many nodes gives some away.
/// The oldest nodes, half of them at most, which have the largest subtrees above them.
inline nodes split(nodes& stack) {
  const auto end =
      stack.begin() + static_cast<std::ptrdiff_t>(std::min(stack.size() / 2, most_words));
  nodes part(stack.begin(), end);
  stack.erase(stack.begin(), end);
  return part;
}

/// The ranks from which one steals, in random order.
class victims {
 public:
  explicit victims(rank_number me, rank_number ranks) noexcept : me_(me), ranks_(ranks) {}
  rank_number next() noexcept {
    return (me_ + 1 + rank_by(random_word(me_, ++count_), ranks_ - 1)) % ranks_;
  }

 private:
  rank_number me_, ranks_;
  word count_ = 0;
};

template <template <class> class Mail, class Job>
class stealing_by_mail {
 public:
  stealing_by_mail(Job& job, nodes& stack)
      : me_(job.rank()),
        ranks_(job.size()),
        stack_(stack),
        victims_(me_, ranks_),
        giver_(me_ == 0 ? 0 : nobody),
        mail_(job, *this) {}

  void tend() { mail_.poll(); }
  bool steal() {
    while (!over_) {
      if (owed_ == 0 && giver_ == me_) {
        for (rank_number r = 0; r < ranks_; ++r)
          if (r != me_) mail_.send(r, {the_end, 0, 0});
        break;
      }
      if (owed_ == 0 && giver_ != nobody) {
        mail_.send(giver_, {done, 0, 0});
        giver_ = nobody;
      }
      asking_ = true;
      mail_.send(victims_.next(), {question, 0, 0});
      mail_.wait([&] { return !asking_; });
      if (stack_.empty()) continue;
      if (giver_ == nobody)
        giver_ = from_;
      else
        mail_.send(from_, {done, 0, 0});  // these nodes are part of what giver_ gave
      return true;
    }
    return false;
  }
  void finish() { mail_.settle(); }

  template <class Envelope>
  void on(Envelope&& about, letter l) {
    if (l.kind == done) --owed_;
    if (l.kind == the_end) over_ = true;
    if (l.kind == nothing) asking_ = false;
    if (l.kind != question) return;
    if (stack_.size() < rich) return about.answer({nothing, 0, 0});
    ++owed_;
    nodes part = split(stack_);
    about.answer(part);
  }
  template <class Envelope>
  void on(Envelope&& about, words_view part) {
    for (std::size_t i = 0; i < part.size(); ++i) stack_.push_back(part[i]);
    from_ = about.from();
    asking_ = false;
  }

 private:
  enum : word { question, nothing, done, the_end };
  static constexpr rank_number nobody = ~rank_number{0};
  rank_number me_, ranks_;
  nodes& stack_;
  victims victims_;
  rank_number giver_;     // who is told when all is done; rank 0 itself: the end
  rank_number from_ = 0;  // whom the last nodes came from
  word owed_ = 0;         // parts given that are not done
  bool asking_ = false, over_ = false;
  Mail<stealing_by_mail> mail_;
};

template <class Memory, class Job>
class stealing_by_memory {
 public:
  stealing_by_memory(Job& job, nodes& stack)
      : me_(job.rank()),
        ranks_(job.size()),
        stack_(stack),
        victims_(me_, ranks_),
        holds_(me_ == 0),
        memory_(job, part + most_words) {
    if (me_ == 0) memory_.fetch_add(0, pieces, 1);
  }

  void tend() {
    memory_.poll();
    if (stack_.size() < rich || memory_.get(me_, state) != empty) return;
    const nodes some = split(stack_);
    const word count = some.size();
    memory_.put(me_, size, std::span(&count, 1));
    memory_.put(me_, part, std::span<const word>(some));
    memory_.fetch_add(0, pieces, 1);
    memory_.compare_and_swap(me_, state, empty, laid_out);
  }
  bool steal() {
    if (holds_) memory_.fetch_add(0, pieces, ~word{0});
    while (!take(me_) && (ranks_ == 1 || !take(victims_.next()))) {
      if (memory_.get(0, pieces) == 0) return holds_ = false;
      memory_.poll();
      sched_yield();
    }
    return holds_ = true;
  }
  void finish() {}

 private:
  enum : word { pieces, state, size, part };  // where things lie
  enum : word { empty, laid_out, taken };
  bool take(rank_number from) {
    if (memory_.get(from, state) != laid_out ||
        memory_.compare_and_swap(from, state, laid_out, taken) != laid_out)
      return false;
    word count = 0;
    memory_.get(from, size, std::span(&count, 1));
    stack_.resize(count);
    memory_.get(from, part, std::span(stack_));
    memory_.compare_and_swap(from, state, taken, empty);
    return true;
  }
  rank_number me_, ranks_;
  nodes& stack_;
  victims victims_;
  bool holds_;  // a piece that is counted
  Memory memory_;
};

/// first: nodes below the root, each of which has 84 descendants in the mean.
template <class Transport, class Job>
outcome tree(Job& job, std::size_t first) {
  nodes stack = job.rank() == 0 ? first_nodes(first) : nodes();
  Transport work(job, stack);
  word counted = 0;
  const double seconds = timed(job, [&] {
    do {
      while (!stack.empty()) {
        for (int i = 0; i < 32 && !stack.empty(); ++i, ++counted) expand(stack);
        work.tend();
      }
    } while (work.steal());
    work.finish();
  });
  word alone = 0;
  if (job.rank() == 0)
    for (nodes all = first_nodes(first); !all.empty(); ++alone) expand(all);
  return {seconds, job.sum(counted) == job.sum(alone)};
}

}  // namespace penstock::programs
