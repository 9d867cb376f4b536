// The other process of cm_test: peer ROLE STEP PORT. It goes as far as STEP, prints a line, and
// waits to be killed; at the end of its input it ends by itself. Linked only with librdmacm.
//
//   server: listening, requested, accepted, established     client: requested, responded,
//   established
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <arpa/inet.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

void must(bool done, const char* what) {
  if (done) return;
  std::perror(what);
  std::exit(1);
}

rdma_event_channel* channel;
rdma_cm_event* wanted(rdma_cm_event_type type) {
  rdma_cm_event* e = nullptr;
  must(rdma_get_cm_event(channel, &e) == 0, "rdma_get_cm_event");
  if (e->event == type) return e;
  std::fprintf(stderr, "%s, status %d\n", rdma_event_str(e->event), e->status);
  std::exit(1);
}
void take(rdma_cm_event_type type) { rdma_ack_cm_event(wanted(type)); }

std::string last;
void reached(const char* step, int port) {
  if (last != step) return;
  std::printf("%d\n", port);
  std::fflush(stdout);
  char c;
  while (::read(STDIN_FILENO, &c, 1) > 0) {
  }
  std::_Exit(0);
}

sockaddr_in loopback(int port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.sin_port = htons(static_cast<std::uint16_t>(port));
  return a;
}

}  // namespace

int main(int argc, char** argv) {
  must(argc == 4, "three arguments");
  last = argv[2];
  channel = rdma_create_event_channel();
  must(channel != nullptr, "rdma_create_event_channel");
  rdma_cm_id* id = nullptr;
  must(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  sockaddr_in a = loopback(std::atoi(argv[3]));
  rdma_conn_param p{};
  p.responder_resources = p.initiator_depth = 1;
  p.qp_num = 77;
  if (std::strcmp(argv[1], "server") == 0) {
    must(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&a)) == 0, "rdma_bind_addr");
    must(rdma_listen(id, 4) == 0, "rdma_listen");
    const int port = ntohs(rdma_get_src_port(id));
    if (last != "listening") {
      std::printf("%d\n", port);
      std::fflush(stdout);
    }
    reached("listening", port);
    rdma_cm_event* e = wanted(RDMA_CM_EVENT_CONNECT_REQUEST);
    reached("requested", port);
    must(rdma_accept(e->id, &p) == 0, "rdma_accept");
    reached("accepted", port);
    take(RDMA_CM_EVENT_ESTABLISHED);
    reached("established", port);
  } else {
    must(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&a), 1000) == 0, "resolve");
    take(RDMA_CM_EVENT_ADDR_RESOLVED);
    must(rdma_resolve_route(id, 1000) == 0, "rdma_resolve_route");
    take(RDMA_CM_EVENT_ROUTE_RESOLVED);
    must(rdma_connect(id, &p) == 0, "rdma_connect");
    reached("requested", 0);
    take(RDMA_CM_EVENT_CONNECT_RESPONSE);
    reached("responded", 0);
    must(rdma_establish(id) == 0, "rdma_establish");
    reached("established", 0);
  }
  std::fprintf(stderr, "no step %s\n", last.c_str());
  return 1;
}
