// Queue pairs, completion queues and shared receive queues of identifiers, through libibverbs's own
// calls.
#include <fcntl.h>
#include <rdma/rdma_verbs.h>

#include <algorithm>
#include <cstring>

#include "nic/cm/cm.hpp"

namespace penstock::nic::cm {
namespace {

constexpr unsigned all_remote =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

int move(identifier& i, ibv_qp_state to) noexcept {
  ibv_qp_attr a{};
  int mask = 0;
  const int e = fill_attributes(i, to, i.pub.qp->qp_type, a, mask);
  return e != 0 ? e : ibv_modify_qp(i.pub.qp, &a, mask);
}

/// A new queue pair: it may take receives, and datagrams may be sent.
int begin(identifier& i) noexcept {
  int e = move(i, IBV_QPS_INIT);
  if (e == 0 && i.pub.qp->qp_type == IBV_QPT_UD) {
    e = move(i, IBV_QPS_RTR);
    if (e == 0) e = move(i, IBV_QPS_RTS);
  }
  return e;
}

/// A completion queue with a channel of its own, for rdma_get_send_comp and rdma_get_recv_comp.
int make_cq(identifier& i, std::uint32_t entries, ibv_comp_channel*& events, ibv_cq*& cq) noexcept {
  events = ibv_create_comp_channel(i.pub.verbs);
  if (events == nullptr) return errno;
  cq = ibv_create_cq(i.pub.verbs, static_cast<int>(std::max(entries, 1u)), &i.pub, events, 0);
  if (cq != nullptr) return 0;
  const int e = errno;
  ibv_destroy_comp_channel(events);
  events = nullptr;
  return e;
}

void free_cq(bool& ours, ibv_comp_channel*& events, ibv_cq*& cq) noexcept {
  if (ours) {
    ibv_destroy_cq(cq);
    ibv_destroy_comp_channel(events);
    events = nullptr;
  }
  cq = nullptr;
  ours = false;
}

void free_cqs(identifier& i) noexcept {
  free_cq(i.owns_send_cq, i.pub.send_cq_channel, i.pub.send_cq);
  if (!i.owns_srq) free_cq(i.owns_recv_cq, i.pub.recv_cq_channel, i.pub.recv_cq);
}

int choose_cqs(identifier& i, ibv_qp_init_attr_ex& a) noexcept {
  rdma_cm_id& id = i.pub;
  if (a.send_cq == nullptr && id.send_cq == nullptr && a.qp_type != IBV_QPT_XRC_RECV) {
    if (const int e = make_cq(i, a.cap.max_send_wr, id.send_cq_channel, id.send_cq)) return e;
    i.owns_send_cq = true;
  }
  if (a.recv_cq == nullptr && id.recv_cq == nullptr && a.qp_type != IBV_QPT_XRC_RECV &&
      a.qp_type != IBV_QPT_XRC_SEND) {
    if (const int e = make_cq(i, a.cap.max_recv_wr, id.recv_cq_channel, id.recv_cq)) return e;
    i.owns_recv_cq = true;
  }
  if (a.send_cq == nullptr) a.send_cq = id.send_cq;
  if (a.recv_cq == nullptr) a.recv_cq = id.recv_cq;
  return 0;
}

/// The device's own XRC domain; null with errno.
ibv_xrcd* default_xrcd(device& d) {
  const guard g(everything().lock);
  if (d.xrcd == nullptr) {
    ibv_xrcd_init_attr a{};
    a.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    a.fd = -1;
    a.oflags = O_CREAT;
    d.xrcd = ibv_open_xrcd(d.context, &a);
  }
  return d.xrcd;
}

int create_qp(identifier& i, ibv_qp_init_attr_ex& a) {
  rdma_cm_id& id = i.pub;
  if (id.verbs == nullptr)
    return refuse(EINVAL, "rdma_create_qp: the identifier has no device yet (rdma_resolve_addr)");
  if (id.qp != nullptr) return refuse(EINVAL, "rdma_create_qp: the identifier has a queue pair");
  if (i.datagrams() != (a.qp_type == IBV_QPT_UD))
    return refuse(EINVAL, "rdma_create_qp: a queue pair of type %d in this port space",
                  static_cast<int>(a.qp_type));
  if ((a.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || a.pd == nullptr) {
    a.comp_mask |= IBV_QP_INIT_ATTR_PD;
    a.pd = id.pd;
  } else if (a.pd->context != id.verbs) {
    return refuse(EINVAL,
                  "rdma_create_qp: the protection domain is of another context than id->verbs");
  }
  if (a.qp_type == IBV_QPT_XRC_RECV) {  // of a domain of its own kind instead
    if ((a.comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0) a.xrcd = default_xrcd(*i.dev);
    if (a.xrcd == nullptr) return errno;
    a.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  }
  if (a.srq == nullptr && a.qp_type != IBV_QPT_XRC_RECV && a.qp_type != IBV_QPT_XRC_SEND)
    a.srq = id.srq;
  if (const int e = choose_cqs(i, a)) return free_cqs(i), e;
  id.qp = ibv_create_qp_ex(id.verbs, &a);
  int e = id.qp != nullptr ? 0 : errno;
  if (e == 0) {
    id.qp_type = a.qp_type;
    e = begin(i);
  }
  if (e == 0) {
    if (a.pd != nullptr) id.pd = a.pd;
    id.send_cq = a.send_cq;
    id.recv_cq = a.recv_cq;
    return 0;
  }
  if (id.qp != nullptr) ibv_destroy_qp(id.qp);
  id.qp = nullptr;
  free_cqs(i);
  return e;
}

int create_srq(identifier& i, ibv_srq_init_attr_ex& a) {
  rdma_cm_id& id = i.pub;
  if (id.verbs == nullptr || id.srq != nullptr) return EINVAL;
  if ((a.comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || a.pd == nullptr) {
    a.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    a.pd = id.pd;
  }
  const bool xrc = (a.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 && a.srq_type == IBV_SRQT_XRC;
  if (xrc && (a.comp_mask & IBV_SRQ_INIT_ATTR_XRCD) == 0) {
    a.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
    a.xrcd = default_xrcd(*i.dev);
    if (a.xrcd == nullptr) return errno;
  }
  if (xrc && ((a.comp_mask & IBV_SRQ_INIT_ATTR_CQ) == 0 || a.cq == nullptr)) {
    if (const int e = make_cq(i, a.attr.max_wr, id.recv_cq_channel, id.recv_cq)) return e;
    i.owns_recv_cq = true;
    a.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
    a.cq = id.recv_cq;
  }
  id.srq = ibv_create_srq_ex(id.verbs, &a);
  if (id.srq == nullptr) {
    const int e = errno;
    free_cq(i.owns_recv_cq, id.recv_cq_channel, id.recv_cq);
    return e;
  }
  i.owns_srq = true;
  return 0;
}

}  // namespace

ibv_ah_attr path_to_peer(const identifier& i) noexcept {
  ibv_ah_attr a{};
  a.port_num = 1;
  a.dlid = i.peer.lid;
  a.is_global = i.dev->by_lid ? 0 : 1;
  a.grh.dgid = i.peer.gid;
  a.grh.sgid_index = i.dev->gid_row;
  a.grh.hop_limit = 64;
  a.grh.traffic_class = i.traffic_class;
  return a;
}

int fill_attributes(const identifier& i, ibv_qp_state to, ibv_qp_type type, ibv_qp_attr& a,
                    int& mask) noexcept {
  if (i.dev == nullptr) return EINVAL;
  const bool reliable = type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV || type == IBV_QPT_XRC_SEND;
  const bool sends = type != IBV_QPT_XRC_RECV, receives = type != IBV_QPT_XRC_SEND;
  a.qp_state = to;
  mask = IBV_QP_STATE;
  if (to == IBV_QPS_INIT) {
    a.port_num = 1;
    mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    if (type == IBV_QPT_UD) {
      a.qkey = i.qkey;
      mask |= IBV_QP_QKEY;
    } else {
      a.qp_access_flags = reliable ? all_remote : unsigned{IBV_ACCESS_REMOTE_WRITE};
      mask |= IBV_QP_ACCESS_FLAGS;
    }
    return 0;
  }
  if (type == IBV_QPT_UD) {
    if (to == IBV_QPS_RTS) mask |= IBV_QP_SQ_PSN;
    return to == IBV_QPS_RTR || to == IBV_QPS_RTS ? 0 : EINVAL;
  }
  if (i.peer.what != kind::req && i.peer.what != kind::rep) return EINVAL;  // there is no peer yet
  if (to == IBV_QPS_RTR) {
    a.ah_attr = path_to_peer(i);
    a.path_mtu = std::min(static_cast<ibv_mtu>(i.peer.mtu), i.dev->port.active_mtu);
    a.dest_qp_num = i.peer.qpn;
    a.rq_psn = i.peer.psn;
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (reliable && receives) {
      a.max_dest_rd_atomic = i.responder_resources;
      a.min_rnr_timer = 0;  // 655 ms
      mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    }
    return 0;
  }
  if (to != IBV_QPS_RTS) return EINVAL;
  a.sq_psn = i.psn;
  mask |= IBV_QP_SQ_PSN;
  if (reliable) {
    constexpr std::uint8_t usual = 17;  // of a packet lifetime of 16
    a.timeout = i.ack_timeout != 0 ? i.ack_timeout : usual;
    mask |= IBV_QP_TIMEOUT;
  }
  if (reliable && sends) {
    a.retry_cnt = i.retry_count;
    a.rnr_retry = i.rnr_retry_count;
    a.max_rd_atomic = i.initiator_depth;
    mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  return 0;
}

int make_ready(identifier& i) noexcept {
  const int e = move(i, IBV_QPS_RTR);
  return e != 0 ? e : move(i, IBV_QPS_RTS);
}

void make_fail(identifier& i) noexcept {
  if (i.pub.qp == nullptr) return;
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(i.pub.qp, &a, IBV_QP_STATE);
}

}  // namespace penstock::nic::cm

using namespace penstock::nic::cm;

extern "C" {

int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* a) {
  return answer([&] { return create_qp(of(id), *a); });
}

int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* a) {
  return answer([&] {
    ibv_qp_init_attr_ex whole{};
    std::memcpy(&whole, a, sizeof *a);  // the first fields are the same
    whole.comp_mask = IBV_QP_INIT_ATTR_PD;
    whole.pd = pd;
    const int e = create_qp(of(id), whole);
    if (e == 0) std::memcpy(a, &whole, sizeof *a);
    return e;
  });
}

void rdma_destroy_qp(rdma_cm_id* id) {
  if (id->qp != nullptr) ibv_destroy_qp(id->qp);
  id->qp = nullptr;
  free_cqs(of(id));
}

int rdma_create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* a) {
  return answer([&] { return create_srq(of(id), *a); });
}

int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* a) {
  return answer([&] {
    ibv_srq_init_attr_ex whole{};
    std::memcpy(&whole, a, sizeof *a);
    whole.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    whole.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
    whole.pd = pd;
    const int e = create_srq(of(id), whole);
    if (e == 0) std::memcpy(a, &whole, sizeof *a);
    return e;
  });
}

void rdma_destroy_srq(rdma_cm_id* id) {
  identifier& i = of(id);
  if (id->srq != nullptr) ibv_destroy_srq(id->srq);
  id->srq = nullptr;
  i.owns_srq = false;
  if (id->qp == nullptr) free_cq(i.owns_recv_cq, id->recv_cq_channel, id->recv_cq);
}

int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* a, int* mask) {
  return answer([&] {
    return a == nullptr || mask == nullptr
               ? EINVAL
               : fill_attributes(of(id), a->qp_state, id->qp_type, *a, *mask);
  });
}
}
