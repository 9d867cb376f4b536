// A third path, to show that the contract of peer/path.hpp is all that the engine asks of one: a
// process's messages to itself. It keeps a copy of each message, and a poll runs the handlers. It
// costs no credits, has no device, and is never connected.
#pragma once

#include <deque>
#include <memory>

#include "lib/conduit/peer/core_inl.hpp"
#include "lib/conduit/peer/path.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

template <>
class path_by<way::loopback> {
 public:
  path_by(core& c, credit_flow&, connections&) noexcept : c_(c) {}
  std::uint32_t cost_of(const peer&, const outgoing&) const { return 0; }
  bool request_quick(peer&, std::uint32_t, auto...) { return false; }
  bool reply_quick(token_state&, auto...) { return false; }
  void allow_quick(bool) {}
  status try_request(peer& p, const outgoing& m) { return keep(p, m, true); }
  void reserve(auto&&...) {}
  void cancel(peer&, draft&) {}
  status reply(token_state& t, const outgoing& m) {
    const status s = keep(*t.from, m, false);
    t.replied = s == status::ok;
    return s;
  }
  bool say(peer&, const wire::header&) { return true; }
  void give_credits_back(inside<end_of::request_in>, peer&, std::uint32_t) {}

  unsigned poll(domain&, std::uint32_t, bool, bool&) { return take(true) + take(false); }
  unsigned poll_others(domain&, std::uint32_t) { return 0; }
  unsigned poll_replies(domain&, std::uint32_t) { return take(false); }
  unsigned poll_replies_of(peer&, std::uint32_t) { return take(false); }
  bool has_news(peer&) const { return !kept_[0].empty() || !kept_[1].empty(); }
  bool holds_back(domain&, std::uint32_t) { return false; }
  void each_event_queue(auto&&) const {}

  void send_put_off() {}
  bool answers_left() const { return false; }
  unsigned reap_sends(domain&) { return 0; }
  bool sent_all(const peer&) const { return true; }
  void return_idle_credits(domain&, std::uint32_t) {}
  void probe_peers() {}

  result<void> open(ibv_comp_channel*) { return {}; }
  void close() {}
  void describe_lane(peer&, unsigned, ibv_qp_init_attr&) {}
  void attached(peer&) {}
  result<void> reached(peer&) { return {}; }
  void shut(peer&) {}
  void note_end(peer&) {}

 private:
  status keep(peer& p, const outgoing& m, bool request) {
    self_ = &p;
    return kept_[request].emplace_back(std::make_unique<kept_message>())->keep(m, c_.segment());
  }
  unsigned take(bool request) {
    if (kept_[request].empty()) return 0;
    const auto k = std::move(kept_[request].front());
    kept_[request].pop_front();
    token_state t(c_.self(), *self_, {}, request);
    std::memcpy(&t.header, k->bytes, sizeof t.header);
    codec::parts at = codec::packed(t.header).find(k->bytes);
    if (k->large) at.payload = k->large.get();
    if (!c_.run_handler(t, at, 0, k->large_bytes)) fatal(9, "a message that makes no sense");
    return 1;
  }

  core& c_;
  peer* self_ = nullptr;
  std::deque<std::unique_ptr<kept_message>> kept_[2];  // replies, requests
};
static_assert(path<path_by<way::loopback>>);

}  // namespace penstock::conduit::PENSTOCK_ABI
