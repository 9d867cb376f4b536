// Identifiers before and after a connection: making and destroying them, addresses and routes,
// listening, options, channels.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "nic/cm/cm.hpp"

namespace penstock::nic::cm {
namespace {

ibv_qp_type type_in(rdma_port_space ps) noexcept {
  return ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
}

int create(rdma_event_channel* c, rdma_cm_id** to, void* context, rdma_port_space ps) {
  if (to == nullptr) return EINVAL;
  if (ps != RDMA_PS_TCP && ps != RDMA_PS_UDP && ps != RDMA_PS_IPOIB && ps != RDMA_PS_IB)
    return refuse(EPROTONOSUPPORT, "rdma_create_id: there is no port space 0x%x",
                  static_cast<unsigned>(ps));
  if (open_devices().empty()) return errno;
  std::unique_ptr<channel> own = c == nullptr ? make_channel() : nullptr;
  if (c == nullptr && !own) return errno;
  const guard g(everything().lock);
  identifier* i = make_identifier(own ? *own : of(c), ps, g);
  i->sync = own != nullptr;
  (void)own.release();  // its identifier frees it
  i->pub.context = context;
  *to = &i->pub;
  return 0;
}

/// Binds to an address: to its device, unless it is a wildcard, and to a port.
int bind(identifier& i, const sockaddr* a, bool may_listen) {
  const socklen_t bytes = a != nullptr ? length_of(a) : 0;
  if (bytes == 0)
    return refuse(EAFNOSUPPORT, "an address of family %d; shm0 takes IPv4 and IPv6",
                  a != nullptr ? a->sa_family : 0);
  if (!is_any(a) && !is_local(a))
    return refuse(EADDRNOTAVAIL, "%s is not an address of this host", text_of_address(a).c_str());
  std::memcpy(&i.pub.route.addr.src_storage, a, bytes);
  const int e = is_any(a) ? 0 : take_device(i, a);
  return e != 0 ? e : bind_socket(i, may_listen);
}

int resolve(identifier& i, const sockaddr* from, const sockaddr* to, const guard& g) {
  if (i.at != state::idle && i.at != state::bound) return EINVAL;
  const socklen_t bytes = to != nullptr ? length_of(to) : 0;
  if (bytes == 0)
    return refuse(EAFNOSUPPORT,
                  "rdma_resolve_addr: an address of family %d; shm0 takes IPv4 and IPv6",
                  to != nullptr ? to->sa_family : 0);
  rdma_addr& route = i.pub.route.addr;
  std::memcpy(&route.dst_storage, to, bytes);
  if (is_any(to)) {  // as with sockets: this host
    if (to->sa_family == AF_INET)
      route.dst_sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
      route.dst_sin6.sin6_addr = in6addr_loopback;
  }
  if (!is_reachable(&route.dst_addr)) {
    refuse(EHOSTUNREACH,
           "%s is not an address of this host: shm0 reaches one host, and with penverbs --fabric "
           "FOLDER all that share the folder",
           text_of_address(to).c_str());
    report(i, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH, g);
    return 0;
  }
  if (i.at == state::idle) {
    sockaddr_storage source = source_for(&route.dst_addr);
    if (from != nullptr && length_of(from) != 0) {
      if (!is_any(from)) std::memcpy(&source, from, length_of(from));
      set_port(reinterpret_cast<sockaddr*>(&source), port_of(from));
    }
    if (const int e = bind(i, reinterpret_cast<const sockaddr*>(&source), false)) return e;
  } else if (is_any(&route.src_addr)) {  // the name of its socket remains
    const std::uint16_t port = port_of(&route.src_addr);
    const sockaddr_storage source = source_for(&route.dst_addr);
    std::memcpy(&route.src_storage, &source, sizeof source);
    set_port(&route.src_addr, port);
  }
  if (i.dev == nullptr)
    if (const int e = take_device(i, &route.src_addr)) return e;
  i.at = state::address_resolved;
  report(i, RDMA_CM_EVENT_ADDR_RESOLVED, 0, g);
  return 0;
}

int set_option(identifier& i, int level, int name, const void* value, std::size_t bytes) {
  const auto number = [&](auto& to) {
    using T = std::decay_t<decltype(to)>;
    if (value == nullptr || bytes != sizeof(T)) return EINVAL;
    std::memcpy(&to, value, sizeof(T));
    return 0;
  };
  int flag = 0;
  if (level == RDMA_OPTION_ID) switch (name) {
      case RDMA_OPTION_ID_TOS:
        return number(i.traffic_class);
      case RDMA_OPTION_ID_ACK_TIMEOUT: {
        std::uint8_t t = 0;
        if (const int e = number(t)) return e;
        return t > 31 ? EINVAL : (i.ack_timeout = t, 0);
      }
      case RDMA_OPTION_ID_REUSEADDR:
      case RDMA_OPTION_ID_AFONLY:
        if (const int e = number(flag)) return e;
        if (i.at != state::idle && name == RDMA_OPTION_ID_AFONLY) return EINVAL;
        (name == RDMA_OPTION_ID_REUSEADDR ? i.reuse : i.v6_only) = flag != 0;
        return 0;
    }
  if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH) {
    // A path of the program's own. There is only one here, so it is as if it had asked for it.
    if (i.at != state::address_resolved || bytes < sizeof(ibv_path_data)) return EINVAL;
    const guard g(everything().lock);
    fill_path(i);
    i.at = state::route_resolved;
    report(i, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, g);
    return 0;
  }
  return refuse(ENOSYS, "rdma_set_option: there is no option %d of level %d", name, level);
}

void free_whole(identifier& i) noexcept {
  drop_kept_event(i);
  auto& w = everything();
  guard g(w.lock);
  w.acknowledged.wait(g, [&] { return i.unacked == 0; });
  channel* own = i.sync ? i.events : nullptr;
  free_identifier(&i, g);
  if (own != nullptr) free_channel(std::unique_ptr<channel>(own));
}

}  // namespace

identifier* make_identifier(channel& c, rdma_port_space ps, const guard&) {
  auto& w = everything();
  auto i = std::make_unique<identifier>();
  i->key = w.next_key++;
  i->events = &c;
  i->pub.channel = &c.pub;
  i->pub.ps = ps;
  i->pub.qp_type = type_in(ps);
  i->qkey = i->datagrams() ? RDMA_UDP_QKEY : 0;
  w.all.emplace(i->key, i.get());
  return i.release();
}

void free_identifier(identifier* i, guard& g) noexcept {
  auto& w = everything();
  if (i->at == state::listening) {  // who waits is turned away
    while (accept_one(*i, g)) {
    }
    std::vector<identifier*> waiting;
    for (const auto& [key, child] : w.all)
      if (child->listener == i->key) waiting.push_back(child);
    for (identifier* child : waiting) free_identifier(child, g);
  }
  if (i->at == state::incoming || i->at == state::req_received || i->at == state::rep_received)
    send_bare(*i, i->datagrams() ? kind::sidr_rep : kind::rej,
              i->datagrams() ? sidr_reject : rej_consumer);
  unwatch(*i, g);
  close_socket(*i);
  std::erase_if(i->events->queue, [i](const auto& e) { return e->counted_for == i; });
  set_deadline(*i, std::nullopt, g);  // arms the channel without what was this one's
  w.all.erase(i->key);
  delete i;
}

}  // namespace penstock::nic::cm

using namespace penstock::nic::cm;

extern "C" {

int rdma_create_id(rdma_event_channel* c, rdma_cm_id** to, void* context, rdma_port_space ps) {
  return answer([&] { return create(c, to, context, ps); });
}

int rdma_destroy_id(rdma_cm_id* id) {
  if (id == nullptr) return errno = EINVAL, -1;
  free_whole(of(id));
  return 0;
}

int rdma_bind_addr(rdma_cm_id* id, sockaddr* a) {
  return answer([&] {
    const guard g(everything().lock);
    identifier& i = of(id);
    if (i.at != state::idle) return EINVAL;
    const int e = bind(i, a, true);
    if (e == 0) i.at = state::bound;
    return e;
  });
}

int rdma_resolve_addr(rdma_cm_id* id, sockaddr* from, sockaddr* to, int) {
  return answer([&] {
    int e;
    {
      const guard g(everything().lock);
      e = resolve(of(id), from, to, g);
    }
    return e != 0 ? e : complete(of(id));
  });
}

int rdma_resolve_route(rdma_cm_id* id, int) {
  return answer([&] {
    identifier& i = of(id);
    {
      const guard g(everything().lock);
      if (i.at != state::address_resolved) return EINVAL;
      fill_path(i);
      i.at = state::route_resolved;
      report(i, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, g);
    }
    return complete(i);
  });
}

int rdma_listen(rdma_cm_id* id, int backlog) {
  return answer([&] {
    const guard g(everything().lock);
    identifier& i = of(id);
    if (i.at == state::idle) {
      sockaddr_in any{};
      any.sin_family = AF_INET;
      if (const int e = bind(i, reinterpret_cast<const sockaddr*>(&any), true)) return e;
      i.at = state::bound;
    }
    if (i.at != state::bound) return EINVAL;
    if (i.file.name.empty())  // a port that others use, too
      return refuse(EADDRINUSE, "rdma_listen: another identifier has port %u",
                    port_of(&i.pub.route.addr.src_addr));
    // A socket lets one more wait than it is told.
    constexpr int most = 1024;
    const int waiting = backlog > 0 && backlog < most ? backlog : most;
    if (::listen(i.socket, waiting - 1) != 0) return errno;
    if (const int e = watch(i, g)) return e;
    i.at = state::listening;
    return 0;
  });
}

int rdma_set_option(rdma_cm_id* id, int level, int name, void* value, std::size_t bytes) {
  return answer([&] {
    const int e = set_option(of(id), level, name, value, bytes);
    return e != 0 || level != RDMA_OPTION_IB ? e : complete(of(id));
  });
}

int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* c) {
  return answer([&] {
    identifier& i = of(id);
    std::unique_ptr<channel> own = c == nullptr ? make_channel() : nullptr;
    if (c == nullptr && !own) return errno;
    drop_kept_event(i);
    auto& w = everything();
    channel* before = nullptr;
    int e;
    {
      guard g(w.lock);
      w.acknowledged.wait(g, [&] { return i.unacked == 0; });
      before = i.sync ? i.events : nullptr;
      e = move_to(i, own ? *own : of(c), g);
      i.pub.channel = &i.events->pub;
      i.sync = own != nullptr;
      (void)own.release();
    }
    if (before != nullptr) free_channel(std::unique_ptr<channel>(before));
    return e;
  });
}

__be16 rdma_get_src_port(rdma_cm_id* id) { return htons(port_of(&id->route.addr.src_addr)); }
__be16 rdma_get_dst_port(rdma_cm_id* id) { return htons(port_of(&id->route.addr.dst_addr)); }

// The device has no multicast (ibv_attach_mcast is refused, too).
int rdma_join_multicast(rdma_cm_id*, sockaddr*, void*) {
  return errno = refuse(EOPNOTSUPP, "rdma_join_multicast: shm0 has no multicast"), -1;
}
int rdma_join_multicast_ex(rdma_cm_id*, rdma_cm_join_mc_attr_ex*, void*) {
  return errno = refuse(EOPNOTSUPP, "rdma_join_multicast_ex: shm0 has no multicast"), -1;
}
int rdma_leave_multicast(rdma_cm_id*, sockaddr*) {
  return errno = EADDRNOTAVAIL, -1;  // nobody has joined a group
}
}
