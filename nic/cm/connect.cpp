// Connections and lookups of datagram services, from REQ to DREP.
//
//   active                              passive
//   rdma_connect        --- REQ --->    CONNECT_REQUEST
//   CONNECT_RESPONSE    <-- REP ----    rdma_accept          (REJ: REJECTED)
//   (ESTABLISHED)       --- RTU --->    ESTABLISHED
//   rdma_disconnect     --- DREQ -->    DISCONNECTED         (either side)
//   DISCONNECTED        <-- DREP ---    rdma_disconnect, rdma_destroy_id
//
// A lookup is SIDR_REQ and SIDR_REP. Each exchange has a socket of its own; the end of a process
// is the end of its sockets.
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include "lib/base/descriptors.hpp"
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
constexpr std::chrono::milliseconds timewait{200};

std::uint32_t random_psn() {
  thread_local std::minstd_rand draw{std::random_device{}()};
  return static_cast<std::uint32_t>(draw()) & 0xffffff;
}

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

void put_private(event& e, const packet& p) noexcept {
  std::memcpy(e.data, p.data, sizeof e.data);
  rdma_conn_param& c = e.pub.param.conn;  // in front of rdma_ud_param the same two fields
  c.private_data = e.data;
  c.private_data_len = static_cast<std::uint8_t>(private_bytes(p.what));
}

/// The peer's parameters, as the receiver sees them: what the sender may have under way is what
/// the receiver has to respond to.
void put_parameters(event& e, const identifier& i, const packet& p) noexcept {
  put_private(e, p);
  if (i.datagrams()) {
    rdma_ud_param& u = e.pub.param.ud;
    u.qp_num = p.qpn;
    u.qkey = p.qkey;
    u.ah_attr = path_to_peer(i);
    return;
  }
  rdma_conn_param& c = e.pub.param.conn;
  c.responder_resources = p.initiator_depth;
  c.initiator_depth = p.responder_resources;
  c.flow_control = p.flow_control;
  c.retry_count = p.retry_count;
  c.rnr_retry_count = p.rnr_retry_count;
  c.srq = p.srq;
  c.qp_num = p.qpn;
}

/// This side's depths, from the peer's.
void take_depths(identifier& i, const packet& p) noexcept {
  const auto least = [](std::uint8_t a, int b) {
    return static_cast<std::uint8_t>(std::min<int>(a, b));
  };
  i.responder_resources = least(p.initiator_depth, i.dev->limits.max_qp_rd_atom);
  i.initiator_depth = least(p.responder_resources, i.dev->limits.max_qp_init_rd_atom);
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

void finish(identifier& i, const guard& g) {
  set_deadline(i, std::nullopt, g);
  unwatch(i, g);
  i.at = state::ended;
}

void disconnected(identifier& i, int status, const guard& g) {
  finish(i, g);
  close_socket(i);
  report(i, RDMA_CM_EVENT_DISCONNECTED, status, g);
  set_deadline(i, clock::now() + timewait, g);
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
  int e = dial(i);
  if (e == 0) e = send(i, p);
  if (e == 0) e = watch(i, g);
  if (e == 0) {
    i.at = state::req_sent;
    set_deadline(i, patience(), g);
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

/// A request has come in. False: it makes no sense.
bool take_request(identifier& i, const packet& p, const guard& g) {
  identifier& listener = *everything().all.at(i.listener);
  if (p.what != (i.datagrams() ? kind::sidr_req : kind::req)) return false;
  std::memcpy(&i.pub.route.addr.src_storage, &p.to, sizeof p.to);
  std::memcpy(&i.pub.route.addr.dst_storage, &p.from, sizeof p.from);
  if (take_device(i, &i.pub.route.addr.src_addr) != 0) return false;
  i.peer = p;
  i.traffic_class = listener.traffic_class;
  i.ack_timeout = listener.ack_timeout;
  i.pub.qp_type =
      p.qp_type == IBV_QPT_XRC_SEND ? IBV_QPT_XRC_RECV : static_cast<ibv_qp_type>(p.qp_type);
  take_depths(i, p);
  i.retry_count = p.retry_count;
  i.rnr_retry_count = p.rnr_retry_count;
  i.psn = random_psn();
  fill_path(i);
  i.at = state::req_received;
  if (i.datagrams()) unwatch(i, g);  // whether the asker lives is its own affair
  event& e = report(listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0, g);
  e.pub.id = &i.pub;
  e.pub.listen_id = &listener.pub;
  put_parameters(e, i, p);
  return true;
}

void take_answer(identifier& i, const packet& p, const guard& g) {
  if (p.what == kind::rej) {
    finish(i, g);
    put_private(report(i, RDMA_CM_EVENT_REJECTED, p.status, g), p);
  } else if (p.what == kind::rep) {
    set_deadline(i, std::nullopt, g);
    i.peer = p;
    take_depths(i, p);
    i.rnr_retry_count = p.rnr_retry_count;
    i.at = state::rep_received;
    put_parameters(report(i, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, g), i, p);
  } else if (p.what == kind::sidr_rep) {
    finish(i, g);
    close_socket(i);
    i.peer = p;
    if (p.status == 0) i.at = state::established;
    put_parameters(report(i, p.status == 0 ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_UNREACHABLE,
                          p.status, g),
                   i, p);
  }
}

void take_packet(identifier& i, const packet& p, guard& g) {
  switch (i.at) {
    case state::incoming:
      if (!take_request(i, p, g)) free_identifier(&i, g);
      return;
    case state::req_sent:
      return take_answer(i, p, g);
    case state::rep_sent:
      if (p.what == kind::rtu) {
        set_deadline(i, std::nullopt, g);
        i.at = state::established;
        report(i, RDMA_CM_EVENT_ESTABLISHED, 0, g);
        return;
      }
      [[fallthrough]];
    case state::rep_received:
      if (p.what == kind::rej) {
        finish(i, g);
        put_private(report(i, RDMA_CM_EVENT_REJECTED, p.status, g), p);
        return;
      }
      [[fallthrough]];
    case state::established:
      if (p.what != kind::dreq) return;
      set_deadline(i, std::nullopt, g);
      unwatch(i, g);  // whatever comes now changes nothing
      i.at = state::dreq_received;
      report(i, RDMA_CM_EVENT_DISCONNECTED, 0, g);
      return;
    case state::dreq_sent:  // both may have asked at once
      if (p.what == kind::drep || p.what == kind::dreq) disconnected(i, 0, g);
      return;
    default:
      return;
  }
}

void hung_up(identifier& i, guard& g) {
  switch (i.at) {
    case state::incoming:
      return free_identifier(&i, g);
    case state::req_sent:
    case state::req_received:
    case state::rep_sent:
      finish(i, g);
      report(i, RDMA_CM_EVENT_UNREACHABLE, -ECONNRESET, g);
      return;
    case state::rep_received:
    case state::established:
    case state::dreq_sent:
      return disconnected(i, 0, g);
    default:
      return unwatch(i, g);
  }
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

std::size_t private_bytes(kind k) noexcept {
  switch (k) {
    case kind::req:
      return 56;
    case kind::rep:
      return 196;
    case kind::rej:
      return 148;
    case kind::sidr_req:
      return 180;
    case kind::sidr_rep:
      return 136;
    default:
      return 0;
  }
}

bool accept_one(identifier& listener, const guard& g) {
  const int s =
      opened("accept4", ::accept4(listener.socket, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (s < 0) return false;
  identifier* child = make_identifier(*listener.events, listener.pub.ps, g);
  child->socket = s;
  child->listener = listener.key;
  child->at = state::incoming;
  child->pub.context = listener.pub.context;
  // What another user sends is not looked at; that side knows why.
  if (same_user(s) && watch(*child, g) == 0) return true;
  child->at = state::ended;
  everything().all.erase(child->key);
  close_socket(*child);
  delete child;
  return true;
}

int send(const identifier& i, const packet& p) noexcept {
  if (::send(i.socket, &p, sizeof p, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof p) return 0;
  return errno == EPIPE ? ECONNRESET : errno;
}

void send_bare(const identifier& i, kind what, int status) noexcept {
  packet p;
  p.what = what;
  p.status = status;
  send(i, p);
}

void look_at(identifier& i, guard& g) {
  if (i.at == state::listening) {
    accept_one(i, g);
    return;
  }
  packet p;
  ssize_t n = ::recv(i.socket, &p, sizeof p, 0);
  // A peer that ended without reading all it was sent: what it said before comes after the error.
  if (n < 0 && errno == ECONNRESET) n = ::recv(i.socket, &p, sizeof p, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n != sizeof p || p.version != packet{}.version) return hung_up(i, g);
  take_packet(i, p, g);
}

void expire(identifier& i, const guard& g) {
  switch (i.at) {
    case state::req_sent:
    case state::rep_sent:
      finish(i, g);
      close_socket(i);
      report(i, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, g);
      return;
    case state::dreq_sent:
      return disconnected(i, -ETIMEDOUT, g);
    case state::ended:
      report(i, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, g);
      return;
    default:
      return;
  }
}

void settle(event& e) {
  identifier& i = of(e.pub.id);
  if (i.pub.qp == nullptr) return;
  if (e.pub.event == RDMA_CM_EVENT_REJECTED || e.pub.event == RDMA_CM_EVENT_UNREACHABLE)
    if (!i.datagrams()) make_fail(i);
  if (e.pub.event != RDMA_CM_EVENT_CONNECT_RESPONSE) return;
  const int failed = make_ready(i);
  if (failed != 0) make_fail(i);
  const guard g(everything().lock);
  if (i.at == state::rep_received) {
    if (failed != 0)
      finish(i, g);
    else
      i.at = state::established;
    send_bare(i, failed != 0 ? kind::rej : kind::rtu, failed != 0 ? rej_consumer : 0);
  }
  e.pub.event = failed != 0 ? RDMA_CM_EVENT_CONNECT_ERROR : RDMA_CM_EVENT_ESTABLISHED;
  e.pub.status = -failed;
}

int take_device(identifier& i, const sockaddr* a) {
  i.dev = open_device(device_of(a));
  if (i.dev == nullptr) return errno;
  i.pub.verbs = i.dev->context;
  i.pub.pd = i.dev->pd;
  i.pub.port_num = 1;
  return 0;
}

void fill_path(identifier& i) {
  const sockaddr* to = &i.pub.route.addr.dst_addr;
  const device* far = i.at == state::incoming ? nullptr : open_device(device_of(to));
  ibv_sa_path_rec& p = i.path;
  p = {};
  p.sgid = i.dev->gid;
  p.dgid = far != nullptr ? far->gid : i.peer.gid;
  p.slid = htobe16(i.dev->port.lid);
  p.dlid = htobe16(far != nullptr ? far->port.lid : i.peer.lid);
  p.hop_limit = 64;
  p.traffic_class = i.traffic_class;
  p.reversible = 1;
  p.numb_path = 1;
  p.pkey = 0xffff;
  p.mtu_selector = p.rate_selector = p.packet_life_time_selector = 2;  // exactly
  p.mtu = static_cast<std::uint8_t>(i.dev->port.active_mtu);
  p.rate = IBV_RATE_MAX;
  p.packet_life_time = 16;
  i.pub.route.path_rec = &i.path;
  i.pub.route.num_paths = 1;
  i.pub.route.addr.addr.ibaddr = {i.dev->gid, p.dgid, 0xffff};
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
