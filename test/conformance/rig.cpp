// Making, connecting and waiting, for the conformance tests.
#include "test/conformance/rig.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/settings.hpp"

namespace penstock::conformance {
namespace {

std::string& name_slot() {
  static std::string name = "auto";
  return name;
}

nic::device opened() {
  settings s;
  s.device = device_name();
  auto d = nic::open_device(s);
  if (!d) throw std::runtime_error(d.error().message());
  return std::move(*d);
}

std::byte pattern(std::size_t i, unsigned seed) noexcept {
  return static_cast<std::byte>((i * 7 + i / 251 + seed * 31 + 1) & 0xff);
}

}  // namespace

void set_device_name(std::string name) { name_slot() = std::move(name); }
const std::string& device_name() { return name_slot(); }

void expect(bool good, const std::string& text) {
  if (!good) throw std::runtime_error("expected: " + text);
}

void unmap::operator()(std::byte* p) const noexcept { munmap(p, bytes); }

region::region(const nic::calls& v, ibv_pd* pd, std::size_t n, unsigned access) : bytes(n) {
  void* const p =
      mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  expect(p != MAP_FAILED, "memory");
  memory_ = {static_cast<std::byte*>(p), unmap{n}};
  mr = {v.reg_mr(pd, p, n, static_cast<int>(access)), v.dereg_mr};
  expect(static_cast<bool>(mr), "reg_mr, not errno " + std::to_string(errno));
}

void region::fill(std::size_t offset, std::size_t n, unsigned seed) const noexcept {
  for (std::size_t i = 0; i < n; ++i) *at(offset + i) = pattern(i, seed);
}

bool region::holds(std::size_t offset, std::size_t n, unsigned seed) const noexcept {
  for (std::size_t i = 0; i < n; ++i)
    if (*at(offset + i) != pattern(i, seed)) return false;
  return true;
}

node::node() : dev(opened()), v(*dev.verbs) {
  pd = v.alloc_pd(dev.context);
  expect(pd != nullptr, "alloc_pd");
  fcntl(dev.context->async_fd, F_SETFL, O_NONBLOCK);
}

node::~node() { v.dealloc_pd(pd); }

held<ibv_cq> node::cq(int entries, ibv_comp_channel* channel) {
  held<ibv_cq> h(v.create_cq(dev.context, entries, nullptr, channel, 0), v.destroy_cq);
  expect(static_cast<bool>(h), "create_cq");
  return h;
}

held<ibv_comp_channel> node::channel() {
  held<ibv_comp_channel> h(v.create_comp_channel(dev.context), v.destroy_comp_channel);
  expect(static_cast<bool>(h), "create_comp_channel");
  return h;
}

held<ibv_srq> node::srq(std::uint32_t receives, std::uint32_t sges) {
  ibv_srq_init_attr init{};
  init.attr.max_wr = receives;
  init.attr.max_sge = sges;
  held<ibv_srq> h(v.create_srq(pd, &init), v.destroy_srq);
  expect(static_cast<bool>(h), "create_srq");
  return h;
}

held<ibv_qp> node::qp(const qp_shape& s) {
  ibv_qp_init_attr init{};
  init.send_cq = s.send_cq;
  init.recv_cq = s.recv_cq;
  init.srq = s.srq;
  init.cap = {s.sends, s.receives, s.sges, s.receive_sges != 0 ? s.receive_sges : s.sges,
              s.inline_bytes};
  init.qp_type = s.type;
  init.sq_sig_all = s.signal_all ? 1 : 0;
  held<ibv_qp> h(v.create_qp(pd, &init), v.destroy_qp);
  expect(static_cast<bool>(h), "create_qp, not errno " + std::to_string(errno));
  return h;
}

int node::to_init(ibv_qp* qp, unsigned access) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = dev.self.port;
  a.qp_access_flags = access & ~static_cast<unsigned>(IBV_ACCESS_LOCAL_WRITE);
  return v.modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int node::to_rtr(ibv_qp* qp, const party& remote, const link_shape& s) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = static_cast<ibv_mtu>(std::min(dev.self.mtu, remote.where.mtu));
  a.dest_qp_num = remote.qpn;
  a.rq_psn = 0x1234;
  a.max_dest_rd_atomic = s.reads;
  a.min_rnr_timer = s.min_rnr_timer;
  a.ah_attr = dev.path_to(remote.where);
  return v.modify_qp(qp, &a,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int node::to_rts(ibv_qp* qp, const link_shape& s) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTS;
  a.timeout = s.timeout;
  a.retry_cnt = s.retry;
  a.rnr_retry = s.rnr_retry;
  a.sq_psn = 0x1234;
  a.max_rd_atomic = s.reads;
  return v.modify_qp(qp, &a,
                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int node::to_state(ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr a{};
  a.qp_state = state;
  return v.modify_qp(qp, &a, IBV_QP_STATE);
}

void node::connect(ibv_qp* qp, const party& remote, const link_shape& s) {
  expect(to_init(qp, s.access) == 0, "RESET to INIT");
  expect(to_rtr(qp, remote, s) == 0, "INIT to RTR");
  expect(to_rts(qp, s) == 0, "RTR to RTS");
}

ibv_qp_state node::state(ibv_qp* qp) {
  ibv_qp_attr a{};
  ibv_qp_init_attr init{};
  expect(v.query_qp(qp, &a, IBV_QP_STATE, &init) == 0, "query_qp");
  return a.qp_state;
}

int node::async_event(int ms, ibv_async_event* event) {
  pollfd p{dev.context->async_fd, POLLIN, 0};
  if (poll(&p, 1, ms) <= 0) return -1;
  ibv_async_event e{};
  if (v.get_async_event(dev.context, &e) != 0) return -1;
  if (event != nullptr) *event = e;
  v.ack_async_event(&e);
  return static_cast<int>(e.event_type);
}

std::vector<ibv_wc> collect(ibv_cq* cq, std::size_t n, std::uint64_t limit_ns) {
  std::vector<ibv_wc> all;
  until(
      [&] {
        ibv_wc wc[16];
        const auto want = static_cast<int>(std::min<std::size_t>(16, n - all.size()));
        const int got = want == 0 ? 0 : ibv_poll_cq(cq, want, wc);
        expect(got >= 0, "poll_cq not to fail");
        all.insert(all.end(), wc, wc + got);
        return all.size() >= n;
      },
      limit_ns);
  return all;
}

ibv_wc one(ibv_cq* cq) {
  const auto all = collect(cq, 1);
  expect(!all.empty(), "a completion in time");
  return all.front();
}

bool silent(ibv_cq* cq, int ms) {
  return collect(cq, 1, static_cast<std::uint64_t>(ms) * 1'000'000).empty();
}

request::request(ibv_wr_opcode op, std::vector<ibv_sge> sges, std::uint64_t id, unsigned flags)
    : list(std::move(sges)) {
  wr.wr_id = id;
  wr.opcode = op;
  wr.send_flags = flags;
}

request& request::at(std::uint64_t address, std::uint32_t rkey) {
  wr.wr.rdma = {address, rkey};
  return *this;
}

request& request::atomic(std::uint64_t address, std::uint32_t rkey, std::uint64_t compare_add,
                         std::uint64_t swap) {
  wr.wr.atomic = {address, compare_add, swap, rkey};
  return *this;
}

request& request::imm(std::uint32_t value) {
  wr.imm_data = htobe32(value);
  return *this;
}

int request::post(ibv_qp* qp) {
  wr.sg_list = list.data();
  wr.num_sge = static_cast<int>(list.size());
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp, &wr, &bad);
}

int post_receive(ibv_qp* qp, std::vector<ibv_sge> list, std::uint64_t id) {
  ibv_recv_wr wr{id, nullptr, list.data(), static_cast<int>(list.size())};
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp, &wr, &bad);
}

int post_receive(ibv_srq* srq, std::vector<ibv_sge> list, std::uint64_t id) {
  ibv_recv_wr wr{id, nullptr, list.data(), static_cast<int>(list.size())};
  ibv_recv_wr* bad = nullptr;
  return ibv_post_srq_recv(srq, &wr, &bad);
}

side::side(std::unique_ptr<node> own, node* shared, const qp_shape& shape, std::size_t bytes)
    : own_(std::move(own)), n(shared != nullptr ? *shared : *own_), mem(n.memory(bytes)) {
  qp_shape s = shape;
  if (s.send_cq == nullptr) send_cq = n.cq(), s.send_cq = send_cq.get();
  if (s.recv_cq == nullptr) recv_cq = n.cq(), s.recv_cq = recv_cq.get();
  qp = n.qp(s);
}

side::side(const qp_shape& shape, std::size_t bytes)
    : side(std::make_unique<node>(), nullptr, shape, bytes) {}

side::side(node& shared, const qp_shape& shape, std::size_t bytes)
    : side(nullptr, &shared, shape, bytes) {}

duo::duo(const link_shape& link, const qp_shape& shape, std::size_t bytes)
    : a(shape, bytes), b(shape, bytes) {
  connect(link);
}

void duo::connect(const link_shape& link) {
  b.n.connect(b.qp.get(), a.reach(), link);
  a.n.connect(a.qp.get(), b.reach(), link);
}

}  // namespace penstock::conformance
