// Two processes that share nothing but a folder: two_places FOLDER server, two_places FOLDER
// client. Each tells the other its address by a file there. The client sends a message, writes into
// the server's memory, and reads what it wrote. 0: all arrived; 3: no connection. Linked only with
// the system's libibverbs.
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

namespace {

struct address {
  ibv_gid gid;
  std::uint32_t qpn, rkey;
  std::uint64_t memory;
};

[[noreturn]] void end(int code, const char* what) {
  std::printf("%s: %s\n", what, std::strerror(errno));
  std::exit(code);
}
void must(bool done, const char* what) {
  if (!done) end(1, what);
}

template <class Ready>
bool until(Ready ready) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!ready()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void tell(const std::string& file, const address& mine) {
  std::ofstream(file + ".new", std::ios::binary)
      .write(reinterpret_cast<const char*>(&mine), sizeof mine);
  must(std::rename((file + ".new").c_str(), file.c_str()) == 0, "rename");
}
address heard(const std::string& file) {
  address theirs{};
  must(until([&] {
         std::ifstream in(file, std::ios::binary);
         return static_cast<bool>(in.read(reinterpret_cast<char*>(&theirs), sizeof theirs));
       }),
       "the other's address");
  return theirs;
}

int to_rtr(ibv_qp* qp, const address& to) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = to.qpn;
  a.max_dest_rd_atomic = 1;
  a.min_rnr_timer = 1;
  a.ah_attr.is_global = 1;
  a.ah_attr.grh.dgid = to.gid;
  a.ah_attr.grh.sgid_index = 3;
  a.ah_attr.port_num = 1;
  return ibv_modify_qp(qp, &a,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

void one(ibv_cq* cq, const char* what) {
  ibv_wc wc{};
  must(until([&] { return ibv_poll_cq(cq, 1, &wc) == 1; }), what);
  if (wc.status == IBV_WC_SUCCESS) return;
  std::printf("%s: %s\n", what, ibv_wc_status_str(wc.status));
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string folder = argv[1];
  const bool server = std::strcmp(argv[2], "server") == 0;
  ibv_device** list = ibv_get_device_list(nullptr);
  must(list != nullptr && list[0] != nullptr, "no device");
  ibv_context* c = ibv_open_device(list[0]);
  must(c != nullptr, "ibv_open_device");
  ibv_pd* pd = ibv_alloc_pd(c);
  ibv_cq* cq = ibv_create_cq(c, 16, nullptr, nullptr, 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.cap = {4, 4, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  ibv_qp* qp = ibv_create_qp(pd, &init);
  must(qp != nullptr, "ibv_create_qp");
  static char memory[4096];
  constexpr int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  ibv_mr* mr = ibv_reg_mr(pd, memory, sizeof memory, rights);
  must(mr != nullptr, "ibv_reg_mr");
  address mine{{}, qp->qp_num, mr->rkey, reinterpret_cast<std::uint64_t>(memory)};
  must(ibv_query_gid(c, 1, 3, &mine.gid) == 0, "ibv_query_gid");
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  must(ibv_modify_qp(qp, &a,
                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
       "INIT");
  ibv_sge piece{mine.memory, 64, mr->lkey};
  ibv_recv_wr receive{}, *bad_receive = nullptr;
  receive.sg_list = &piece;
  receive.num_sge = 1;
  must(ibv_post_recv(qp, &receive, &bad_receive) == 0, "ibv_post_recv");
  tell(folder + (server ? "/server" : "/client"), mine);
  const address theirs = heard(folder + (server ? "/client" : "/server"));
  if (const int e = to_rtr(qp, theirs)) errno = e, end(3, "RTR");
  a = {};
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 14;
  a.retry_cnt = a.rnr_retry = 7;
  a.max_rd_atomic = 1;
  must(ibv_modify_qp(qp, &a,
                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
       "RTS");
  const auto post = [&](ibv_wr_opcode opcode, std::size_t offset) {
    piece.addr = mine.memory + offset;
    ibv_send_wr wr{}, *bad = nullptr;
    wr.sg_list = &piece;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {theirs.memory + 1024, theirs.rkey};
    must(ibv_post_send(qp, &wr, &bad) == 0, "ibv_post_send");
    one(cq, "a completion");
  };
  const auto close = [&] {
    const bool closed = ibv_destroy_qp(qp) == 0 && ibv_dereg_mr(mr) == 0 &&
                        ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0 &&
                        ibv_close_device(c) == 0;
    must(closed, "closing");
    return 0;
  };
  if (server) {
    one(cq, "the message");
    must(std::strcmp(memory, "from another place") == 0, "the message's bytes");
    // It stays until the client has read.
    must(until([&] { return ::access((folder + "/done").c_str(), F_OK) == 0; }),
         "the client's end");
    must(std::strcmp(memory + 1024, "written") == 0, "the bytes written");
    return close();
  }
  std::strcpy(memory + 512, "from another place");
  post(IBV_WR_SEND, 512);
  std::strcpy(memory + 512, "written");
  post(IBV_WR_RDMA_WRITE, 512);
  post(IBV_WR_RDMA_READ, 2048);
  must(std::strcmp(memory + 2048, "written") == 0, "the bytes read");
  std::ofstream(folder + "/done") << "yes";
  return close();
}
