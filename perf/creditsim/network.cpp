// Moves time and messages, and keeps the figures.
#include "perf/creditsim/network.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace penstock::creditsim {

result<std::unique_ptr<network>> network::make(const network_settings& s, pattern& p,
                                               std::uint32_t nodes) {
  result<credit::config> c = credit::plan(nodes, 0, s.credits);
  if (!c) return c.error();
  return std::unique_ptr<network>(new network(s, p, *c));
}

network::network(const network_settings& s, pattern& p, const credit::config& c)
    : settings_(s),
      pattern_(p),
      config_(c),
      nodes_(c.ranks),
      blocks_((c.ranks + block_nodes - 1) / block_nodes) {
  // Twice the latency: a block may be that far ahead of another.
  for (block& b : blocks_) b.due.resize(std::size_t{2} * s.latency);
  cores_.resize(std::min(s.cores, c.ranks));
  dice_ = s.seed;
  for (std::uint32_t i = 0; i < c.ranks; ++i) {
    credit::config mine = c;
    mine.me = i;
    nodes_[i].emplace(mine);
    if (cores_.empty())
      wake(i);
    else
      ready_.push_back(i);
  }
  const std::uint32_t first = p.watched();
  for (std::uint32_t k = 1; k < c.ranks && k <= shown_peers; ++k)
    out_.peers.push_back((first + k) % c.ranks);
}

void network::wake(std::uint32_t i) {
  if (nodes_[i]->running || !cores_.empty()) return;
  nodes_[i]->running = true;
  blocks_[i / block_nodes].run.push_back(i);
}

/// If a lender's epoch has ended since the last look, closes its figures.
void network::turn_epoch(node& n) {
  if (n.phase != phase_) {
    n.phase = phase_;
    n.phase_epoch = n.l.epoch();
  }
  if (n.l.epoch() == n.epoch) return;
  n.epoch = n.l.epoch();
  n.moved_before = n.moved_now;
  n.moved_now = 0;
}

void network::note_moved(node& n, std::uint32_t credits) {
  turn_epoch(n);
  if (credits == 0) return;
  n.moved_now += credits;
  n.moved_most = std::max(n.moved_most, n.moved_now);
  out_.moved += credits;
  if (late_) out_.moved_late += credits;
  if (!out_.moments.empty()) out_.moments.back().moved += credits;
  const bool judged = !pattern_.watches_one() || &n == &*nodes_[pattern_.watched()];
  if (judged)
    out_.epochs_to_settle = std::max(out_.epochs_to_settle, n.l.epoch() - n.phase_epoch + 1);
}

void network::send_intents(std::uint32_t i, node& n) {
  if (!n.l.has_intents()) return;
  credit::grant g{};
  while (n.l.next_grant(g)) {
    note_moved(n, g.count);
    post({i, g.peer, g.count, 0, what::grant, g.end_epoch, false});
  }
  std::array<credit::revoke_intent, 16> r;
  const std::uint32_t k = n.l.next_revoke(r);
  for (std::uint32_t j = 0; j < k; ++j)
    post({i, r[j].peer, 0, r[j].at_most, what::revoke, r[j].end_epoch, r[j].urgent});
}

void network::arrive(const message& m, block& b) {
  node& n = *nodes_[m.to];
  if (m.type == what::read) {  // its device answers
    message whole = m;
    std::swap(whole.from, whole.to);
    whole.type = what::payload;
    return post(whole);
  }
  if (m.type == what::offer) {
    n.offered.push(m);
    return fetch(n);
  }
  if (m.type == what::freed) {
    --n.offers;
    return wake(m.to);
  }
  if (m.type == what::payload) post({m.to, m.from, 0, 0, what::freed, false, false});
  if (m.type == what::request || m.type == what::payload) {
    (m.type == what::request ? n.inbox : n.whole).push(m);
    if (!n.serving && cores_.empty()) {
      n.serving = true;
      b.serve.push_back(m.to);
    }
    return;
  }
  if (!cores_.empty()) return n.mail.push_back(m);
  take(m);
  if (m.type == what::reply || m.type == what::grant) wake(m.to);
}

/// Begins to fetch what was offered, as far as there is memory.
void network::fetch(node& n) {
  for (; n.fetched < credit::most_fetched_offers && !n.offered.empty(); ++n.fetched) {
    message m = n.offered.pop();
    std::swap(m.from, m.to);
    m.type = what::read;
    post(m);
  }
}

/// Handles a reply or a system message.
void network::take(const message& m) {
  node& n = *nodes_[m.to];
  switch (m.type) {
    case what::request:
    case what::offer:
    case what::read:
    case what::payload:
    case what::freed:
      return;
    case what::reply:
      static_cast<void>(n.l.on_credits(m.from, m.count, m.extra, m.end_epoch));
      return;
    case what::grant:
      static_cast<void>(n.l.on_grant(m.from, m.count, m.end_epoch));
      return;
    case what::revoke: {
      if (settings_.batches) {
        account& a = account_of(n, m.from);
        if (a.lease != 0) n.l.give_back(m.from, std::exchange(a.lease, 0));
      }
      const credit::revoke_answer a = n.l.on_revoke(m.from, m.end_epoch, m.urgent, m.extra);
      post({m.to, m.from, a.count, 0, what::return_, a.end_epoch, false});
      return;
    }
    case what::return_:
      static_cast<void>(n.l.on_return(m.from, m.count, m.end_epoch));
      note_moved(n, m.count);
      send_intents(m.to, n);
      return;
    case what::want: {
      const credit::want_answer a = n.l.on_want(m.from, m.count, m.urgent, m.end_epoch);
      if (a.send) {
        note_moved(n, a.message.count);
        post({m.to, m.from, a.message.count, 0, what::grant, a.message.end_epoch, false});
      }
      send_intents(m.to, n);
      return;
    }
  }
}

network::account& network::account_of(node& n, std::uint32_t peer) {
  for (account& a : n.accounts)
    if (a.peer == peer) return a;
  return n.accounts.emplace_back(account{.peer = peer});
}

/// Sends a peer all credits that it is owed; those that its credit byte cannot hold wait for the
/// next message.
void network::give_back_owed(std::uint32_t i, node& n, account& a) {
  const std::uint32_t granted = std::min<std::uint32_t>(a.grant, credit::credit_byte::need_max);
  post({i, a.peer, static_cast<std::uint16_t>(a.owed), static_cast<std::uint16_t>(granted),
        what::reply, n.l.take_epoch_mark(a.peer), false});
  a.grant -= granted;
  a.owed = a.unanswered = a.idle = 0;
}

/// No message came: credits that have been owed for long go back.
void network::look_at_idle(std::uint32_t i, node& n) {
  constexpr std::uint32_t idle_polls = 32;
  for (account& a : n.accounts)
    if (a.owed != 0 && ++a.idle >= idle_polls) give_back_owed(i, n, a);
}

/// The k-th request that is handled in this step.
network::message network::next_request(node& n, std::uint32_t k) {
  if (n.whole.empty() || (k % 2 == 0 && !n.inbox.empty())) return n.inbox.pop();
  const message m = n.whole.pop();
  --n.fetched;
  fetch(n);
  return m;
}

void network::serve(std::uint32_t i, node& n) {
  constexpr std::uint32_t most_unanswered = 64;  // chunks that one message frees
  for (std::uint32_t k = 0; k < settings_.service && has_requests(n); ++k) {
    const message m = next_request(n, k);
    const std::uint32_t granted = n.l.on_request(m.from, m.count, m.extra, m.end_epoch);
    note_moved(n, granted);
    if (!settings_.batches) {
      post({i, m.from, m.count, static_cast<std::uint16_t>(granted), what::reply,
            n.l.take_epoch_mark(m.from), false});
    } else {
      account& a = account_of(n, m.from);
      a.owed += m.count;
      a.grant += granted;
      a.idle = 0;
      if (m.extra != 0 || ++a.unanswered >= most_unanswered ||
          a.owed >= credit::return_batch(n.l.loan(m.from)))
        give_back_owed(i, n, a);
    }
    if (m.extra != 0) send_intents(i, n);
    if (const std::uint32_t who = pattern_.arrived(i, m.from); who != nobody) wake(who);
    if (pattern_.phase() != phase_) {
      phase_ = pattern_.phase();
      for (std::uint32_t j = 0; j < config_.ranks; ++j) wake(j);
    }
  }
}

/// Takes what the order costs, if `left` credits remain; with batches out of the lease, which is
/// filled for a stream.
bool network::take_credits(node& n, const send_order& o, std::uint32_t left) {
  if (!settings_.batches) return n.l.take_up_to(o.to, o.cost, o.cost, left) != 0;
  account& a = account_of(n, o.to);
  if (a.lease < o.cost) {
    const std::uint32_t missing = o.cost - a.lease;
    a.lease += n.l.take_up_to(o.to, missing, missing + (credit::lease_messages - 1) * o.cost, left);
    if (a.lease < o.cost) return false;
  }
  a.lease -= o.cost;
  return true;
}

/// The node's order waits for credits (blocked), or is offered for want of them: tells the ledger,
/// and sends the WANT that the ledger names.
void network::ask(std::uint32_t i, node& n, bool blocked) {
  const send_order o = n.order;
  if (!std::exchange(n.stalled.noted, true))
    n.need = std::min<std::uint32_t>(n.l.note_stall(o.to, o.cost), credit::credit_byte::need_max);
  if (const credit::want w = n.l.next_want(o.to, o.cost, n.stalled, blocked); w.count != 0)
    post({i, o.to, static_cast<std::uint16_t>(w.count), 0, what::want, n.l.take_epoch_mark(o.to),
          w.urgent});
}

/// Takes credits for the order, or for its offer. An order that could be offered leaves `left`
/// credits to offers.
network::way network::find_way(node& n, const send_order& o, std::uint32_t left) {
  if (take_credits(n, o, left)) return way::at_once;
  if (!cores_.empty() && read_mail(n) && take_credits(n, o, left)) return way::at_once;
  if (left == 0) return way::none;
  if (n.offers < settings_.offers) return take_credits(n, {o.to, 1}, 0) ? way::offered : way::none;
  return take_credits(n, o, 0) ? way::at_once : way::none;
}

/// True if the node may send again in the next step.
bool network::try_send(std::uint32_t i, node& n) {
  if (n.order.cost == 0) {
    if (!pattern_.next(i, n.order)) return false;
    if (n.order.cost > 1) n.order.cost = settings_.medium_cost;
  }
  send_order o = n.order;
  const std::uint32_t left = settings_.offers == 0 ? 0 : n.l.left_to_offers(o.to, o.cost);
  const bool lacks = n.l.lacks(o.to, o.cost);
  const way how = find_way(n, o, left);
  if (how == way::none && !n.stalled.noted) {
    ++out_.stalled;
    ++out_.moments.back().stalled;
    if (late_) ++out_.stalled_late;
  }
  if (how == way::none || (how == way::offered && lacks)) ask(i, n, left == 0);
  if (how == way::none) return false;
  const bool offered = how == way::offered;
  if (offered) {
    o.cost = 1;
    ++n.offers;
  }
  if (n.stalled.noted) n.l.end_stall(o.to);
  post({i, o.to, static_cast<std::uint16_t>(o.cost), static_cast<std::uint16_t>(n.need),
        offered ? what::offer : what::request, n.l.take_epoch_mark(o.to), false});
  if (const std::uint32_t w = n.l.early_want(o.to, o.cost); w != 0)
    post({i, o.to, static_cast<std::uint16_t>(w), 0, what::want, n.l.take_epoch_mark(o.to), false});
  n.order.cost = n.need = 0;
  n.stalled = {};
  ++n.sent;
  ++out_.sent;
  return true;
}

bool network::read_mail(node& n) {
  const bool any = !n.mail.empty();
  for (const message& m : n.mail) take(m);
  n.mail.clear();
  return any;
}

/// With cores: a poll of the node. False: no message had come.
bool network::poll(std::uint32_t i, node& n) {
  const bool mail = read_mail(n), requests = has_requests(n);
  serve(i, n);
  if (!mail && !requests) look_at_idle(i, n);
  return mail || requests;
}

/// With cores: one step. A node that neither sends nor finds a message yields its core to the next
/// one.
void network::take_turns() {
  for (block& b : blocks_) {
    std::vector<message>& due = b.due[now_ % b.due.size()];
    in_flight_ -= due.size();
    for (const message& m : due) arrive(m, b);
    due.clear();
  }
  for (turn& t : cores_) {
    if (t.node == nobody) {
      if (ready_.empty()) continue;
      t.node = ready_.front();
      ready_.pop_front();
      dice_ = dice_ * 6364136223846793005U + 1442695040888963407U;
      t.left = 1 + static_cast<std::uint32_t>((dice_ >> 33) % settings_.slice);
    }
    node& n = *nodes_[t.node];
    const bool busy = try_send(t.node, n) || poll(t.node, n);
    if (busy) last_busy_ = now_;
    if (busy && --t.left != 0) continue;
    ready_.push_back(t.node);
    t.node = nobody;
  }
}

/// One step of one block, at now_.
void network::step(block& b) {
  std::vector<message>& due = b.due[now_ % b.due.size()];
  if (due.empty() && b.run.empty() && b.serve.empty()) return;
  last_busy_ = std::max(last_busy_, now_);
  in_flight_ -= due.size();
  for (const message& m : due) arrive(m, b);
  due.clear();
  batch_.swap(b.serve);
  for (const std::uint32_t i : batch_) {
    node& n = *nodes_[i];
    serve(i, n);
    if (settings_.batches && !has_requests(n)) look_at_idle(i, n);
    n.serving = has_requests(n) || std::any_of(n.accounts.begin(), n.accounts.end(),
                                               [](const account& a) { return a.owed != 0; });
    if (n.serving) b.serve.push_back(i);
  }
  batch_.clear();
  batch_.swap(b.run);
  for (const std::uint32_t i : batch_) nodes_[i]->running = false;
  for (const std::uint32_t i : batch_)
    if (try_send(i, *nodes_[i])) wake(i);
  batch_.clear();
}

/// True if no node has work and no message is under way.
bool network::idle() const {
  // Who waits for a core always has something to look at: done, or nothing came for long.
  if (!cores_.empty())
    return now_ > last_busy_ + 64 * (std::uint64_t{settings_.latency} + config_.ranks);
  return in_flight_ == 0 && std::all_of(blocks_.begin(), blocks_.end(), [](const block& b) {
           return b.run.empty() && b.serve.empty();
         });
}

/// Runs as many steps of all nodes as a message takes.
void network::go() {
  const std::uint64_t from = now_, end = from + settings_.latency;
  if (!cores_.empty()) {
    for (; now_ < end; ++now_) take_turns();
    return;
  }
  const std::uint32_t stretch = !pattern_.local()        ? 1
                                : settings_.stretch == 0 ? settings_.latency
                                                         : settings_.stretch;
  for (std::uint64_t at = from; at < end; at += stretch)
    for (block& b : blocks_)
      for (now_ = at; now_ < std::min(at + stretch, end); ++now_) step(b);
  now_ = end;
}

outcome network::run(const std::function<void(double)>& progress) {
  const std::uint64_t total = pattern_.total();
  const std::uint64_t every = std::max<std::uint64_t>(1, total / 128);
  look();
  while (!idle()) {
    go();
    if (out_.sent >= out_.moments.back().sent + every) {
      look();
      progress(static_cast<double>(out_.sent) / static_cast<double>(total));
    }
    if (!late_ && out_.sent * 2 >= total) {
      late_ = true;
      judge_shares();
    }
  }
  judge_end();
  return std::move(out_);
}

/// Notes one moment for the pictures.
void network::look() {
  const node_ledger& l = nodes_[pattern_.watched()]->l;
  moment m;
  m.step = now_;
  m.sent = out_.sent;
  m.watched_bank = l.bank();
  for (const std::uint32_t p : out_.peers) m.held.push_back(l.loan(p));
  out_.moments.push_back(std::move(m));
}

/// Jain's index of what each node with a part in the pattern had sent by now.
void network::judge_shares() {
  double sum = 0, squares = 0, count = 0;
  for (const auto& n : nodes_) {
    if (n->sent == 0) continue;
    sum += n->sent;
    squares += static_cast<double>(n->sent) * n->sent;
    ++count;
  }
  out_.fairness = squares > 0 ? sum * sum / (count * squares) : 1;
}

void network::judge_end() {
  out_.steps = last_busy_ + 1;
  out_.finished = out_.sent == pattern_.total();
  for (auto& p : nodes_) {
    node& n = *p;
    turn_epoch(n);
    out_.epochs = std::max(out_.epochs, n.epoch);
    const std::uint32_t last = n.epoch == 0 ? n.moved_now : n.moved_before;
    out_.moved_last_epoch = std::max<std::uint64_t>(out_.moved_last_epoch, last);
    out_.moved_most_epoch = std::max<std::uint64_t>(out_.moved_most_epoch, n.moved_most);
  }
}

}  // namespace penstock::creditsim
