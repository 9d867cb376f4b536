// rdma_getaddrinfo, and endpoints: identifiers that block, with a queue pair of their own.
#include <netdb.h>
#include <rdma/rdma_verbs.h>

#include <cstdlib>
#include <cstring>

#include "nic/cm/cm.hpp"

namespace penstock::nic::cm {
namespace {

/// One result, with the addresses behind it, so that it is one block.
struct info {
  rdma_addrinfo pub{};  // first: the program has its address
  sockaddr_storage source{}, destination{};
};

using names = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

void put_address(sockaddr_storage& to, const sockaddr* from, sockaddr*& at, socklen_t& bytes) {
  bytes = length_of(from);
  std::memcpy(&to, from, bytes);
  at = reinterpret_cast<sockaddr*>(&to);
}
void put_address(sockaddr_storage& to, const addrinfo& from, sockaddr*& at, socklen_t& bytes,
                 char*& name) {
  put_address(to, from.ai_addr, at, bytes);
  if (from.ai_canonname != nullptr) name = ::strdup(from.ai_canonname);
}

/// Types that belong together; one of them or both may be given.
void complete_types(rdma_addrinfo& r) noexcept {
  if (r.ai_port_space == 0)
    r.ai_port_space = r.ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
  if (r.ai_qp_type == 0)
    r.ai_qp_type = r.ai_port_space == RDMA_PS_UDP || r.ai_port_space == RDMA_PS_IPOIB ? IBV_QPT_UD
                                                                                      : IBV_QPT_RC;
}

int look_up(const char* node, const char* service, const rdma_addrinfo* hints,
            rdma_addrinfo** result) {
  const rdma_addrinfo none{};
  const rdma_addrinfo& h = hints != nullptr ? *hints : none;
  const bool passive = (h.ai_flags & RAI_PASSIVE) != 0;
  if (node == nullptr && service == nullptr && hints == nullptr) return EAI_NONAME;
  auto made = std::make_unique<info>();
  rdma_addrinfo& r = made->pub;
  r.ai_flags = h.ai_flags;
  r.ai_qp_type = h.ai_qp_type;
  r.ai_port_space = h.ai_port_space;
  complete_types(r);
  if (node != nullptr || service != nullptr) {
    addrinfo wanted{};
    if (passive) wanted.ai_flags |= AI_PASSIVE;
    if ((h.ai_flags & RAI_NUMERICHOST) != 0) wanted.ai_flags |= AI_NUMERICHOST;
    if ((h.ai_flags & RAI_FAMILY) != 0) wanted.ai_family = h.ai_family;
    wanted.ai_socktype = r.ai_qp_type == IBV_QPT_UD ? SOCK_DGRAM : SOCK_STREAM;
    addrinfo* first = nullptr;
    if (const int e = ::getaddrinfo(node, service, &wanted, &first)) return e;
    const names list(first, ::freeaddrinfo);
    r.ai_family = first->ai_family;
    if (passive)
      put_address(made->source, *first, r.ai_src_addr, r.ai_src_len, r.ai_src_canonname);
    else
      put_address(made->destination, *first, r.ai_dst_addr, r.ai_dst_len, r.ai_dst_canonname);
  } else if (h.ai_dst_addr != nullptr && length_of(h.ai_dst_addr) != 0) {
    put_address(made->destination, h.ai_dst_addr, r.ai_dst_addr, r.ai_dst_len);
    r.ai_family = h.ai_dst_addr->sa_family;
  } else {
    r.ai_family = h.ai_family;
  }
  if (r.ai_src_addr == nullptr && h.ai_src_addr != nullptr && length_of(h.ai_src_addr) != 0) {
    put_address(made->source, h.ai_src_addr, r.ai_src_addr, r.ai_src_len);
  } else if (r.ai_dst_addr != nullptr && (h.ai_flags & RAI_NOROUTE) == 0) {
    const sockaddr_storage from = source_for(r.ai_dst_addr);
    put_address(made->source, reinterpret_cast<const sockaddr*>(&from), r.ai_src_addr,
                r.ai_src_len);
  }
  *result = &made.release()->pub;
  return 0;
}

int create(rdma_cm_id** to, const rdma_addrinfo& from, ibv_pd* pd, ibv_qp_init_attr* attr) {
  rdma_cm_id* id = nullptr;
  const bool passive = (from.ai_flags & RAI_PASSIVE) != 0;
  int failed =
      rdma_create_id(nullptr, &id, nullptr, static_cast<rdma_port_space>(from.ai_port_space));
  if (failed != 0) return errno;
  identifier& i = of(id);
  id->qp_type = static_cast<ibv_qp_type>(from.ai_qp_type);
  if (passive) {
    failed = rdma_bind_addr(id, from.ai_src_addr);
    if (failed == 0 && attr != nullptr) {
      i.ep_attr = *attr;
      i.ep_attr->qp_type = id->qp_type;
      i.ep_pd = pd;
    }
  } else {
    constexpr int unused_ms = 2000;
    failed = rdma_resolve_addr(id, from.ai_src_addr, from.ai_dst_addr, unused_ms);
    if (failed == 0) failed = rdma_resolve_route(id, unused_ms);
    if (failed == 0 && attr != nullptr) {
      attr->qp_type = id->qp_type;
      failed = rdma_create_qp(id, pd, attr);
    }
    if (failed == 0 && from.ai_connect_len != 0) {
      const auto* data = static_cast<const std::uint8_t*>(from.ai_connect);
      i.connect_data.assign(data, data + from.ai_connect_len);
    }
  }
  if (failed == 0) return *to = id, 0;
  const int e = errno;
  rdma_destroy_ep(id);
  return e;
}

int take_request(identifier& listener, rdma_cm_id** to) {
  if (!listener.sync) return EINVAL;
  drop_kept_event(listener);
  rdma_cm_event* got = nullptr;
  if (const int e = next_event(*listener.events, &got)) return e;
  if (got->event != RDMA_CM_EVENT_CONNECT_REQUEST || got->status != 0) {
    const int e = got->status < 0 ? -got->status : EINVAL;
    rdma_ack_cm_event(got);
    return e;
  }
  rdma_cm_id* id = got->id;
  int failed = rdma_migrate_id(id, nullptr);
  if (failed == 0 && listener.ep_attr) {
    ibv_qp_init_attr attr = *listener.ep_attr;
    failed = rdma_create_qp(id, listener.ep_pd, &attr);
  }
  if (failed != 0) {
    const int e = errno;
    rdma_ack_cm_event(got);
    rdma_reject(id, nullptr, 0);
    rdma_destroy_id(id);
    return e;
  }
  // The event stays with the new identifier; it is counted there from now on.
  {
    auto& w = everything();
    const guard g(w.lock);
    if (--listener.unacked == 0) w.acknowledged.notify_all();
    of(got).counted_for = &of(id);
    ++of(id).unacked;
    id->event = got;
  }
  *to = id;
  return 0;
}

}  // namespace
}  // namespace penstock::nic::cm

using namespace penstock::nic::cm;

extern "C" {

// Errors are getaddrinfo(3)'s.
int rdma_getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints,
                     rdma_addrinfo** result) {
  int code = EAI_MEMORY;
  answer([&] {
    code = result == nullptr ? EAI_FAIL : look_up(node, service, hints, result);
    return 0;
  });
  return code;
}

void rdma_freeaddrinfo(rdma_addrinfo* first) {
  while (first != nullptr) {
    rdma_addrinfo* next = first->ai_next;
    std::free(first->ai_src_canonname);
    std::free(first->ai_dst_canonname);
    delete reinterpret_cast<info*>(first);
    first = next;
  }
}

int rdma_create_ep(rdma_cm_id** to, rdma_addrinfo* from, ibv_pd* pd, ibv_qp_init_attr* attr) {
  return answer(
      [&] { return to == nullptr || from == nullptr ? EINVAL : create(to, *from, pd, attr); });
}

void rdma_destroy_ep(rdma_cm_id* id) {
  if (id->qp != nullptr) rdma_destroy_qp(id);
  if (id->srq != nullptr) rdma_destroy_srq(id);
  rdma_destroy_id(id);
}

int rdma_get_request(rdma_cm_id* listener, rdma_cm_id** to) {
  return answer([&] { return take_request(of(listener), to); });
}
}
