// What becomes of a connection whose other process ends, or does not answer. Run under penverbs;
// linked with the system's libraries alone.
#include "test/cm/cm_h.hpp"

using namespace cm_test;

TEST_CASE("the end of the other process is an event at each step") {
  rdma_conn_param p = parameters();
  SUBCASE("a server that has not taken the request, or not answered") {
    for (const char* step : {"listening", "requested"}) {
      channel active;
      peer other("server", step, 0);
      rdma_cm_id* client = routed(active, other.says());
      REQUIRE(rdma_connect(client, &p) == 0);
      if (std::strcmp(step, "requested") == 0) other.says();
      other.kill();
      active.next(RDMA_CM_EVENT_UNREACHABLE, -ECONNRESET);
      rdma_destroy_id(client);
    }
  }
  SUBCASE("a server that has accepted, or is connected") {
    for (const char* step : {"accepted", "established"}) {
      channel active;
      peer other("server", step, 0);
      rdma_cm_id* client = routed(active, other.says());
      REQUIRE(rdma_connect(client, &p) == 0);
      active.next(RDMA_CM_EVENT_CONNECT_RESPONSE);
      REQUIRE(rdma_establish(client) == 0);
      other.says();
      other.kill();
      active.next(RDMA_CM_EVENT_DISCONNECTED);
      CHECK(rdma_disconnect(client) == 0);
      rdma_destroy_id(client);
    }
  }
  SUBCASE("a client") {
    for (const char* step : {"requested", "responded", "established"}) {
      channel passive;
      rdma_cm_id* listening = listener(passive);
      peer other("client", step, port_of(listening));
      rdma_cm_id* server = passive.next(RDMA_CM_EVENT_CONNECT_REQUEST)->id;
      const bool asked = std::strcmp(step, "requested") == 0;
      if (!asked) REQUIRE(rdma_accept(server, &p) == 0);
      other.says();
      if (std::strcmp(step, "established") == 0) passive.next(RDMA_CM_EVENT_ESTABLISHED);
      other.kill();
      if (std::strcmp(step, "established") == 0)
        passive.next(RDMA_CM_EVENT_DISCONNECTED);
      else
        passive.next(RDMA_CM_EVENT_UNREACHABLE, -ECONNRESET);
      CHECK(rdma_accept(server, &p) == -1);
      rdma_destroy_id(server);
      rdma_destroy_id(listening);
    }
  }
  SUBCASE("one that is asked to disconnect") {
    channel passive;
    rdma_cm_id* listening = listener(passive);
    peer other("client", "established", port_of(listening));
    rdma_cm_id* server = passive.next(RDMA_CM_EVENT_CONNECT_REQUEST)->id;
    REQUIRE(rdma_accept(server, &p) == 0);
    passive.next(RDMA_CM_EVENT_ESTABLISHED);
    other.says();
    CHECK(rdma_disconnect(server) == 0);
    CHECK_FALSE(passive.has_event(0));  // it has not answered
    other.kill();
    passive.next(RDMA_CM_EVENT_DISCONNECTED);
    rdma_destroy_id(server);
    rdma_destroy_id(listening);
  }
}

// Run with a short PENVERBS_CM_TIMEOUT_MS, by a test of its own.
TEST_CASE("who does not answer is given up" *
          doctest::skip(::getenv("PENVERBS_CM_TIMEOUT_MS") == nullptr)) {
  connection c(false, false);
  c.active.next(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
  connection d(false, false);
  rdma_conn_param p = parameters();
  REQUIRE(rdma_accept(d.server, &p) == 0);
  d.passive.next(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
  connection e(false);
  REQUIRE(rdma_disconnect(e.server) == 0);
  e.passive.next(RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT);
}
