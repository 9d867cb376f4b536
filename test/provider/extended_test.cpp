// The extended interfaces of the stock libibverbs on shm0, run under penverbs: ibv_wr_*, extended
// completion queues, channels and events that libibverbs itself hands out, queries. Linked only
// with the system's libibverbs.
#include <doctest/doctest.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

namespace {

constexpr std::uint64_t operations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                     IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
                                     IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
constexpr unsigned rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                            IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// One end: a context with an extended CQ and QP.
struct side {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_td* td = nullptr;      ///< of `parent`
  ibv_pd* parent = nullptr;  ///< if not null, the QP's domain; the region's is pd
  ibv_comp_channel* channel = nullptr;
  ibv_cq_ex* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_qp_ex* qpx = nullptr;
  ibv_mr* mr = nullptr;
  ibv_gid gid{};
  std::vector<std::byte> memory = std::vector<std::byte>(65536);

  explicit side(bool with_parent = false) {
    int n = 0;
    ibv_device** list = ibv_get_device_list(&n);
    REQUIRE(n == 1);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    REQUIRE(context != nullptr);
    pd = ibv_alloc_pd(context);
    REQUIRE(pd != nullptr);
    if (with_parent) {
      ibv_td_init_attr alone{};
      td = ibv_alloc_td(context, &alone);
      REQUIRE(td != nullptr);
      ibv_parent_domain_init_attr around{};
      around.pd = pd;
      around.td = td;
      parent = ibv_alloc_parent_domain(context, &around);
      REQUIRE(parent != nullptr);
    }
    channel = ibv_create_comp_channel(context);
    REQUIRE(channel != nullptr);
    ibv_cq_init_attr_ex c{};
    c.cqe = 64;
    c.channel = channel;
    c.cq_context = this;
    c.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM;
    cq = ibv_create_cq_ex(context, &c);
    REQUIRE(cq != nullptr);
    ibv_qp_init_attr_ex q{};
    q.send_cq = q.recv_cq = ibv_cq_ex_to_cq(cq);
    q.cap = {16, 16, 4, 4, 128};
    q.qp_type = IBV_QPT_RC;
    q.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    q.pd = with_parent ? parent : pd;
    q.send_ops_flags = operations;
    qp = ibv_create_qp_ex(context, &q);
    REQUIRE(qp != nullptr);
    qpx = ibv_qp_to_qp_ex(qp);
    REQUIRE(qpx != nullptr);
    mr = ibv_reg_mr(pd, memory.data(), memory.size(), rights);
    REQUIRE(mr != nullptr);
    REQUIRE(ibv_query_gid(context, 1, 0, &gid) == 0);
  }
  side(const side&) = delete;
  side& operator=(const side&) = delete;
  ~side() {
    CHECK(ibv_destroy_qp(qp) == 0);
    CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
    CHECK(ibv_destroy_comp_channel(channel) == 0);
    CHECK(ibv_dereg_mr(mr) == 0);
    if (parent != nullptr) CHECK(ibv_dealloc_pd(parent) == 0);
    if (td != nullptr) CHECK(ibv_dealloc_td(td) == 0);
    CHECK(ibv_dealloc_pd(pd) == 0);
    CHECK(ibv_close_device(context) == 0);
  }
  void connect(const side& to) const {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    a.qp_access_flags = rights & ~unsigned{IBV_ACCESS_LOCAL_WRITE};
    REQUIRE(ibv_modify_qp(
                qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = to.qp->qp_num;
    a.max_dest_rd_atomic = 1;
    a.min_rnr_timer = 1;
    a.ah_attr.is_global = 1;
    a.ah_attr.grh.dgid = to.gid;
    a.ah_attr.port_num = 1;
    REQUIRE(ibv_modify_qp(qp, &a,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                              IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) ==
            0);
    a.qp_state = IBV_QPS_RTS;
    a.timeout = 14;
    a.retry_cnt = a.rnr_retry = 7;
    a.max_rd_atomic = 1;
    REQUIRE(ibv_modify_qp(qp, &a,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
  }
  [[nodiscard]] std::uint64_t at(std::size_t offset) const {
    return reinterpret_cast<std::uint64_t>(memory.data() + offset);
  }
  void receive(std::uint64_t id, std::size_t offset, std::uint32_t bytes) const {
    ibv_sge s{at(offset), bytes, mr->lkey};
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = id;
    wr.sg_list = &s;
    wr.num_sge = 1;
    REQUIRE(ibv_post_recv(qp, &wr, &bad) == 0);
  }
  /// Begins to poll when there is a completion; false when none comes within ten seconds.
  [[nodiscard]] bool poll_begins() const {
    ibv_poll_cq_attr none{};
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < until) {
      if (ibv_start_poll(cq, &none) == 0) return true;
      ::sched_yield();
    }
    return false;
  }
  /// One completion: its id, with success.
  [[nodiscard]] std::uint64_t done() const {
    if (!poll_begins()) return ~std::uint64_t{0};
    CHECK(cq->status == IBV_WC_SUCCESS);
    const std::uint64_t id = cq->wr_id;
    ibv_end_poll(cq);
    return id;
  }
};

struct duo {
  side a, b;
  explicit duo(bool with_parents = false) : a(with_parents), b(with_parents) {
    a.connect(b);
    b.connect(a);
  }
};

}  // namespace

TEST_CASE("several requests are posted together, in order, lists and inline bytes among them") {
  duo d;
  for (std::uint64_t i = 0; i < 3; ++i) d.b.receive(10 + i, 4096 * (i + 1), 4096);
  std::memcpy(d.a.memory.data(), "firstsecond", 11);
  char kept[] = "inline";
  ibv_wr_start(d.a.qpx);
  d.a.qpx->wr_id = 1;
  d.a.qpx->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send_imm(d.a.qpx, 77);
  const ibv_sge parts[] = {{d.a.at(0), 5, d.a.mr->lkey}, {d.a.at(5), 6, d.a.mr->lkey}};
  ibv_wr_set_sge_list(d.a.qpx, 2, parts);
  d.a.qpx->wr_id = 2;
  ibv_wr_send(d.a.qpx);
  ibv_wr_set_inline_data(d.a.qpx, kept, 6);
  std::memset(kept, 'x', 6);  // the bytes were taken
  d.a.qpx->wr_id = 3;
  ibv_wr_send(d.a.qpx);
  ibv_wr_set_sge(d.a.qpx, d.a.mr->lkey, d.a.at(0), 5);
  REQUIRE(ibv_wr_complete(d.a.qpx) == 0);
  REQUIRE(d.b.poll_begins());
  CHECK(d.b.cq->wr_id == 10);
  CHECK(ibv_wc_read_opcode(d.b.cq) == IBV_WC_RECV);
  CHECK(ibv_wc_read_byte_len(d.b.cq) == 11);
  CHECK(ibv_wc_read_imm_data(d.b.cq) == 77);
  CHECK(ibv_wc_read_qp_num(d.b.cq) == d.b.qp->qp_num);
  CHECK((ibv_wc_read_wc_flags(d.b.cq) & IBV_WC_WITH_IMM) != 0);
  ibv_end_poll(d.b.cq);
  CHECK(d.b.done() == 11);
  CHECK(d.b.done() == 12);
  CHECK(std::memcmp(d.b.memory.data() + 4096, "firstsecond", 11) == 0);
  CHECK(std::memcmp(d.b.memory.data() + 8192, "inline", 6) == 0);
  CHECK(std::memcmp(d.b.memory.data() + 12288, "first", 5) == 0);
  for (std::uint64_t i = 1; i <= 3; ++i) CHECK(d.a.done() == i);
}

TEST_CASE("one-sided requests and atomics are posted by ibv_wr_*") {
  bool with_parents = false;
  SUBCASE("on queue pairs of the regions' domain") {}
  SUBCASE("on queue pairs of a parent domain around it") { with_parents = true; }
  duo d(with_parents);
  d.a.qpx->wr_flags = IBV_SEND_SIGNALED;
  std::memcpy(d.a.memory.data(), "written", 7);
  ibv_wr_start(d.a.qpx);
  d.a.qpx->wr_id = 1;
  ibv_wr_rdma_write(d.a.qpx, d.b.mr->rkey, d.b.at(512));
  ibv_wr_set_sge(d.a.qpx, d.a.mr->lkey, d.a.at(0), 7);
  d.a.qpx->wr_id = 2;
  ibv_wr_rdma_read(d.a.qpx, d.b.mr->rkey, d.b.at(512));
  ibv_wr_set_sge(d.a.qpx, d.a.mr->lkey, d.a.at(1024), 7);
  d.a.qpx->wr_id = 3;
  ibv_wr_atomic_fetch_add(d.a.qpx, d.b.mr->rkey, d.b.at(2048), 5);
  ibv_wr_set_sge(d.a.qpx, d.a.mr->lkey, d.a.at(2048), 8);
  d.a.qpx->wr_id = 4;
  ibv_wr_atomic_cmp_swp(d.a.qpx, d.b.mr->rkey, d.b.at(2048), 5, 9);
  ibv_wr_set_sge(d.a.qpx, d.a.mr->lkey, d.a.at(2056), 8);
  REQUIRE(ibv_wr_complete(d.a.qpx) == 0);
  for (std::uint64_t i = 1; i <= 4; ++i) CHECK(d.a.done() == i);
  CHECK(std::memcmp(d.b.memory.data() + 512, "written", 7) == 0);
  CHECK(std::memcmp(d.a.memory.data() + 1024, "written", 7) == 0);
  std::uint64_t word = 0;
  std::memcpy(&word, d.b.memory.data() + 2048, 8);
  CHECK(word == 9);
  std::memcpy(&word, d.a.memory.data() + 2056, 8);
  CHECK(word == 5);
}

TEST_CASE("a parent domain is a domain wherever one is asked for, and goes before its parts") {
  duo d(true);
  side& b = d.b;
  CHECK(b.qp->pd == b.parent);
  ibv_srq_init_attr s{};
  s.attr = {4, 1, 0};
  ibv_srq* srq = ibv_create_srq(b.parent, &s);
  REQUIRE(srq != nullptr);
  ibv_mr* more = ibv_reg_mr(b.parent, b.memory.data(), 64, rights);
  REQUIRE(more != nullptr);
  CHECK(more->pd == b.parent);
  // The parts of a domain, while something has them.
  CHECK(ibv_dealloc_pd(b.parent) == EBUSY);
  CHECK(ibv_dealloc_pd(b.pd) == EBUSY);
  CHECK(ibv_dealloc_td(b.td) == EBUSY);
  // A message through the region of one handle, into the region of the other.
  std::memcpy(d.a.memory.data(), "message", 7);
  ibv_sge to{b.at(8), 7, more->lkey};
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.wr_id = 1;
  wr.sg_list = &to;
  wr.num_sge = 1;
  REQUIRE(ibv_post_recv(b.qp, &wr, &bad) == 0);
  ibv_wr_start(d.a.qpx);
  d.a.qpx->wr_id = 2;
  d.a.qpx->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(d.a.qpx);
  ibv_wr_set_sge(d.a.qpx, d.a.mr->lkey, d.a.at(0), 7);
  REQUIRE(ibv_wr_complete(d.a.qpx) == 0);
  CHECK(b.done() == 1);
  CHECK(d.a.done() == 2);
  CHECK(std::memcmp(b.memory.data() + 8, "message", 7) == 0);
  CHECK(ibv_destroy_srq(srq) == 0);
  CHECK(ibv_dereg_mr(more) == 0);
}

TEST_CASE("parent domains nest, need no thread domain, and are of one context") {
  side a, other;
  const auto parent_of = [&](ibv_pd* pd, std::uint32_t mask) {
    ibv_parent_domain_init_attr around{};
    around.pd = pd;
    around.comp_mask = mask;
    around.alloc = [](ibv_pd*, void*, std::size_t, std::size_t, std::uint64_t) -> void* {
      return IBV_ALLOCATOR_USE_DEFAULT;
    };
    around.free = [](ibv_pd*, void*, void*, std::uint64_t) {};
    errno = 0;
    return ibv_alloc_parent_domain(a.context, &around);
  };
  CHECK(parent_of(nullptr, 0) == nullptr);
  CHECK(errno == EINVAL);
  CHECK(parent_of(other.pd, 0) == nullptr);
  CHECK(errno == EINVAL);
  CHECK(parent_of(a.pd, 1u << 30) == nullptr);
  CHECK(errno == EINVAL);
  CHECK(parent_of(a.pd, IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) == nullptr);
  CHECK(errno == EOPNOTSUPP);
  ibv_td_init_attr unknown{1};
  CHECK(ibv_alloc_td(a.context, &unknown) == nullptr);
  CHECK(errno == EINVAL);
  ibv_pd* one = parent_of(a.pd, IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT);
  REQUIRE(one != nullptr);
  ibv_pd* two = parent_of(one, 0);
  REQUIRE(two != nullptr);
  ibv_mr* mr = ibv_reg_mr(two, a.memory.data(), 64, rights);
  REQUIRE(mr != nullptr);
  CHECK(ibv_dealloc_pd(two) == EBUSY);
  CHECK(ibv_dealloc_pd(one) == EBUSY);
  CHECK(ibv_dereg_mr(mr) == 0);
  CHECK(ibv_dealloc_pd(two) == 0);
  CHECK(ibv_dealloc_pd(one) == 0);
}

TEST_CASE("a batch that is aborted, or has a request that cannot be, posts nothing") {
  duo d;
  d.b.receive(5, 0, 64);
  ibv_wr_start(d.a.qpx);
  ibv_wr_send(d.a.qpx);
  ibv_wr_abort(d.a.qpx);
  std::vector<char> much(4096);
  ibv_wr_start(d.a.qpx);
  d.a.qpx->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(d.a.qpx);
  ibv_wr_set_sge(d.a.qpx, d.a.mr->lkey, d.a.at(0), 1);
  ibv_wr_send(d.a.qpx);
  ibv_wr_set_inline_data(d.a.qpx, much.data(), much.size());
  CHECK(ibv_wr_complete(d.a.qpx) == EINVAL);
  ibv_wr_start(d.a.qpx);
  for (int i = 0; i < 17; ++i) {
    ibv_wr_send(d.a.qpx);
    ibv_wr_set_sge(d.a.qpx, d.a.mr->lkey, d.a.at(0), 1);
  }
  CHECK(ibv_wr_complete(d.a.qpx) == ENOMEM);
  d.a.qpx->wr_id = 9;
  ibv_wr_start(d.a.qpx);
  ibv_wr_send(d.a.qpx);
  ibv_wr_set_sge(d.a.qpx, d.a.mr->lkey, d.a.at(0), 3);
  REQUIRE(ibv_wr_complete(d.a.qpx) == 0);
  REQUIRE(d.b.poll_begins());
  CHECK(ibv_wc_read_byte_len(d.b.cq) == 3);
  ibv_end_poll(d.b.cq);
  CHECK(d.a.done() == 9);
}

TEST_CASE("a channel's event wakes once for each arming, and names its queue") {
  duo d;
  ibv_cq* const cq = ibv_cq_ex_to_cq(d.b.cq);
  d.b.receive(1, 0, 64);
  d.b.receive(2, 0, 64);
  REQUIRE(ibv_req_notify_cq(cq, 0) == 0);
  pollfd p{d.b.channel->fd, POLLIN, 0};
  CHECK(::poll(&p, 1, 20) == 0);
  for (int i = 0; i < 2; ++i) {
    ibv_wr_start(d.a.qpx);
    ibv_wr_send(d.a.qpx);
    ibv_wr_set_sge(d.a.qpx, d.a.mr->lkey, d.a.at(0), 8);
    REQUIRE(ibv_wr_complete(d.a.qpx) == 0);
  }
  REQUIRE(::poll(&p, 1, 10'000) == 1);
  ibv_cq* whose = nullptr;
  void* data = nullptr;
  REQUIRE(ibv_get_cq_event(d.b.channel, &whose, &data) == 0);
  CHECK(whose == cq);
  CHECK(data == &d.b);
  CHECK(::poll(&p, 1, 20) == 0);
  ibv_ack_cq_events(cq, 1);
  CHECK(d.b.done() == 1);
  CHECK(d.b.done() == 2);
}

TEST_CASE("a breach of access rights is an asynchronous event at the target") {
  duo d;
  ibv_wr_start(d.a.qpx);
  d.a.qpx->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(d.a.qpx, d.b.mr->rkey ^ 0x40000, d.b.at(0));
  ibv_wr_set_sge(d.a.qpx, d.a.mr->lkey, d.a.at(0), 8);
  REQUIRE(ibv_wr_complete(d.a.qpx) == 0);
  REQUIRE(d.a.poll_begins());
  CHECK(d.a.cq->status == IBV_WC_REM_ACCESS_ERR);
  ibv_end_poll(d.a.cq);
  pollfd p{d.b.context->async_fd, POLLIN, 0};
  REQUIRE(::poll(&p, 1, 10'000) == 1);
  ibv_async_event e{};
  REQUIRE(ibv_get_async_event(d.b.context, &e) == 0);
  CHECK(e.event_type == IBV_EVENT_QP_ACCESS_ERR);
  CHECK(e.element.qp == d.b.qp);
  ibv_ack_async_event(&e);
}

TEST_CASE("a region is registered again with other rights") {
  duo d;
  const auto write = [&](std::uint64_t id) {
    ibv_wr_start(d.a.qpx);
    d.a.qpx->wr_id = id;
    d.a.qpx->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(d.a.qpx, d.b.mr->rkey, d.b.at(64));
    ibv_wr_set_sge(d.a.qpx, d.a.mr->lkey, d.a.at(0), 5);
    REQUIRE(ibv_wr_complete(d.a.qpx) == 0);
  };
  std::memcpy(d.a.memory.data(), "bytes", 5);
  const std::uint32_t key = d.b.mr->rkey;
  const auto other_rights = [&](int r) {
    return ibv_rereg_mr(d.b.mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, r);
  };
  CHECK(other_rights(IBV_ACCESS_REMOTE_WRITE) != 0);  // without local ones
  CHECK(errno == EINVAL);
  write(1);
  CHECK(d.a.done() == 1);
  REQUIRE(other_rights(IBV_ACCESS_LOCAL_WRITE) == 0);
  REQUIRE(other_rights(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) == 0);
  CHECK(d.b.mr->rkey == key);
  std::memcpy(d.a.memory.data(), "other", 5);
  write(2);
  CHECK(d.a.done() == 2);
  CHECK(std::memcmp(d.b.memory.data() + 64, "other", 5) == 0);
  REQUIRE(other_rights(IBV_ACCESS_LOCAL_WRITE) == 0);
  write(3);
  REQUIRE(d.a.poll_begins());
  CHECK(d.a.cq->status == IBV_WC_REM_ACCESS_ERR);
  ibv_end_poll(d.a.cq);
}

TEST_CASE("memory that is registered on demand may be replaced, and fetched ahead") {
  ibv_device_attr_ex a{};
  duo d;
  REQUIRE(ibv_query_device_ex(d.a.context, nullptr, &a) == 0);
  CHECK((a.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0);
  CHECK((a.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_WRITE) != 0);
  constexpr std::size_t bytes = 1 << 20;
  const auto fresh = [](void* at) {
    return ::mmap(at, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED : 0), -1, 0);
  };
  void* memory = fresh(nullptr);
  REQUIRE(memory != MAP_FAILED);
  ibv_mr* mr = ibv_reg_mr(d.b.pd, memory, bytes, rights | IBV_ACCESS_ON_DEMAND);
  REQUIRE(mr != nullptr);
  std::memcpy(d.a.memory.data(), "demand", 6);
  for (std::uint64_t round = 1; round <= 3; ++round) {
    REQUIRE(fresh(memory) == memory);
    ibv_wr_start(d.a.qpx);
    d.a.qpx->wr_id = round;
    d.a.qpx->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(d.a.qpx, mr->rkey, reinterpret_cast<std::uint64_t>(memory) + 5000);
    ibv_wr_set_sge(d.a.qpx, d.a.mr->lkey, d.a.at(0), 6);
    REQUIRE(ibv_wr_complete(d.a.qpx) == 0);
    CHECK(d.a.done() == round);
    CHECK(std::memcmp(static_cast<char*>(memory) + 5000, "demand", 6) == 0);
  }
  ibv_sge piece{reinterpret_cast<std::uint64_t>(memory) + 100, 20'000, mr->lkey};
  for (const auto advice : {IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE})
    CHECK(ibv_advise_mr(d.b.pd, advice, IBV_ADVISE_MR_FLAG_FLUSH, &piece, 1) == 0);
  piece.length = bytes;
  CHECK(ibv_advise_mr(d.b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &piece, 1) == EINVAL);
  CHECK(ibv_dereg_mr(mr) == 0);
  CHECK(::munmap(memory, bytes) == 0);
}

/// What the kernel says about an interface's IPv4 address: the address, or its mask.
std::uint32_t of_interface(std::uint32_t index, unsigned long what) {
  ifreq r{};
  REQUIRE(::if_indextoname(index, r.ifr_name) != nullptr);
  const int s = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  REQUIRE(::ioctl(s, what, &r) == 0);
  ::close(s);
  return reinterpret_cast<const sockaddr_in&>(r.ifr_addr).sin_addr.s_addr;
}

TEST_CASE("queries say what the device is, and what it lacks is refused") {
  side s;
  ibv_device_attr_ex a{};
  REQUIRE(ibv_query_device_ex(s.context, nullptr, &a) == 0);
  CHECK(a.orig_attr.max_qp > 1000);
  CHECK(a.phys_port_cnt_ex == 1);
  ibv_port_attr port{};
  REQUIRE(ibv_query_port(s.context, 1, &port) == 0);
  CHECK(port.state == IBV_PORT_ACTIVE);
  CHECK(ibv_query_port(s.context, 2, &port) != 0);
  ibv_gid_entry entries[8];
  CHECK(ibv_query_gid_table(s.context, entries, 3, 0) < 0);  // there are more
  REQUIRE(ibv_query_gid_table(s.context, entries, 8, 0) == 4);
  for (std::uint32_t row = 0; row < 4; ++row) {
    ibv_gid gid;
    REQUIRE(ibv_query_gid(s.context, 1, static_cast<int>(row), &gid) == 0);
    CHECK(std::memcmp(&entries[row].gid, &gid, sizeof gid) == 0);
    CHECK(entries[row].gid_index == row);
    CHECK(entries[row].gid_type == (row % 2 == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2));
    // RoCE: an IP address among the GIDs is one of the row's interface.
    const std::uint32_t dev = entries[row].ndev_ifindex;
    const std::uint32_t near = of_interface(dev, SIOCGIFNETMASK),
                        own = of_interface(dev, SIOCGIFADDR);
    std::uint32_t address;
    std::memcpy(&address, gid.raw + 12, sizeof address);
    CHECK((row < 2 || ((address ^ own) & near) == 0));
  }
  // The rest of its table of GIDs is empty, as an adapter's is, and behind the table there is
  // nothing.
  REQUIRE(ibv_query_port(s.context, 1, &port) == 0);
  REQUIRE(port.gid_tbl_len == 8);
  ibv_gid_entry one;
  CHECK(ibv_query_gid_ex(s.context, 1, 3, &one, 0) == 0);
  CHECK(ibv_query_gid_ex(s.context, 1, 4, &one, 0) == ENODATA);
  CHECK(ibv_query_gid_ex(s.context, 1, 8, &one, 0) == EINVAL);
  ibv_gid none;
  std::memset(&none, 1, sizeof none);
  CHECK(ibv_query_gid(s.context, 1, 4, &none) == 0);
  CHECK(none.global.interface_id == 0);
  std::uint16_t key = 0;
  CHECK(ibv_query_pkey(s.context, 1, 0, &key) == 0);
  CHECK(key == 0xffff);
  ibv_alloc_dm_attr some{};
  some.length = 64;
  CHECK(ibv_alloc_dm(s.context, &some) == nullptr);
  CHECK(errno == EOPNOTSUPP);
  ibv_qp_open_attr shared{};
  CHECK(ibv_open_qp(s.context, &shared) == nullptr);
  CHECK(errno == EOPNOTSUPP);
}

TEST_CASE("a queue pair's creation flags may be given if there are none") {
  side s;
  ibv_qp_init_attr_ex q{};
  q.send_cq = q.recv_cq = ibv_cq_ex_to_cq(s.cq);
  q.cap = {16, 16, 4, 4, 128};
  q.qp_type = IBV_QPT_UD;
  q.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  q.pd = s.pd;
  ibv_qp* const qp = ibv_create_qp_ex(s.context, &q);
  REQUIRE(qp != nullptr);
  CHECK(ibv_destroy_qp(qp) == 0);
  q.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
  CHECK(ibv_create_qp_ex(s.context, &q) == nullptr);
  CHECK(errno == EOPNOTSUPP);
}

TEST_CASE("a completion queue is resized with what it holds, and never below that") {
  side s;
  s.connect(s);
  ibv_cq* cq = ibv_cq_ex_to_cq(s.cq);
  ibv_sge piece{reinterpret_cast<std::uint64_t>(s.memory.data()), 8, s.mr->lkey};
  ibv_recv_wr r{}, *bad_receive = nullptr;
  ibv_send_wr w{}, *bad = nullptr;
  w.sg_list = r.sg_list = &piece;
  w.num_sge = r.num_sge = 1;
  w.opcode = IBV_WR_SEND;
  w.send_flags = IBV_SEND_SIGNALED;
  for (w.wr_id = 0; w.wr_id < 5; ++w.wr_id) {
    REQUIRE(ibv_post_recv(s.qp, &r, &bad_receive) == 0);
    REQUIRE(ibv_post_send(s.qp, &w, &bad) == 0);
  }
  CHECK(ibv_resize_cq(cq, 4) == EINVAL);
  CHECK(ibv_resize_cq(cq, 0) == EINVAL);
  REQUIRE(ibv_resize_cq(cq, 1000) == 0);
  CHECK(cq->cqe >= 1000);
  std::uint64_t sent = 0, received = 0;
  ibv_wc wc;
  while (ibv_poll_cq(cq, 1, &wc) == 1) {
    REQUIRE(wc.status == IBV_WC_SUCCESS);
    if (wc.opcode == IBV_WC_SEND) CHECK(wc.wr_id == sent++);
    if (wc.opcode == IBV_WC_RECV) ++received;
  }
  CHECK(sent == 5);
  CHECK(received == 5);
  REQUIRE(ibv_resize_cq(cq, 16) == 0);
}
