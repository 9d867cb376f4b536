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
#include <endian.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>

#include "lib/base/descriptors.hpp"
#include "nic/cm/cm.hpp"

namespace penstock::nic::cm {
namespace {

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

void disconnected(identifier& i, int status, const guard& g) {
  finish(i, g);
  close_socket(i);
  report(i, RDMA_CM_EVENT_DISCONNECTED, status, g);
  set_deadline(i, clock::now() + timewait, g);
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

}  // namespace

std::uint32_t random_psn() {
  thread_local std::minstd_rand draw{std::random_device{}()};
  return static_cast<std::uint32_t>(draw()) & 0xffffff;
}

void finish(identifier& i, const guard& g) {
  set_deadline(i, std::nullopt, g);
  unwatch(i, g);
  i.at = state::ended;
}

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

bool accept_one(identifier& listener, guard& g) {
  const int s =
      opened("accept4", ::accept4(listener.socket, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (s < 0) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {  // look again later
      static std::atomic<bool> said{false};
      // relaxed: who says it does not matter
      if (!said.exchange(true, std::memory_order_relaxed))
        refuse(errno, "a connection cannot be accepted; it waits until it can");
      unwatch(listener, g);
      set_deadline(listener, clock::now() + std::chrono::milliseconds(50), g);
    }
    return false;
  }
  identifier* child = make_identifier(*listener.events, listener.pub.ps, g);
  child->socket = s;
  child->listener = listener.key;
  child->at = state::incoming;
  child->pub.context = listener.pub.context;
  const bool own = same_user(s);  // another user is not answered: that side knows why
  if (own && watch(*child, g) == 0) return true;
  if (!own) child->at = state::ended;
  free_identifier(child, g);
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
  // The end of a connection: nothing else comes now. A program that polls has perhaps been away
  // since it last saw its completion queue empty, and destroys the queue pair when it is told: it
  // is told when it asks for events again.
  if (i.at == state::established && !i.ending) {
    i.ending = true;
    unwatch(i, g);
    set_deadline(i, clock::now() + std::chrono::milliseconds(1), g);
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
    case state::listening:
    case state::established:  // look_at()
      // Refused, it is tried again: without it no event of this identifier's comes any more.
      if (watch(i, g) != 0) set_deadline(i, clock::now() + std::chrono::milliseconds(50), g);
      return;
    case state::dialing:
      return send_request(i, g);
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
