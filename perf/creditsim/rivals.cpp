#include "perf/creditsim/rivals.hpp"

#include <algorithm>
#include <bit>
#include <deque>
#include <unordered_map>

namespace penstock::creditsim {
namespace {

class arena {
 public:
  arena(rule r, const rival_settings& s, pattern& p, std::uint32_t nodes)
      : rule_(r),
        settings_(s),
        pattern_(p),
        nodes_(nodes),
        recovery_(s.latency * static_cast<std::uint32_t>(std::bit_width(nodes - 1))),
        due_(std::size_t{1} + std::max({2 * s.latency + s.rnr_steps, s.latency + recovery_})) {
    for (std::uint32_t i = 0; i < nodes; ++i) wake(i);
  }

  rival_outcome run() {
    for (; live_ != 0; ++now_) {
      arrivals();
      serve_all();
      send_all();
    }
    out_.steps = last_busy_ + 1;
    out_.finished = out_.sent == pattern_.total() && held_back_ == 0;
    fill_curve();
    return std::move(out_);
  }

 private:
  enum class what : std::uint8_t { request, again, back, resume, lent };
  struct message {
    std::uint32_t from, to, cost;
    what type;
    std::uint32_t number = 0;  // of its pair, by rnr
  };
  struct node {
    send_order order;
    bool running = false, serving = false;
    bool queued = false;    // by online: waits for its turn
    bool admitted = false;  // by online: its turn has come, and room is kept for its order
    // As receiver:
    std::deque<message> inbox;
    std::uint32_t occupied = 0;  // credits in the inbox
    std::uint64_t expected = 0;  // credits on their way and in the inbox
    bool paused = false, resuming = false;
    std::uint64_t paused_at = 0;
    std::vector<message> refused;       // by pause: come again when it resumes
    std::deque<std::uint32_t> waiters;  // senders that this receiver holds up
  };
  struct pair_state {
    std::uint32_t out = 0;               // credits in use (fixed)
    std::uint32_t away = 0;              // messages to come again (rnr)
    std::uint32_t posted = 0, next = 0;  // numbers (rnr): of the next one to leave, to be taken
    std::uint64_t lent_at = 0;           // when what it asked for has come (online); 0: not asked
  };

  pair_state& pair(std::uint32_t from, std::uint32_t to) {
    return pairs_[std::uint64_t{from} << 32 | to];
  }
  void post(std::uint32_t after, const message& m) {
    due_[(now_ + after) % due_.size()].push_back(m);
    ++live_;
  }
  void wake(std::uint32_t i) {
    if (nodes_[i].running) return;
    nodes_[i].running = true;
    run_.push_back(i);
    ++live_;
  }
  void wake_waiters(node& n) {
    constexpr std::size_t some = 32;  // no fewer than one message's credits
    for (std::size_t k = std::min(some, n.waiters.size()); k != 0; --k) {
      wake(n.waiters.front());
      n.waiters.pop_front();
    }
  }

  void arrivals() {
    std::vector<message> due;
    due.swap(due_[now_ % due_.size()]);
    live_ -= due.size();
    if (!due.empty()) last_busy_ = now_;
    for (const message& m : due) arrive(m);
  }

  void arrive(message m) {
    node& n = nodes_[m.to];
    switch (m.type) {
      case what::back:
        if (rule_ == rule::fixed || rule_ == rule::online) {
          pair(m.to, m.from).out -= m.cost;
          wake(m.to);
        }
        return;
      case what::lent:
        wake(m.to);
        return;
      case what::resume:
        n.paused = n.resuming = false;
        for (message& r : n.refused) post(settings_.latency, r);
        held_back_ -= n.refused.size();
        n.refused.clear();
        while (!n.waiters.empty()) wake_waiters(n);
        return;
      case what::again:
        --pair(m.from, m.to).away;
        m.type = what::request;
        [[fallthrough]];
      case what::request:
        break;
    }
    const bool limited = rule_ == rule::rnr || rule_ == rule::pause;
    const bool full = limited && n.occupied + m.cost > std::max(settings_.memory, m.cost);
    if (rule_ == rule::rnr && (full || pair(m.from, m.to).next != m.number)) {
      // Messages behind a refused one on its connection are refused, too, and stay behind it.
      ++out_.repeated;
      ++pair(m.from, m.to).away;
      m.type = what::again;
      post(2 * settings_.latency + settings_.rnr_steps, m);
      return;
    }
    if (rule_ == rule::pause && (full || n.paused)) {
      ++out_.repeated;
      ++held_back_;
      if (!n.paused) ++out_.pauses, n.paused_at = now_;
      n.paused = true;
      n.refused.push_back(m);
      if (n.inbox.empty()) try_resume(m.to, n);
      return;
    }
    if (rule_ == rule::rnr) {
      ++pair(m.from, m.to).next;
      wake(m.from);
    }
    n.occupied += m.cost;
    n.inbox.push_back(m);
    if (n.serving) return;
    n.serving = true;
    serve_.push_back(m.to);
    ++live_;
  }

  // All messages that it held are handled: the senders learn of that by a tree.
  void try_resume(std::uint32_t i, node& n) {
    if (!n.paused || n.resuming) return;
    n.resuming = true;
    post(recovery_, {i, i, 0, what::resume, 0});
  }

  void serve_all() {
    std::vector<std::uint32_t> batch;
    batch.swap(serve_);
    live_ -= batch.size();
    if (!batch.empty()) last_busy_ = now_;
    for (const std::uint32_t i : batch) {
      node& n = nodes_[i];
      for (std::uint32_t k = 0; k < settings_.service && !n.inbox.empty(); ++k) {
        const message m = n.inbox.front();
        n.inbox.pop_front();
        n.occupied -= m.cost;
        n.expected -= m.cost;
        ++handled_;
        post(settings_.latency, {m.to, m.from, m.cost, what::back, 0});
        if (const std::uint32_t who = pattern_.arrived(i, m.from); who != nobody) wake(who);
        if (pattern_.phase() != phase_) {
          phase_ = pattern_.phase();
          for (std::uint32_t j = 0; j < nodes_.size(); ++j) wake(j);
        }
      }
      if (rule_ == rule::clairvoyant) wake_waiters(n);
      if (rule_ == rule::online) admit(n);
      n.serving = !n.inbox.empty();
      if (n.serving) {
        serve_.push_back(i);
        ++live_;
      } else {
        try_resume(i, n);
      }
    }
    if (curve_.empty() || curve_.back().second != handled_) curve_.emplace_back(now_, handled_);
  }

  /// Whether there will be room for a message when it arrives, if it leaves now.
  [[nodiscard]] bool has_room(const node& to, std::uint32_t cost) const {
    // Until then at most this many of the messages that lie there or are on their way will be
    // handled.
    const std::uint64_t handled =
        std::uint64_t{settings_.service} * settings_.latency * std::max(settings_.medium_cost, 1U);
    const std::uint64_t then = to.expected > handled ? to.expected - handled : 0;
    return then + cost <= std::max(settings_.memory, cost);
  }

  /// Gives free room to the senders that wait, one message each, in turn.
  void admit(node& to) {
    while (!to.waiters.empty()) {
      node& first = nodes_[to.waiters.front()];
      if (!has_room(to, first.order.cost)) return;
      to.expected += first.order.cost;
      first.admitted = true;
      first.queued = false;
      wake(to.waiters.front());
      to.waiters.pop_front();
    }
  }

  /// Enters a sender once, though a reply may wake one that waits already.
  void enqueue(node& to, std::uint32_t from) {
    if (!nodes_[from].queued) to.waiters.push_back(from);
    nodes_[from].queued = true;
  }

  enum class answer : std::uint8_t { yes, queue, later };
  [[nodiscard]] answer may_send_online(node& n, const send_order& o, std::uint32_t from) {
    node& to = nodes_[o.to];
    if (n.admitted) {
      n.admitted = false;
      to.expected -= o.cost;  // is added again where it is sent
      pair(from, o.to).out += o.cost;
      return answer::yes;
    }
    pair_state& own = pair(from, o.to);
    if (own.lent_at == 0) own.lent_at = now_ + 2 * std::uint64_t{settings_.latency};
    if (now_ < own.lent_at && own.out + o.cost > std::max(settings_.start_loan, o.cost)) {
      post(static_cast<std::uint32_t>(own.lent_at - now_), {from, from, 0, what::lent});
      return answer::later;
    }
    if (own.out + o.cost > std::max(settings_.most_each, o.cost)) return answer::later;
    if (!to.waiters.empty() || !has_room(to, o.cost)) return answer::queue;
    own.out += o.cost;
    return answer::yes;
  }

  [[nodiscard]] bool may_send(const send_order& o, std::uint32_t from) {
    node& to = nodes_[o.to];
    switch (rule_) {
      case rule::unlimited:
        return true;
      case rule::clairvoyant:
        return has_room(to, o.cost);
      case rule::online: {
        const answer a = may_send_online(nodes_[from], o, from);
        if (a == answer::queue) enqueue(to, from);
        return a == answer::yes;
      }
      case rule::fixed:
        return pair(from, o.to).out + o.cost <= std::max(settings_.fixed_each, o.cost);
      case rule::rnr:
        return pair(from, o.to).away == 0;
      case rule::pause:
        return !to.paused || now_ < to.paused_at + settings_.latency;  // it has not heard of it
    }
    return true;
  }

  void send_all() {
    std::vector<std::uint32_t> batch;
    batch.swap(run_);
    live_ -= batch.size();
    if (!batch.empty()) last_busy_ = now_;
    for (const std::uint32_t i : batch) nodes_[i].running = false;
    for (const std::uint32_t i : batch)
      if (try_send(i)) wake(i);
  }

  bool try_send(std::uint32_t i) {
    node& n = nodes_[i];
    if (n.order.cost == 0) {
      if (!pattern_.next(i, n.order)) return false;
      if (n.order.cost > 1) n.order.cost = settings_.medium_cost;
    }
    const send_order o = n.order;
    if (!may_send(o, i)) {
      // By the other rules it is woken by what comes back to it.
      if (rule_ == rule::clairvoyant || rule_ == rule::pause) nodes_[o.to].waiters.push_back(i);
      return false;
    }
    if (rule_ == rule::fixed) pair(i, o.to).out += o.cost;
    nodes_[o.to].expected += o.cost;
    const std::uint32_t number = rule_ == rule::rnr ? pair(i, o.to).posted++ : 0;
    post(settings_.latency, {i, o.to, o.cost, what::request, number});
    n.order.cost = 0;
    ++out_.sent;
    return true;
  }

  void fill_curve() {
    constexpr std::uint64_t parts = 100;
    std::size_t at = 0;
    for (std::uint64_t k = 1; k <= parts; ++k) {
      while (at + 1 < curve_.size() && curve_[at + 1].first <= out_.steps * k / parts) ++at;
      out_.handled_by.push_back(curve_.empty() ? 0 : curve_[at].second);
    }
  }

  const rule rule_;
  const rival_settings settings_;
  pattern& pattern_;
  std::vector<node> nodes_;
  const std::uint32_t recovery_;
  std::vector<std::vector<message>> due_;
  std::vector<std::uint32_t> run_, serve_;
  std::unordered_map<std::uint64_t, pair_state> pairs_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> curve_;  // step, handled by then
  std::uint64_t now_ = 0, last_busy_ = 0, handled_ = 0;
  std::uint64_t live_ = 0;       // messages under way, and nodes with something to do
  std::uint64_t held_back_ = 0;  // by pause
  std::uint32_t phase_ = 0;
  rival_outcome out_;
};

}  // namespace

rival_outcome run_rival(rule r, const rival_settings& s, pattern& p, std::uint32_t nodes) {
  return arena(r, s, p, nodes).run();
}

}  // namespace penstock::creditsim
