// What the cases of cm_test share: a listener and a connector in this process, each with an event
// channel, and a second process.
#pragma once

#include <doctest/doctest.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <arpa/inet.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace cm_test {

/// An event, acknowledged when it goes.
struct got {
  rdma_cm_event* e;
  explicit got(rdma_cm_event* event) : e(event) {}
  got(got&& o) noexcept : e(o.e) { o.e = nullptr; }
  ~got() {
    if (e != nullptr) rdma_ack_cm_event(e);
  }
  rdma_cm_event* operator->() const { return e; }
};

inline sockaddr_in v4(const char* text, int port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  ::inet_pton(AF_INET, text, &a.sin_addr);
  a.sin_port = htons(static_cast<std::uint16_t>(port));
  return a;
}
inline sockaddr_in6 v6(const char* text, int port) {
  sockaddr_in6 a{};
  a.sin6_family = AF_INET6;
  ::inet_pton(AF_INET6, text, &a.sin6_addr);
  a.sin6_port = htons(static_cast<std::uint16_t>(port));
  return a;
}
template <class Address>
sockaddr* general(Address& a) {
  return reinterpret_cast<sockaddr*>(&a);
}

struct channel {
  rdma_event_channel* c = rdma_create_event_channel();
  channel() { REQUIRE(c != nullptr); }
  channel(const channel&) = delete;
  ~channel() { rdma_destroy_event_channel(c); }

  /// The next event, which comes within seconds.
  got next(rdma_cm_event_type type, int status = 0) const {
    rdma_cm_event* e = nullptr;
    REQUIRE(has_event(20'000));
    REQUIRE(rdma_get_cm_event(c, &e) == 0);
    CHECK_MESSAGE(e->event == type, rdma_event_str(e->event), " instead of ", rdma_event_str(type),
                  ", status ", e->status);
    CHECK(e->status == status);
    return got(e);
  }
  bool has_event(int timeout_ms) const {
    pollfd p{c->fd, POLLIN, 0};
    return ::poll(&p, 1, timeout_ms) == 1;
  }
};

inline rdma_cm_id* new_id(const channel& c, rdma_port_space ps = RDMA_PS_TCP,
                          void* context = nullptr) {
  rdma_cm_id* id = nullptr;
  REQUIRE(rdma_create_id(c.c, &id, context, ps) == 0);
  return id;
}

inline rdma_cm_id* listener(const channel& c, rdma_port_space ps = RDMA_PS_TCP, int backlog = 0,
                            void* context = nullptr) {
  rdma_cm_id* id = new_id(c, ps, context);
  sockaddr_in a = v4("127.0.0.1", 0);
  REQUIRE(rdma_bind_addr(id, general(a)) == 0);
  REQUIRE(rdma_listen(id, backlog) == 0);
  return id;
}

/// An identifier with a route to a port of this host.
inline rdma_cm_id* routed(const channel& c, int port, rdma_port_space ps = RDMA_PS_TCP) {
  rdma_cm_id* id = new_id(c, ps);
  sockaddr_in a = v4("127.0.0.1", port);
  REQUIRE(rdma_resolve_addr(id, nullptr, general(a), 1000) == 0);
  c.next(RDMA_CM_EVENT_ADDR_RESOLVED);
  REQUIRE(rdma_resolve_route(id, 1000) == 0);
  c.next(RDMA_CM_EVENT_ROUTE_RESOLVED);
  return id;
}

inline int port_of(rdma_cm_id* id) { return ntohs(rdma_get_src_port(id)); }

inline void give_qp(rdma_cm_id* id, ibv_qp_type type = IBV_QPT_RC) {
  ibv_qp_init_attr a{};
  a.cap = {8, 8, 1, 1, 0};
  a.qp_type = type;
  a.sq_sig_all = 1;
  REQUIRE(rdma_create_qp(id, nullptr, &a) == 0);
}
inline ibv_qp_state state_of(rdma_cm_id* id) {
  ibv_qp_attr a{};
  ibv_qp_init_attr i{};
  REQUIRE(ibv_query_qp(id->qp, &a, IBV_QP_STATE, &i) == 0);
  return a.qp_state;
}

inline rdma_conn_param parameters(const void* data = nullptr, std::size_t bytes = 0) {
  rdma_conn_param p{};
  p.private_data = data;
  p.private_data_len = static_cast<std::uint8_t>(bytes);
  p.responder_resources = 3;
  p.initiator_depth = 2;
  p.flow_control = 1;
  p.retry_count = 5;
  p.rnr_retry_count = 6;
  p.qp_num = 0x123;
  return p;
}

/// Two identifiers and their channels; connected, with or without queue pairs.
struct connection {
  channel passive, active;
  rdma_cm_id *listening = nullptr, *server = nullptr, *client = nullptr;

  explicit connection(bool with_qp = true, bool until_the_end = true) {
    listening = listener(passive);
    client = routed(active, port_of(listening));
    rdma_conn_param p = parameters();
    if (with_qp) give_qp(client);
    REQUIRE(rdma_connect(client, &p) == 0);
    server = passive.next(RDMA_CM_EVENT_CONNECT_REQUEST)->id;
    if (!until_the_end) return;
    if (with_qp) give_qp(server);
    REQUIRE(rdma_accept(server, &p) == 0);
    if (with_qp) {
      active.next(RDMA_CM_EVENT_ESTABLISHED);
    } else {
      active.next(RDMA_CM_EVENT_CONNECT_RESPONSE);
      REQUIRE(rdma_establish(client) == 0);
    }
    passive.next(RDMA_CM_EVENT_ESTABLISHED);
  }
  connection(const connection&) = delete;
  ~connection() {
    for (rdma_cm_id* id : {client, server, listening})
      if (id != nullptr) rdma_destroy_ep(id);
  }
  void drop_client() {
    rdma_destroy_ep(client);
    client = nullptr;
  }
  void drop_server() {
    rdma_destroy_ep(server);
    server = nullptr;
  }
};

/// peer ROLE STEP PORT, which lies beside this program.
class peer {
 public:
  peer(const char* role, const char* step, int port) {
    int in[2], out[2];
    REQUIRE(::pipe(in) == 0);
    REQUIRE(::pipe(out) == 0);
    const std::string program = ::getenv("CM_PEER"), text = std::to_string(port);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      for (const int fd : {in[0], in[1], out[0], out[1]}) ::close(fd);
      ::execl(program.c_str(), program.c_str(), role, step, text.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    in_ = in[1];
    out_ = ::fdopen(out[0], "r");
  }
  peer(const peer&) = delete;
  ~peer() {
    kill();
    ::close(in_);
    std::fclose(out_);
  }
  /// The number that it prints at its step, and a server also once it listens.
  int says() const {
    int number = -1;
    REQUIRE(std::fscanf(out_, "%d", &number) == 1);
    return number;
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
  int in_ = -1;
  std::FILE* out_ = nullptr;
};

}  // namespace cm_test
