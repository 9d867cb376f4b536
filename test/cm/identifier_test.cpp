// Addresses, channels, synchronous endpoints, options and refusals, from librdmacm's man pages.
// Run under penverbs; linked with the system's libraries alone.
#include <fcntl.h>
#include <netdb.h>
#include <rdma/rsocket.h>

#include <atomic>
#include <thread>

#include "test/cm/cm_h.hpp"

using namespace cm_test;

namespace {
template <class Address>
int bind_errno(rdma_cm_id* id, Address a) {
  return rdma_bind_addr(id, general(a)) == 0 ? 0 : errno;
}
}  // namespace

TEST_CASE("the devices are listed, and stay open") {
  int n = 0;
  ibv_context** list = rdma_get_devices(&n);
  REQUIRE(n >= 1);
  CHECK(list[n] == nullptr);
  CHECK(std::string(ibv_get_device_name(list[0]->device)) == "shm0");
  ibv_context* first = list[0];
  rdma_free_devices(list);
  ibv_device_attr a{};
  CHECK(ibv_query_device(first, &a) == 0);
}

TEST_CASE("this host's addresses have a device, and others none") {
  channel c;
  for (const char* text : {"127.0.0.1", "127.1.2.3"}) {
    rdma_cm_id* id = new_id(c);
    CHECK(bind_errno(id, v4(text, 0)) == 0);
    CHECK(id->verbs != nullptr);
    CHECK(id->port_num == 1);
    CHECK(rdma_get_src_port(id) != 0);
    rdma_destroy_id(id);
  }
  rdma_cm_id* id = new_id(c);
  CHECK(bind_errno(id, v6("::1", 0)) == 0);
  CHECK(id->verbs != nullptr);
  rdma_destroy_id(id);
  id = new_id(c);
  CHECK(bind_errno(id, v4("203.0.113.1", 0)) == EADDRNOTAVAIL);
  CHECK(bind_errno(id, v4("0.0.0.0", 0)) == 0);
  CHECK(id->verbs == nullptr);                          // a wildcard has no device
  CHECK(bind_errno(id, v4("127.0.0.1", 0)) == EINVAL);  // it is bound
  rdma_destroy_id(id);
  id = new_id(c);
  sockaddr_in there = v4("203.0.113.1", 1);
  CHECK(rdma_resolve_addr(id, nullptr, general(there), 100) == 0);
  c.next(RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH);
  rdma_destroy_id(id);
}

TEST_CASE("a port belongs to one identifier of a port space") {
  channel c;
  rdma_cm_id *first = listener(c), *second = new_id(c), *third = new_id(c, RDMA_PS_UDP);
  const int port = port_of(first);
  CHECK(bind_errno(second, v4("127.0.0.1", port)) == EADDRINUSE);
  CHECK(bind_errno(second, v4("127.0.0.2", port)) == 0);
  CHECK(bind_errno(third, v4("127.0.0.1", port)) == 0);
  int yes = 1;
  rdma_cm_id* fourth = new_id(c);
  CHECK(rdma_set_option(fourth, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof yes) == 0);
  CHECK(bind_errno(fourth, v4("127.0.0.1", port)) == 0);
  CHECK(rdma_listen(fourth, 1) == -1);
  CHECK(errno == EADDRINUSE);
  rdma_destroy_id(first);
  rdma_cm_id* fifth = new_id(c);
  CHECK(bind_errno(fifth, v4("127.0.0.1", port)) == 0);  // free again
  for (rdma_cm_id* id : {second, third, fourth, fifth}) rdma_destroy_id(id);
}

TEST_CASE("a wildcard listens at all addresses, of IPv4 too unless told otherwise") {
  channel passive, active;
  for (const bool only : {false, true}) {
    rdma_cm_id* listening = new_id(passive);
    int flag = only ? 1 : 0;
    REQUIRE(rdma_set_option(listening, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &flag, sizeof flag) ==
            0);
    REQUIRE(bind_errno(listening, v6("::", 0)) == 0);
    REQUIRE(rdma_listen(listening, 4) == 0);
    rdma_conn_param p = parameters();
    rdma_cm_id* by_v4 = routed(active, port_of(listening));
    REQUIRE(rdma_connect(by_v4, &p) == 0);
    if (only) {
      active.next(RDMA_CM_EVENT_REJECTED, 8);
    } else {
      rdma_cm_id* server = passive.next(RDMA_CM_EVENT_CONNECT_REQUEST)->id;
      CHECK(server->verbs != nullptr);
      rdma_destroy_id(server);
      active.next(RDMA_CM_EVENT_REJECTED, 28);
    }
    rdma_cm_id* by_v6 = new_id(active);
    sockaddr_in6 a = v6("::1", port_of(listening));
    REQUIRE(rdma_resolve_addr(by_v6, nullptr, general(a), 100) == 0);
    active.next(RDMA_CM_EVENT_ADDR_RESOLVED);
    REQUIRE(rdma_resolve_route(by_v6, 100) == 0);
    active.next(RDMA_CM_EVENT_ROUTE_RESOLVED);
    REQUIRE(rdma_connect(by_v6, &p) == 0);
    rdma_cm_id* server = passive.next(RDMA_CM_EVENT_CONNECT_REQUEST)->id;
    for (rdma_cm_id* id : {server, by_v4, by_v6, listening}) rdma_destroy_id(id);
  }
}

TEST_CASE("a route has a path, and both ends have addresses") {
  channel c;
  rdma_cm_id* id = routed(c, 4711);
  REQUIRE(id->route.num_paths == 1);
  CHECK(id->route.path_rec->mtu >= IBV_MTU_1024);
  CHECK(ntohs(rdma_get_dst_port(id)) == 4711);
  CHECK(rdma_get_local_addr(id)->sa_family == AF_INET);
  CHECK(id->route.addr.src_sin.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
  CHECK(id->route.addr.dst_sin.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
  CHECK(id->pd != nullptr);
  rdma_destroy_id(id);
}

TEST_CASE("calls out of their order are refused") {
  channel c;
  rdma_cm_id* id = new_id(c);
  rdma_conn_param p = parameters();
  ibv_qp_init_attr q{};
  q.cap = {1, 1, 1, 1, 0};
  q.qp_type = IBV_QPT_RC;
  const auto refused = [](int result) { return result == -1 && errno == EINVAL; };
  CHECK(refused(rdma_resolve_route(id, 1)));
  CHECK(refused(rdma_connect(id, &p)));
  CHECK(refused(rdma_accept(id, &p)));
  CHECK(refused(rdma_reject(id, nullptr, 0)));
  CHECK(refused(rdma_disconnect(id)));
  CHECK(refused(rdma_establish(id)));
  CHECK(refused(rdma_create_qp(id, nullptr, &q)));  // it has no device
  rdma_cm_id* other = nullptr;
  CHECK(refused(rdma_get_request(id, &other)));  // it is not synchronous
  rdma_destroy_id(id);
  id = routed(c, 4711);
  CHECK(refused(rdma_listen(id, 1)));
  CHECK(refused(rdma_resolve_route(id, 1)));
  give_qp(id);
  CHECK(refused(rdma_create_qp(id, nullptr, &q)));  // "associated with a single QP"
  rdma_destroy_qp(id);
  q.qp_type = IBV_QPT_UD;
  CHECK(refused(rdma_create_qp(id, nullptr, &q)));
  rdma_destroy_id(id);
  CHECK(rdma_create_id(c.c, &id, nullptr, static_cast<rdma_port_space>(1)) == -1);
  CHECK(errno == EPROTONOSUPPORT);
}

TEST_CASE("multicast and sockets over RDMA are refused") {
  channel c;
  rdma_cm_id* id = new_id(c, RDMA_PS_UDP);
  sockaddr_in group = v4("239.1.1.1", 0);
  CHECK(rdma_resolve_addr(id, nullptr, general(group), 100) == 0);
  c.next(RDMA_CM_EVENT_ADDR_RESOLVED);
  CHECK(rdma_join_multicast(id, general(group), nullptr) == -1);
  CHECK(errno == EOPNOTSUPP);
  CHECK(rdma_leave_multicast(id, general(group)) == -1);
  CHECK(errno == EADDRNOTAVAIL);
  rdma_destroy_id(id);
  CHECK(rsocket(AF_INET, SOCK_STREAM, 0) == -1);
  CHECK(errno == EOPNOTSUPP);
}

TEST_CASE("options have their sizes") {
  channel c;
  rdma_cm_id* id = new_id(c);
  std::uint8_t byte = 20;
  int word = 1;
  CHECK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 1) == 0);
  CHECK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &word, 4) == -1);
  CHECK(errno == EINVAL);
  CHECK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1) == 0);
  CHECK(rdma_set_option(id, RDMA_OPTION_ID, 99, &word, 4) == -1);
  CHECK(errno == ENOSYS);
  rdma_destroy_id(id);
}

TEST_CASE("a channel that does not block says so, and can be waited for") {
  channel c;
  rdma_cm_event* e = nullptr;
  CHECK_FALSE(c.has_event(0));
  REQUIRE(::fcntl(c.c->fd, F_SETFL, ::fcntl(c.c->fd, F_GETFL) | O_NONBLOCK) == 0);
  CHECK(rdma_get_cm_event(c.c, &e) == -1);
  CHECK(errno == EAGAIN);
  rdma_cm_id* id = new_id(c);
  sockaddr_in a = v4("127.0.0.1", 1);
  REQUIRE(rdma_resolve_addr(id, nullptr, general(a), 100) == 0);
  CHECK(c.has_event(0));
  c.next(RDMA_CM_EVENT_ADDR_RESOLVED);
  CHECK_FALSE(c.has_event(0));
  // An event that goes with its identifier is not waited for.
  rdma_cm_id* gone = new_id(c);
  REQUIRE(rdma_resolve_addr(gone, nullptr, general(a), 100) == 0);
  CHECK(c.has_event(0));
  rdma_destroy_id(gone);
  CHECK_FALSE(c.has_event(0));
  rdma_destroy_id(id);
}

TEST_CASE("a child of fork(2) that exits leaves its parent's identifiers alone") {
  connection c;
  const pid_t child = ::fork();
  if (child == 0) std::exit(0);  // with destructors of libraries
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK_FALSE(c.active.has_event(100));
  CHECK_FALSE(c.passive.has_event(0));
  rdma_cm_id* next = routed(c.active, port_of(c.listening));
  rdma_conn_param p = parameters();
  REQUIRE(rdma_connect(next, &p) == 0);
  const got request = c.passive.next(RDMA_CM_EVENT_CONNECT_REQUEST);
  REQUIRE(rdma_accept(request->id, &p) == 0);
  c.active.next(RDMA_CM_EVENT_CONNECT_RESPONSE);
  rdma_destroy_id(next);
  rdma_destroy_id(request->id);
}

TEST_CASE("an identifier is destroyed when its events are acknowledged") {
  channel c;
  rdma_cm_id* id = new_id(c);
  sockaddr_in a = v4("127.0.0.1", 1);
  REQUIRE(rdma_resolve_addr(id, nullptr, general(a), 100) == 0);
  rdma_cm_event* e = nullptr;
  REQUIRE(rdma_get_cm_event(c.c, &e) == 0);
  std::atomic<bool> gone{false};
  std::thread destroyer([&] {
    rdma_destroy_id(id);
    gone = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(gone);
  rdma_ack_cm_event(e);
  destroyer.join();
  CHECK(gone);
}

TEST_CASE("an identifier may outlive its channel") {
  channel active;
  rdma_event_channel* c = rdma_create_event_channel();
  REQUIRE(c != nullptr);
  rdma_cm_id *id = nullptr, *listening = nullptr;
  REQUIRE(rdma_create_id(c, &id, nullptr, RDMA_PS_TCP) == 0);
  REQUIRE(rdma_create_id(c, &listening, nullptr, RDMA_PS_TCP) == 0);
  sockaddr_in a = v4("127.0.0.1", 0);
  REQUIRE(rdma_bind_addr(listening, general(a)) == 0);
  REQUIRE(rdma_listen(listening, 1) == 0);
  REQUIRE(rdma_resolve_addr(id, nullptr, general(a), 100) == 0);
  rdma_cm_id* client = routed(active, port_of(listening));
  rdma_conn_param p = parameters();
  REQUIRE(rdma_connect(client, &p) == 0);
  rdma_destroy_event_channel(c);
  CHECK(rdma_destroy_id(id) == 0);
  CHECK(rdma_destroy_id(listening) == 0);
  active.next(RDMA_CM_EVENT_REJECTED, 28);
  rdma_destroy_id(client);
}

TEST_CASE("pending events move with their identifier, and requests with their listener") {
  channel a, b, active;
  rdma_cm_id *id = new_id(a), *listening = listener(a);
  sockaddr_in to = v4("127.0.0.1", 1);
  REQUIRE(rdma_resolve_addr(id, nullptr, general(to), 100) == 0);
  REQUIRE(rdma_migrate_id(id, b.c) == 0);
  CHECK(id->channel == b.c);
  CHECK_FALSE(a.has_event(0));
  b.next(RDMA_CM_EVENT_ADDR_RESOLVED);
  rdma_cm_id* client = routed(active, port_of(listening));
  rdma_conn_param p = parameters();
  REQUIRE(rdma_connect(client, &p) == 0);
  REQUIRE(rdma_migrate_id(listening, b.c) == 0);
  CHECK_FALSE(a.has_event(0));
  rdma_cm_id* server = b.next(RDMA_CM_EVENT_CONNECT_REQUEST)->id;
  REQUIRE(rdma_migrate_id(server, a.c) == 0);
  rdma_destroy_id(client);
  a.next(RDMA_CM_EVENT_UNREACHABLE, -ECONNRESET);
  for (rdma_cm_id* one : {id, server, listening}) rdma_destroy_id(one);
}

TEST_CASE("rdma_getaddrinfo gives what rdma_create_ep takes") {
  rdma_addrinfo hints{}, *info = nullptr;
  hints.ai_flags = RAI_PASSIVE;
  hints.ai_port_space = RDMA_PS_UDP;
  REQUIRE(rdma_getaddrinfo(nullptr, "4711", &hints, &info) == 0);
  CHECK(info->ai_qp_type == IBV_QPT_UD);
  CHECK(info->ai_src_addr != nullptr);
  CHECK(info->ai_dst_addr == nullptr);
  rdma_freeaddrinfo(info);
  REQUIRE(rdma_getaddrinfo("127.0.0.1", "4711", nullptr, &info) == 0);
  CHECK(info->ai_port_space == RDMA_PS_TCP);
  CHECK(info->ai_qp_type == IBV_QPT_RC);
  CHECK(info->ai_family == AF_INET);
  CHECK(reinterpret_cast<sockaddr_in*>(info->ai_dst_addr)->sin_port == htons(4711));
  rdma_freeaddrinfo(info);
  hints = {};
  hints.ai_flags = RAI_NUMERICHOST;
  CHECK(rdma_getaddrinfo("no-number", "1", &hints, &info) == EAI_NONAME);
}

TEST_CASE("synchronous endpoints connect, talk and part") {
  ibv_qp_init_attr attr{};
  attr.cap = {4, 4, 1, 1, 16};
  attr.sq_sig_all = 1;
  rdma_addrinfo hints{}, *info = nullptr;
  hints.ai_flags = RAI_PASSIVE;
  hints.ai_port_space = RDMA_PS_TCP;
  REQUIRE(rdma_getaddrinfo("127.0.0.1", "0", &hints, &info) == 0);
  rdma_cm_id* listening = nullptr;
  REQUIRE(rdma_create_ep(&listening, info, nullptr, &attr) == 0);
  rdma_freeaddrinfo(info);
  REQUIRE(rdma_listen(listening, 0) == 0);
  const std::string port = std::to_string(port_of(listening));
  int client_failed = -1;
  std::thread client([&] {
    rdma_addrinfo want{}, *found = nullptr;
    want.ai_port_space = RDMA_PS_TCP;
    if (rdma_getaddrinfo("127.0.0.1", port.c_str(), &want, &found) != 0) return;
    ibv_qp_init_attr own = attr;
    rdma_cm_id* id = nullptr;
    if (rdma_create_ep(&id, found, nullptr, &own) != 0) return;
    rdma_freeaddrinfo(found);
    char text[16] = "";
    ibv_mr* mr = rdma_reg_msgs(id, text, sizeof text);
    ibv_wc wc{};
    client_failed = rdma_post_recv(id, nullptr, text, sizeof text, mr) != 0 ||
                    rdma_connect(id, nullptr) != 0 || rdma_get_recv_comp(id, &wc) != 1 ||
                    std::strcmp(text, "hello") != 0 || rdma_disconnect(id) != 0;
    rdma_dereg_mr(mr);
    rdma_destroy_ep(id);
  });
  rdma_cm_id* id = nullptr;
  REQUIRE(rdma_get_request(listening, &id) == 0);
  CHECK(id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
  CHECK(id->qp != nullptr);
  CHECK(rdma_accept(id, nullptr) == 0);
  char text[16] = "hello";
  ibv_wc wc{};
  CHECK(rdma_post_send(id, nullptr, text, sizeof text, nullptr, IBV_SEND_INLINE) == 0);
  CHECK(rdma_get_send_comp(id, &wc) == 1);
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(rdma_disconnect(id) == 0);
  client.join();
  CHECK(client_failed == 0);
  rdma_destroy_ep(id);

  // And what fails has an errno.
  REQUIRE(rdma_getaddrinfo("127.0.0.1", "9", nullptr, &info) == 0);
  REQUIRE(rdma_create_ep(&id, info, nullptr, nullptr) == 0);
  CHECK(rdma_connect(id, nullptr) == -1);
  CHECK(errno == ECONNREFUSED);
  rdma_freeaddrinfo(info);
  rdma_destroy_ep(id);
  rdma_destroy_ep(listening);
}

TEST_CASE("an identifier has a shared receive queue") {
  connection c(true, false);
  ibv_srq_init_attr s{};
  s.attr = {16, 1, 0};
  REQUIRE(rdma_create_srq(c.server, nullptr, &s) == 0);
  CHECK(s.attr.max_wr >= 16);
  CHECK(rdma_create_srq(c.server, nullptr, &s) == -1);  // "a single SRQ"
  give_qp(c.server);
  CHECK(c.server->qp->srq == c.server->srq);
  REQUIRE(rdma_accept(c.server, nullptr) == 0);
  const got e = c.active.next(RDMA_CM_EVENT_ESTABLISHED);
  CHECK(e->param.conn.srq == 1);
}

TEST_CASE("every event has a name") {
  for (int t = RDMA_CM_EVENT_ADDR_RESOLVED; t <= RDMA_CM_EVENT_TIMEWAIT_EXIT; ++t)
    CHECK(std::string(rdma_event_str(static_cast<rdma_cm_event_type>(t)))
              .starts_with("RDMA_CM_EVENT_"));
  CHECK(std::string(rdma_event_str(static_cast<rdma_cm_event_type>(99))) == "UNKNOWN EVENT");
}
