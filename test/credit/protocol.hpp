// The engine's handling of a ledger's answers, for tests: messages as values, and the handling of
// each. The caller keeps the messages that are sent and delivers them, in any order.
#pragma once

#include <array>
#include <cstdint>

#include "credit/credit.hpp"

namespace penstock::credit::testing {

enum class what : std::uint8_t { request, reply, revoke, return_, want, grant };

struct message {
  what type;
  std::uint32_t from, to;
  std::uint32_t count = 0;  // used or returned
  std::uint32_t extra = 0;  // need or granted; a REVOKE's at_most
  bool end_epoch = false, urgent = false;
};

/// Where all processes have met.
struct ask_each {
  reach operator()(std::uint32_t) const { return reach::ask; }
};

/// Sends the system messages that the ledger asks for. how: as in next_revoke().
template <class Ledger, class Send, class How = ask_each>
void send_intents(Ledger& l, Send&& send, How&& how = {}) {
  if (!l.has_intents()) return;
  const std::uint32_t me = l.settings().me;
  const auto send_grants = [&] {
    credit::grant g{};
    while (l.next_grant(g)) send({what::grant, me, g.peer, g.count, 0, g.end_epoch});
  };
  send_grants();
  std::array<revoke_intent, 4> r;
  const std::uint32_t n = l.next_revoke(r, how);
  for (std::uint32_t i = 0; i < n; ++i)
    send({what::revoke, me, r[i].peer, 0, r[i].at_most, r[i].end_epoch, r[i].urgent});
  send_grants();
}

/// Handles one message at its target, and sends what follows from it. False if it was refused.
template <class Ledger, class Send, class How = ask_each>
bool handle(Ledger& l, const message& m, Send&& send, How&& how = {}) {
  const std::uint32_t me = m.to;
  status s = status::ok;
  switch (m.type) {
    case what::request: {
      const std::uint32_t granted = l.on_request(m.from, m.count, m.extra, m.end_epoch);
      send({what::reply, me, m.from, m.count, granted, l.take_epoch_mark(m.from)});
      break;
    }
    case what::reply:
      s = l.on_credits(m.from, m.count, m.extra, m.end_epoch);
      break;
    case what::revoke: {
      const revoke_answer a = l.on_revoke(m.from, m.end_epoch, m.urgent, m.extra);
      send({what::return_, me, m.from, a.count, 0, a.end_epoch});
      break;
    }
    case what::return_:
      s = l.on_return(m.from, m.count, m.end_epoch);
      break;
    case what::want: {
      const want_answer a = l.on_want(m.from, m.count, m.urgent, m.end_epoch);
      if (a.send) send({what::grant, me, a.message.peer, a.message.count, 0, a.message.end_epoch});
      break;
    }
    case what::grant:
      s = l.on_grant(m.from, m.count, m.end_epoch);
      break;
  }
  send_intents(l, send, how);
  return s == status::ok;
}

}  // namespace penstock::credit::testing
