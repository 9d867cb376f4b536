// rdma_connect(3), rdma_accept(3), rdma_reject(3), rdma_disconnect(3), rdma_get_cm_event(3) and
// their kin, against nic/cm. Run under penverbs; linked with the system's libraries alone.
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <atomic>
#include <thread>

#include "test/cm/cm_h.hpp"

using namespace cm_test;

namespace {

int open_files() {
  int n = 0;
  DIR* d = ::opendir("/proc/self/fd");
  while (::readdir(d) != nullptr) ++n;
  ::closedir(d);
  return n;
}

bool zero_after(const void* data, std::size_t from, std::size_t to) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (std::size_t i = from; i < to; ++i)
    if (bytes[i] != 0) return false;
  return true;
}

}  // namespace

TEST_CASE("a request carries private data and parameters, and an answer does") {
  channel passive, active;
  int mine = 0;
  rdma_cm_id* listening = listener(passive, RDMA_PS_TCP, 0, &mine);
  rdma_cm_id* client = routed(active, port_of(listening));
  rdma_conn_param p = parameters("question", 8);
  REQUIRE(rdma_connect(client, &p) == 0);
  rdma_cm_id* server = nullptr;
  {
    const got e = passive.next(RDMA_CM_EVENT_CONNECT_REQUEST);
    server = e->id;
    CHECK(e->listen_id == listening);
    CHECK(server->context == &mine);
    CHECK(server->channel == passive.c);
    CHECK(server->verbs != nullptr);
    CHECK(server->ps == RDMA_PS_TCP);
    CHECK(rdma_get_src_port(server) == rdma_get_src_port(listening));
    CHECK(rdma_get_dst_port(server) == rdma_get_src_port(client));
    const rdma_conn_param& c = e->param.conn;
    CHECK(c.private_data_len == 56);  // "may be larger … zeroed out"
    CHECK(std::memcmp(c.private_data, "question", 8) == 0);
    CHECK(zero_after(c.private_data, 8, c.private_data_len));
    CHECK(c.responder_resources == 2);
    CHECK(c.initiator_depth == 3);
    CHECK(c.flow_control == 1);
    CHECK(c.retry_count == 5);
    CHECK(c.rnr_retry_count == 6);
    CHECK(c.qp_num == 0x123);
  }
  rdma_conn_param a = parameters("answer", 6);
  a.qp_num = 0x456;
  a.initiator_depth = 1;
  REQUIRE(rdma_accept(server, &a) == 0);
  {
    const got e = active.next(RDMA_CM_EVENT_CONNECT_RESPONSE);
    CHECK(e->id == client);
    CHECK(e->param.conn.private_data_len == 196);
    CHECK(std::memcmp(e->param.conn.private_data, "answer", 6) == 0);
    CHECK(e->param.conn.qp_num == 0x456);
    CHECK(e->param.conn.responder_resources == 1);
  }
  CHECK_FALSE(passive.has_event(0));  // not before the answer is acknowledged
  CHECK(rdma_establish(client) == 0);
  passive.next(RDMA_CM_EVENT_ESTABLISHED);
  for (rdma_cm_id* id : {client, server, listening}) CHECK(rdma_destroy_id(id) == 0);
}

TEST_CASE("queue pairs go through their states, and carry messages") {
  connection c(true, false);
  CHECK(state_of(c.client) == IBV_QPS_INIT);
  give_qp(c.server);
  CHECK(state_of(c.server) == IBV_QPS_INIT);
  rdma_conn_param p = parameters();
  p.responder_resources = 2;  // what the request has asked for
  p.initiator_depth = 3;
  REQUIRE(rdma_accept(c.server, &p) == 0);
  c.active.next(RDMA_CM_EVENT_ESTABLISHED);
  c.passive.next(RDMA_CM_EVENT_ESTABLISHED);
  CHECK(state_of(c.client) == IBV_QPS_RTS);
  CHECK(state_of(c.server) == IBV_QPS_RTS);
  ibv_qp_attr a{};
  ibv_qp_init_attr i{};
  REQUIRE(ibv_query_qp(c.client->qp, &a, ~0, &i) == 0);
  CHECK(a.dest_qp_num == c.server->qp->qp_num);
  CHECK(a.retry_cnt == 5);
  CHECK(a.rnr_retry == 6);
  CHECK(a.max_rd_atomic == 2);
  CHECK(a.max_dest_rd_atomic == 3);

  std::vector<char> from(64, 'a'), to(64, 'b');
  ibv_mr* read = rdma_reg_msgs(c.client, from.data(), from.size());
  ibv_mr* write = rdma_reg_msgs(c.server, to.data(), to.size());
  REQUIRE(read != nullptr);
  REQUIRE(write != nullptr);
  REQUIRE(rdma_post_recv(c.server, nullptr, to.data(), to.size(), write) == 0);
  REQUIRE(rdma_post_send(c.client, nullptr, from.data(), from.size(), read, 0) == 0);
  ibv_wc wc{};
  CHECK(rdma_get_send_comp(c.client, &wc) == 1);
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(rdma_get_recv_comp(c.server, &wc) == 1);
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(to == from);

  // "transitions any associated QP to the error state, which will flush any posted work requests"
  REQUIRE(rdma_post_recv(c.client, nullptr, from.data(), from.size(), read) == 0);
  CHECK(rdma_disconnect(c.client) == 0);
  CHECK(state_of(c.client) == IBV_QPS_ERR);
  CHECK(rdma_get_recv_comp(c.client, &wc) == 1);
  CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
  c.passive.next(RDMA_CM_EVENT_DISCONNECTED);
  CHECK(rdma_disconnect(c.server) == 0);
  CHECK(state_of(c.server) == IBV_QPS_ERR);
  c.active.next(RDMA_CM_EVENT_DISCONNECTED);
  c.active.next(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  c.passive.next(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  rdma_dereg_mr(read);
  rdma_dereg_mr(write);
}

TEST_CASE("both sides may disconnect at once, and one that destroys its identifier disconnects") {
  {
    connection c;
    CHECK(rdma_disconnect(c.client) == 0);
    CHECK(rdma_disconnect(c.server) == 0);
    c.active.next(RDMA_CM_EVENT_DISCONNECTED);
    c.passive.next(RDMA_CM_EVENT_DISCONNECTED);
  }
  {
    connection c;
    c.drop_client();
    c.passive.next(RDMA_CM_EVENT_DISCONNECTED);
    CHECK(rdma_disconnect(c.server) == 0);
  }
  connection c;
  c.drop_server();
  c.active.next(RDMA_CM_EVENT_DISCONNECTED);
}

TEST_CASE("a program that polls looks at its messages once more before it is told of the end") {
  for (const bool drop : {false, true}) {
    connection c;
    ::fcntl(c.passive.c->fd, F_SETFL, O_NONBLOCK);
    if (drop)
      c.drop_client();
    else
      CHECK(rdma_disconnect(c.client) == 0);
    rdma_cm_event* e = nullptr;
    CHECK(rdma_get_cm_event(c.passive.c, &e) == -1);
    CHECK(errno == EAGAIN);
    REQUIRE(c.passive.has_event(10'000));
    c.passive.next(RDMA_CM_EVENT_DISCONNECTED);
  }
}

TEST_CASE("a program's own queue pair gets its attributes from rdma_init_qp_attr") {
  connection c(false, false);
  ibv_qp_attr a{};
  int mask = 0;
  a.qp_state = IBV_QPS_RTR;
  CHECK(rdma_init_qp_attr(c.client, &a, &mask) == -1);  // there is no peer yet
  CHECK(errno == EINVAL);
  a.qp_state = IBV_QPS_INIT;
  REQUIRE(rdma_init_qp_attr(c.server, &a, &mask) == 0);
  CHECK(mask == (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
  a.qp_state = IBV_QPS_RTR;
  REQUIRE(rdma_init_qp_attr(c.server, &a, &mask) == 0);
  CHECK(a.dest_qp_num == 0x123);
  CHECK(a.min_rnr_timer == 0);
  CHECK(mask == (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
  a.qp_state = IBV_QPS_RTS;
  REQUIRE(rdma_init_qp_attr(c.server, &a, &mask) == 0);
  CHECK(a.retry_cnt == 5);
  CHECK(mask == (IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
  CHECK(rdma_establish(c.client) == -1);  // before the response
  CHECK(errno == EINVAL);
}

TEST_CASE("a rejection has its reason and private data") {
  connection c(true, false);
  CHECK(rdma_reject(c.server, "no", 2) == 0);
  const got e = c.active.next(RDMA_CM_EVENT_REJECTED, 28);
  CHECK(e->param.conn.private_data_len == 148);
  CHECK(std::memcmp(e->param.conn.private_data, "no", 2) == 0);
  CHECK(zero_after(e->param.conn.private_data, 2, 148));
  CHECK(state_of(c.client) == IBV_QPS_ERR);
  CHECK(rdma_accept(c.server, nullptr) == -1);
  CHECK(errno == EINVAL);
}

TEST_CASE("a rejection for ECE, of a request that is thrown away, and by nobody") {
  {
    connection c(false, false);
    CHECK(rdma_reject_ece(c.server, nullptr, 0) == 0);
    c.active.next(RDMA_CM_EVENT_REJECTED, 35);
  }
  {
    connection c(false, false);
    c.drop_server();
    c.active.next(RDMA_CM_EVENT_REJECTED, 28);
  }
  channel active;
  rdma_cm_id* client = routed(active, 9);
  rdma_conn_param p = parameters();
  CHECK(rdma_connect(client, &p) == 0);
  active.next(RDMA_CM_EVENT_REJECTED, 8);
  CHECK(rdma_connect(client, &p) == -1);
  CHECK(errno == EINVAL);
  rdma_destroy_id(client);
}

TEST_CASE("a listener that is closed and opened again is found") {
  channel passive, active;
  rdma_cm_id* first = listener(passive);
  const int port = port_of(first);
  rdma_cm_id *client = routed(active, port), *second = new_id(passive);
  rdma_destroy_id(first);
  rdma_conn_param p = parameters();
  REQUIRE(rdma_connect(client, &p) == 0);
  sockaddr_in a = v4("127.0.0.1", port);
  REQUIRE(rdma_bind_addr(second, general(a)) == 0);
  REQUIRE(rdma_listen(second, 1) == 0);
  std::thread server([&] {
    rdma_cm_id* id = passive.next(RDMA_CM_EVENT_CONNECT_REQUEST)->id;
    CHECK(rdma_reject(id, nullptr, 0) == 0);
    rdma_destroy_id(id);
  });
  active.next(RDMA_CM_EVENT_REJECTED, 28);
  server.join();
  rdma_destroy_id(client);
  rdma_destroy_id(second);
}

TEST_CASE("ECE options go there and back") {
  channel passive, active;
  rdma_cm_id* listening = listener(passive);
  rdma_cm_id* client = routed(active, port_of(listening));
  ibv_ece ece{0x2c9, 0x11, 0};
  CHECK(rdma_set_local_ece(client, &ece) == 0);
  rdma_conn_param p = parameters();
  REQUIRE(rdma_connect(client, &p) == 0);
  rdma_cm_id* server = passive.next(RDMA_CM_EVENT_CONNECT_REQUEST)->id;
  ibv_ece there{};
  CHECK(rdma_get_remote_ece(server, &there) == 0);
  CHECK(there.vendor_id == 0x2c9);
  CHECK(there.options == 0x11);
  for (rdma_cm_id* id : {client, server, listening}) rdma_destroy_id(id);
}

TEST_CASE("only so many requests wait as the backlog says") {
  channel passive, active;
  rdma_cm_id* listening = listener(passive, RDMA_PS_TCP, 2);
  std::vector<rdma_cm_id*> all;
  rdma_conn_param p = parameters();
  for (int i = 0; i < 3; ++i) {
    all.push_back(routed(active, port_of(listening)));
    REQUIRE(rdma_connect(all.back(), &p) == 0);
  }
  {
    const got e = active.next(RDMA_CM_EVENT_REJECTED, 28);
    CHECK(e->id == all[2]);
  }
  for (int i = 0; i < 2; ++i) all.push_back(passive.next(RDMA_CM_EVENT_CONNECT_REQUEST)->id);
  for (rdma_cm_id* id : all) rdma_destroy_id(id);
  rdma_destroy_id(listening);
}

TEST_CASE("a request waits while no descriptor is free") {
  channel passive, active;
  rdma_cm_id* listening = listener(passive);
  rdma_cm_id* client = routed(active, port_of(listening));
  rdma_conn_param p = parameters();
  REQUIRE(rdma_connect(client, &p) == 0);
  REQUIRE(::fcntl(passive.c->fd, F_SETFL, O_NONBLOCK) == 0);
  rlimit before{}, none{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  none = before;
  none.rlim_cur = 3;  // those that are open stay so
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  rdma_cm_event* e = nullptr;
  const int result = rdma_get_cm_event(passive.c, &e);
  const int code = errno;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(result == -1);
  CHECK(code == EAGAIN);
  rdma_cm_id* server = nullptr;
  while (server == nullptr && passive.has_event(20'000))
    if (rdma_get_cm_event(passive.c, &e) == 0) {
      CHECK(e->event == RDMA_CM_EVENT_CONNECT_REQUEST);
      server = e->id;
      rdma_ack_cm_event(e);
    }
  REQUIRE(server != nullptr);
  for (rdma_cm_id* id : {client, server, listening}) rdma_destroy_id(id);
}

TEST_CASE("what a listener has not taken is turned away with it") {
  channel passive, active;
  rdma_cm_id* listening = listener(passive);
  rdma_cm_id* client = routed(active, port_of(listening));
  rdma_conn_param p = parameters();
  REQUIRE(rdma_connect(client, &p) == 0);
  rdma_destroy_id(listening);
  active.next(RDMA_CM_EVENT_REJECTED, 28);
  rdma_destroy_id(client);
}

TEST_CASE("private data and depths beyond what can be sent are refused") {
  channel passive, active;
  rdma_cm_id* listening = listener(passive);
  rdma_cm_id* client = routed(active, port_of(listening));
  const std::vector<char> data(200);
  rdma_conn_param p = parameters(data.data(), 57);
  CHECK(rdma_connect(client, &p) == -1);
  CHECK(errno == EINVAL);
  p.private_data_len = 56;
  p.responder_resources = 254;
  CHECK(rdma_connect(client, &p) == -1);
  CHECK(errno == EINVAL);
  p.responder_resources = RDMA_MAX_RESP_RES;
  p.initiator_depth = RDMA_MAX_INIT_DEPTH;
  CHECK(rdma_connect(client, &p) == 0);
  rdma_cm_id* server = nullptr;
  {
    const got e = passive.next(RDMA_CM_EVENT_CONNECT_REQUEST);
    server = e->id;
    ibv_device_attr limits{};
    REQUIRE(ibv_query_device(server->verbs, &limits) == 0);
    CHECK(e->param.conn.responder_resources == limits.max_qp_init_rd_atom);
    CHECK(e->param.conn.initiator_depth == limits.max_qp_rd_atom);
  }
  rdma_conn_param a = parameters(data.data(), 197);
  CHECK(rdma_accept(server, &a) == -1);
  CHECK(errno == EINVAL);
  CHECK(rdma_reject(server, data.data(), 149) == -1);
  CHECK(errno == EINVAL);
  a.private_data_len = 196;
  CHECK(rdma_accept(server, &a) == 0);
  active.next(RDMA_CM_EVENT_CONNECT_RESPONSE);
  for (rdma_cm_id* id : {client, server, listening}) rdma_destroy_id(id);
}

TEST_CASE("a datagram service is looked up") {
  channel passive, active;
  rdma_cm_id* listening = listener(passive, RDMA_PS_UDP);
  rdma_cm_id* client = routed(active, port_of(listening), RDMA_PS_UDP);
  CHECK(client->qp_type == IBV_QPT_UD);
  give_qp(client, IBV_QPT_UD);
  CHECK(state_of(client) == IBV_QPS_RTS);  // "it will be ready to post sends"
  rdma_conn_param p = parameters("who", 3);
  REQUIRE(rdma_connect(client, &p) == 0);
  rdma_cm_id* server = nullptr;
  {
    const got e = passive.next(RDMA_CM_EVENT_CONNECT_REQUEST);
    server = e->id;
    CHECK(e->param.ud.private_data_len == 180);
    CHECK(std::memcmp(e->param.ud.private_data, "who", 3) == 0);
  }
  give_qp(server, IBV_QPT_UD);
  constexpr std::size_t grh = 40;
  std::vector<char> from(32, 'u'), to(grh + 32);
  ibv_mr* read = rdma_reg_msgs(client, from.data(), from.size());
  ibv_mr* write = rdma_reg_msgs(server, to.data(), to.size());
  REQUIRE(rdma_post_recv(server, nullptr, to.data(), to.size(), write) == 0);
  rdma_conn_param a = parameters("me", 2);
  REQUIRE(rdma_accept(server, &a) == 0);
  {
    const got e = active.next(RDMA_CM_EVENT_ESTABLISHED);
    const rdma_ud_param& u = e->param.ud;
    CHECK(u.private_data_len == 136);
    CHECK(std::memcmp(u.private_data, "me", 2) == 0);
    CHECK(u.qp_num == server->qp->qp_num);
    CHECK(u.qkey == RDMA_UDP_QKEY);
    ibv_ah_attr path = u.ah_attr;
    ibv_ah* ah = ibv_create_ah(client->pd, &path);
    REQUIRE(ah != nullptr);
    REQUIRE(rdma_post_ud_send(client, nullptr, from.data(), from.size(), read, 0, ah, u.qp_num) ==
            0);
    ibv_wc wc{};
    CHECK(rdma_get_recv_comp(server, &wc) == 1);
    CHECK(wc.byte_len == grh + 32);
    CHECK(std::memcmp(to.data() + grh, from.data(), from.size()) == 0);
    ibv_destroy_ah(ah);
  }
  CHECK(rdma_disconnect(client) == -1);  // there is no connection
  CHECK(errno == EINVAL);
  rdma_dereg_mr(read);
  rdma_dereg_mr(write);
  for (rdma_cm_id* id : {client, server, listening}) rdma_destroy_ep(id);
}

TEST_CASE("a lookup that is rejected, or that nobody listens for, ends as unreachable") {
  channel passive, active;
  rdma_cm_id* listening = listener(passive, RDMA_PS_UDP);
  rdma_cm_id* client = routed(active, port_of(listening), RDMA_PS_UDP);
  rdma_conn_param p = parameters();
  REQUIRE(rdma_connect(client, &p) == 0);
  rdma_cm_id* server = passive.next(RDMA_CM_EVENT_CONNECT_REQUEST)->id;
  CHECK(rdma_reject(server, nullptr, 0) == 0);
  active.next(RDMA_CM_EVENT_UNREACHABLE, 2);
  rdma_cm_id* other = routed(active, 9, RDMA_PS_UDP);
  const std::vector<char> data(181);
  rdma_conn_param longer = parameters(data.data(), data.size());
  CHECK(rdma_connect(other, &longer) == -1);
  CHECK(errno == EINVAL);
  REQUIRE(rdma_connect(other, &p) == 0);
  active.next(RDMA_CM_EVENT_UNREACHABLE, 1);
  for (rdma_cm_id* id : {other, client, server, listening}) rdma_destroy_id(id);
}

TEST_CASE("rdma_notify forces a connection whose client has not answered into being") {
  connection c(false, false);
  CHECK(rdma_notify(c.server, IBV_EVENT_COMM_EST) == -1);
  rdma_conn_param p = parameters();
  REQUIRE(rdma_accept(c.server, &p) == 0);
  CHECK(rdma_notify(c.server, IBV_EVENT_COMM_EST) == 0);
  c.passive.next(RDMA_CM_EVENT_ESTABLISHED);
  c.active.next(RDMA_CM_EVENT_CONNECT_RESPONSE);
  CHECK(rdma_establish(c.client) == 0);
  CHECK(rdma_disconnect(c.client) == 0);
  c.passive.next(RDMA_CM_EVENT_DISCONNECTED);  // and no second ESTABLISHED
}

TEST_CASE("a thousand connections in turn leave nothing open") {
  channel passive, active;
  rdma_cm_id* listening = listener(passive);
  rdma_conn_param p = parameters();
  int before = 0;
  for (int i = 0; i < 1000; ++i) {
    rdma_cm_id* client = routed(active, port_of(listening));
    REQUIRE(rdma_connect(client, &p) == 0);
    rdma_cm_id* server = passive.next(RDMA_CM_EVENT_CONNECT_REQUEST)->id;
    REQUIRE(rdma_accept(server, &p) == 0);
    active.next(RDMA_CM_EVENT_CONNECT_RESPONSE);
    REQUIRE(rdma_establish(client) == 0);
    passive.next(RDMA_CM_EVENT_ESTABLISHED);
    REQUIRE(rdma_disconnect(client) == 0);
    passive.next(RDMA_CM_EVENT_DISCONNECTED);
    REQUIRE(rdma_disconnect(server) == 0);
    active.next(RDMA_CM_EVENT_DISCONNECTED);
    rdma_destroy_id(client);
    rdma_destroy_id(server);
    if (i == 0) before = open_files();
  }
  CHECK(open_files() == before);
  rdma_destroy_id(listening);
}

TEST_CASE("threads connect beside each other") {
  channel passive;
  rdma_cm_id* listening = listener(passive);
  const int port = port_of(listening);
  constexpr int threads = 4, each = 25;
  std::vector<std::thread> clients;
  std::atomic<int> connected{0};
  for (int t = 0; t < threads; ++t)
    clients.emplace_back([&] {
      rdma_event_channel* c = rdma_create_event_channel();
      for (int i = 0; i < each; ++i) {
        rdma_addrinfo *info = nullptr, hints{};
        hints.ai_port_space = RDMA_PS_TCP;
        rdma_cm_id* id = nullptr;
        if (rdma_getaddrinfo("127.0.0.1", std::to_string(port).c_str(), &hints, &info) != 0) return;
        if (rdma_create_ep(&id, info, nullptr, nullptr) != 0) return;
        rdma_freeaddrinfo(info);
        if (rdma_migrate_id(id, c) != 0 || rdma_connect(id, nullptr) != 0) return;
        rdma_cm_event* e = nullptr;
        if (rdma_get_cm_event(c, &e) != 0) return;
        if (e->event == RDMA_CM_EVENT_CONNECT_RESPONSE) ++connected;
        rdma_ack_cm_event(e);
        rdma_destroy_id(id);
      }
      rdma_destroy_event_channel(c);
    });
  for (int i = 0; i < threads * each;) {
    rdma_cm_event* e = nullptr;
    REQUIRE(rdma_get_cm_event(passive.c, &e) == 0);
    rdma_cm_id* id = e->id;
    const rdma_cm_event_type type = e->event;
    rdma_ack_cm_event(e);
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      CHECK(rdma_accept(id, nullptr) == 0);
    } else {  // the client is gone
      rdma_destroy_id(id);
      ++i;
    }
  }
  for (auto& t : clients) t.join();
  CHECK(connected == threads * each);
  rdma_destroy_id(listening);
}
