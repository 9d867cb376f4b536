// The program's part of a connection: rdma_connect, rdma_accept, rdma_reject, rdma_disconnect and
// their kin. What the peer does is in exchange.cpp.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "nic/cm/cm.hpp"

namespace penstock::nic::cm {
namespace {

/// How long an answer is waited for. An adapter's host repeats a request 15 times before it gives
/// up, which is about as long.
clock::time_point patience() {
  static const long ms = [] {
    const char* text = std::getenv("PENVERBS_CM_TIMEOUT_MS");
    const long given = text != nullptr ? std::strtol(text, nullptr, 10) : 0;
    return given > 0 ? given : 60'000;
  }();
  return clock::now() + std::chrono::milliseconds(ms);
}
/// How long a client asks for a listener that is not there. Some servers close their listener and
/// open it again, and count on a network that is slower than this one (perftest's with -R).
constexpr std::chrono::milliseconds grace{200};

void put_private(packet& p, const void* data, std::size_t bytes) noexcept {
  if (data != nullptr && bytes != 0) std::memcpy(p.data, data, bytes);
}
int check_private(kind k, const char* call, std::size_t bytes) {
  if (bytes <= private_bytes(k)) return 0;
  return refuse(EINVAL, "%s: %zu bytes of private data; at most %zu can be sent", call, bytes,
                private_bytes(k));
}

/// What every packet with an offer has.
packet about(const identifier& i, kind what) {
  packet p;
  p.what = what;
  p.responder_resources = i.responder_resources;
  p.initiator_depth = i.initiator_depth;
  p.retry_count = i.retry_count;
  p.rnr_retry_count = i.rnr_retry_count;
  p.qp_type = static_cast<std::uint8_t>(i.pub.qp != nullptr ? i.pub.qp->qp_type : i.pub.qp_type);
  p.mtu = static_cast<std::uint8_t>(i.dev->port.active_mtu);
  p.lid = i.dev->port.lid;
  p.gid = i.dev->gid;
  p.psn = i.psn;
  p.qkey = i.qkey;
  p.ece_vendor = i.local_ece.vendor_id;
  p.ece_options = i.local_ece.options;
  return p;
}

/// Depths that a program gives; RDMA_MAX_… stands for `most`.
int set_depths(identifier& i, const char* call, const rdma_conn_param& c, int most_responder,
               int most_initiator) {
  const auto set = [&](std::uint8_t given, std::uint8_t all, int most, int limit,
                       std::uint8_t& to) {
    if (given != all && given > limit)
      return refuse(EINVAL, "%s: a depth of %u; shm0 has at most %d", call, given, limit);
    to = given == all ? static_cast<std::uint8_t>(std::min(most, limit)) : given;
    return 0;
  };
  const int e = set(c.responder_resources, RDMA_MAX_RESP_RES, most_responder,
                    i.dev->limits.max_qp_rd_atom, i.responder_resources);
  return e != 0 ? e
                : set(c.initiator_depth, RDMA_MAX_INIT_DEPTH, most_initiator,
                      i.dev->limits.max_qp_init_rd_atom, i.initiator_depth);
}

/// The queue pair's number and whether it has a shared receive queue; of the program's own queue
/// pair as it says.
void put_queue_pair(packet& p, identifier& i, const rdma_conn_param* c) noexcept {
  if (i.pub.qp != nullptr) {
    p.qpn = i.pub.qp->qp_num;
    p.srq = i.pub.qp->srq != nullptr ? 1 : 0;
  } else if (c != nullptr) {
    p.qpn = c->qp_num;
    p.srq = c->srq;
  }
  if (c != nullptr) p.flow_control = c->flow_control;
  i.local_qpn = p.qpn;
}

void request(identifier& i, const rdma_conn_param* c, const guard& g) {
  const kind what = i.datagrams() ? kind::sidr_req : kind::req;
  i.psn = random_psn();
  packet p = about(i, what);
  put_queue_pair(p, i, c);
  std::memcpy(&p.from, &i.pub.route.addr.src_storage, sizeof p.from);
  std::memcpy(&p.to, &i.pub.route.addr.dst_storage, sizeof p.to);
  if (c != nullptr)
    put_private(p, c->private_data, c->private_data_len);
  else
    put_private(p, i.connect_data.data(), i.connect_data.size());
  i.request = std::make_unique<packet>(p);
  i.give_up = clock::now() + grace;
  send_request(i, g);
}

int connect(identifier& i, const rdma_conn_param* c, const guard& g) {
  if (i.at != state::route_resolved) return EINVAL;
  const std::size_t bytes = c != nullptr ? c->private_data_len : i.connect_data.size();
  if (const int e =
          check_private(i.datagrams() ? kind::sidr_req : kind::req, "rdma_connect", bytes))
    return e;
  rdma_conn_param all{};
  all.responder_resources = RDMA_MAX_RESP_RES;
  all.initiator_depth = RDMA_MAX_INIT_DEPTH;
  all.retry_count = all.rnr_retry_count = 7;
  if (!i.datagrams()) {
    const rdma_conn_param& given = c != nullptr ? *c : all;
    if (const int e = set_depths(i, "rdma_connect", given, RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH))
      return e;
    i.retry_count = given.retry_count & 7;
    i.rnr_retry_count = given.rnr_retry_count & 7;
  }
  request(i, c, g);
  return 0;
}

/// The part of rdma_accept before the peer hears of it.
int prepare_answer(identifier& i, const rdma_conn_param* c) {
  if (i.at != state::req_received) return EINVAL;
  if (const int e = check_private(i.datagrams() ? kind::sidr_rep : kind::rep, "rdma_accept",
                                  c != nullptr ? c->private_data_len : 0))
    return e;
  if (i.datagrams()) return 0;
  if (c != nullptr)
    if (const int e = set_depths(i, "rdma_accept", *c, i.responder_resources, i.initiator_depth))
      return e;
  return i.pub.qp != nullptr ? make_ready(i) : 0;
}

int accept(identifier& i, const rdma_conn_param* c, const guard& g) {
  if (i.at != state::req_received) return EINVAL;
  packet p = about(i, i.datagrams() ? kind::sidr_rep : kind::rep);
  put_queue_pair(p, i, c);
  if (c != nullptr) {
    put_private(p, c->private_data, c->private_data_len);
    p.rnr_retry_count = c->rnr_retry_count & 7;
  }
  const int e = send(i, p);
  if (i.datagrams()) {
    close_socket(i);
    i.at = state::established;
    return 0;
  }
  if (e != 0) return e;
  i.at = state::rep_sent;
  set_deadline(i, patience(), g);
  return 0;
}

int reject(identifier& i, int reason, const void* data, std::size_t bytes) {
  const guard g(everything().lock);
  if (i.at != state::req_received && i.at != state::rep_received) return EINVAL;
  packet p;
  p.what = i.datagrams() ? kind::sidr_rep : kind::rej;
  if (const int e = check_private(p.what, "rdma_reject", bytes)) return e;
  p.status = i.datagrams() ? sidr_reject : reason;
  put_private(p, data, bytes);
  send(i, p);  // who is gone needs no answer
  finish(i, g);
  close_socket(i);
  return 0;
}

int disconnect(identifier& i, bool& to_wait) {
  const guard g(everything().lock);
  switch (i.at) {
    case state::rep_received:
    case state::rep_sent:
    case state::established:
      if (i.datagrams()) return EINVAL;
      send_bare(i, kind::dreq);
      i.at = state::dreq_sent;
      if (!i.watched) watch(i, g);
      set_deadline(i, patience(), g);
      to_wait = true;
      return 0;
    case state::dreq_received:
      send_bare(i, kind::drep);
      finish(i, g);
      close_socket(i);
      set_deadline(i, clock::now() + timewait, g);
      return 0;
    case state::dreq_sent:
    case state::ended:
      return 0;
    default:
      return EINVAL;
  }
}

}  // namespace

void send_request(identifier& i, const guard& g) {
  int e = dial(i);
  if (e == 0) e = send(i, *i.request);
  if (e == 0) e = watch(i, g);
  if (e == 0) {
    i.at = state::req_sent;
    set_deadline(i, patience(), g);
    return;
  }
  if (e == ECONNREFUSED && clock::now() < i.give_up) {
    i.at = state::dialing;
    set_deadline(i, clock::now() + std::chrono::milliseconds(5), g);
    return;
  }
  i.at = state::ended;
  if (e == EACCES)
    refuse(e, "who listens at %s, port %u, belongs to another user",
           text_of_address(&i.pub.route.addr.dst_addr).c_str(),
           port_of(&i.pub.route.addr.dst_addr));
  // What a host says of which no process listens, or of whose queue is full.
  if (e == ECONNREFUSED && i.datagrams())
    report(i, RDMA_CM_EVENT_UNREACHABLE, sidr_unsupported, g);
  else if (e == ECONNREFUSED || e == EAGAIN)
    report(i, RDMA_CM_EVENT_REJECTED, e == EAGAIN ? rej_consumer : rej_no_service, g);
  else
    report(i, RDMA_CM_EVENT_UNREACHABLE, -e, g);
}

}  // namespace penstock::nic::cm

using namespace penstock::nic::cm;

extern "C" {

int rdma_connect(rdma_cm_id* id, rdma_conn_param* c) {
  return answer([&] {
    int e;
    {
      const guard g(everything().lock);
      e = connect(of(id), c, g);
    }
    return e != 0 ? e : complete(of(id));
  });
}

int rdma_establish(rdma_cm_id* id) {
  return answer([&] {
    const guard g(everything().lock);
    identifier& i = of(id);
    if (i.pub.qp != nullptr || i.at != state::rep_received) return EINVAL;
    i.at = state::established;
    send_bare(i, kind::rtu);  // if the peer is gone, an event says so
    return 0;
  });
}

int rdma_accept(rdma_cm_id* id, rdma_conn_param* c) {
  return answer([&] {
    identifier& i = of(id);
    int e = prepare_answer(i, c);
    if (e == 0) {
      const guard g(everything().lock);
      e = accept(i, c, g);
    }
    if (e != 0 && i.pub.qp != nullptr && !i.datagrams()) make_fail(i);
    return e != 0 || i.datagrams() ? e : complete(i);
  });
}

int rdma_reject(rdma_cm_id* id, const void* data, std::uint8_t bytes) {
  return answer([&] { return reject(of(id), rej_consumer, data, bytes); });
}
int rdma_reject_ece(rdma_cm_id* id, const void* data, std::uint8_t bytes) {
  return answer([&] { return reject(of(id), rej_vendor_option, data, bytes); });
}

int rdma_disconnect(rdma_cm_id* id) {
  return answer([&] {
    identifier& i = of(id);
    bool to_wait = false;
    if (const int e = disconnect(i, to_wait)) return e;
    make_fail(i);
    return to_wait ? complete(i) : 0;
  });
}

int rdma_notify(rdma_cm_id* id, ibv_event_type type) {
  return answer([&] {
    const guard g(everything().lock);
    identifier& i = of(id);
    if (type != IBV_EVENT_COMM_EST) return EINVAL;
    if (i.at != state::rep_sent) return i.at == state::established ? 0 : EINVAL;
    set_deadline(i, std::nullopt, g);
    i.at = state::established;
    report(i, RDMA_CM_EVENT_ESTABLISHED, 0, g);
    return 0;
  });
}

int rdma_set_local_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (id == nullptr || id->qp != nullptr || ece == nullptr || ece->vendor_id == 0)
    return errno = EINVAL, -1;
  of(id).local_ece = *ece;
  return 0;
}

int rdma_get_remote_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (id == nullptr || id->qp != nullptr || ece == nullptr) return errno = EINVAL, -1;
  *ece = {of(id).peer.ece_vendor, of(id).peer.ece_options, 0};
  return 0;
}
}
