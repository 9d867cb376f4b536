#include "nic/shm/context.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "lib/base/descriptors.hpp"
#include "lib/base/log.hpp"
#include "lib/base/page.hpp"
#include "lib/base/settings.hpp"
#include "nic/shm/counters.hpp"
#include "nic/shm/fence.hpp"
#include "nic/shm/limits.hpp"
#include "nic/shm/peer.hpp"
#include "nic/shm/qp.hpp"

namespace penstock::nic::shm {
namespace {

ibv_device& the_device() noexcept {
  // Zero padding behind it: programs peek past the public structure.
  static struct {
    ibv_device device;
    std::byte padding[1024];
  } d = [] {
    decltype(d) x{};
    x.device.node_type = IBV_NODE_CA;
    x.device.transport_type = IBV_TRANSPORT_IB;
    std::strcpy(x.device.name, "shm0");
    std::strcpy(x.device.dev_name, "shm0");
    return x;
  }();
  return d.device;
}

int port_attributes(ibv_context* c, std::uint8_t port, ibv_port_attr* attr,
                    std::size_t bytes) noexcept {
  if (const int e = refusal(of(c), verb::query_port)) return e;
  if (port != 1) return EINVAL;
  const ibv_port_attr a = shm::port_attributes(of(c));
  std::memcpy(attr, &a, bytes < sizeof a ? bytes : sizeof a);
  return 0;
}

int compat_query_port(ibv_context* c, std::uint8_t port, _compat_ibv_port_attr* attr) noexcept {
  // Older programs have a structure that ends before port_cap_flags2.
  return port_attributes(c, port, reinterpret_cast<ibv_port_attr*>(attr),
                         offsetof(ibv_port_attr, port_cap_flags2));
}

/// The contexts of this process.
struct all_contexts {
  std::mutex lock;
  std::vector<context*> list;
};
all_contexts& here() noexcept {
  static auto* a = new all_contexts;
  return *a;
}

bool has_qp(context& c, std::uint32_t qpn) noexcept {
  const std::uint32_t index = qpn & 0xffff;
  if (index >= c.memory.header().used[static_cast<int>(table::qp)].load(std::memory_order_acquire))
    return false;
  const auto& e = c.memory.entry<qp_entry>(table::qp, index);
  // relaxed: a program that connects to a QP learned its number after the QP was made
  return (e.life.load(std::memory_order_acquire) & 0xff) != 0 &&
         e.qpn.load(std::memory_order_relaxed) == qpn;
}

bool fill_random(nonce& n) noexcept {
  std::uint64_t words[2];
  if (asked("getrandom", static_cast<int>(::getrandom(words, sizeof words, 0))) != sizeof words)
    return false;
  n = {words[0], words[1]};
  return true;
}

}  // namespace

ibv_port_attr port_attributes(const context& c) noexcept {
  const bool up = c.play == nullptr || !c.play->port_is_down();
  ibv_port_attr a{};
  a.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  a.max_mtu = a.active_mtu = IBV_MTU_4096;
  a.gid_tbl_len = gid_places;
  a.max_msg_sz = max_message_bytes;
  a.pkey_tbl_len = 1;
  a.max_vl_num = 1;
  a.active_width = 2;
  a.active_speed = 32;
  a.phys_state = up ? 5 : 3;
  a.link_layer = IBV_LINK_LAYER_ETHERNET;  // addresses are GIDs
  a.flags = IBV_QPF_GRH_REQUIRED;
  return a;
}

ibv_device** get_device_list(int* count) {
  auto** list = static_cast<ibv_device**>(std::calloc(2, sizeof(ibv_device*)));
  if (list == nullptr) return nullptr;
  list[0] = &the_device();
  if (count != nullptr) *count = 1;
  return list;
}

void free_device_list(ibv_device** list) { std::free(list); }

const char* get_device_name(ibv_device* d) { return d->name; }

result<pretence> parse_pretence(std::string_view personality, std::string_view faults) {
  auto plays = parse_personality(personality);
  if (!plays) return plays.error();
  auto plan = parse_faults(faults);
  if (!plan) return plan.error();
  return pretence{*std::move(plays), *std::move(plan)};
}

result<pretence> pretence_of_environment() {
  std::vector<const char*> ours;  // tags of other subsystems are not ours
  for (char** at = environ; at != nullptr && *at != nullptr; ++at)
    if (std::string_view(*at).starts_with("PENSTOCK_SHM_")) ours.push_back(*at);
  if (ours.empty()) return pretence{};
  const auto s = read_settings({}, ours);
  if (!s) return s.error();
  return parse_pretence(s->shm_personality, s->shm_fault);
}

std::unique_ptr<context> make_context(const pretence& p) {
  auto c = std::make_unique<context>();
  c->plays = p.plays;
  if (!p.faults.text.empty()) c->play = std::make_unique<faults>(*c, p.faults);
  c->post = c->play ? played_post : post_held;
  c->attempt = c->play ? played_attempt : attempt;
  c->move = p.faults.any_order ? move_in_any_order : move_bytes;
  // QP numbers of two contexts differ as much as possible; see whose_qp().
  static std::atomic<std::uint32_t> contexts{0};
  c->first_generation = contexts.fetch_add(1, std::memory_order_relaxed) * 37 % 251;
  if (!fill_random(c->name) || !fill_random(c->proof)) return nullptr;
  c->timed_bells.store(!join_barriers(), std::memory_order_relaxed);
  int e = c->memory.open(c->name);
  if (e == 0) e = c->events.open();
  if (e == 0) e = c->pusher.start();
  if (e == 0) e = c->service.start();
  if (e != 0) {
    log(log_level::info, "shm0: cannot be opened: %s", std::strerror(e));
    return errno = e, nullptr;
  }
  const std::lock_guard guard(here().lock);
  here().list.push_back(c.get());
  return c;
}

nonce whose_qp(const nonce& named, std::uint32_t qpn) noexcept {
  const std::lock_guard guard(here().lock);
  context *first = nullptr, *other = nullptr;
  for (context* c : here().list) {
    if (c->name == named)
      first = c;
    else if (other == nullptr && has_qp(*c, qpn))
      other = c;
  }
  return first == nullptr || other == nullptr || has_qp(*first, qpn) ? named : other->name;
}

void stop_context(context& c) noexcept {
  {
    const std::lock_guard guard(here().lock);
    std::erase(here().list, &c);
  }
  c.service.stop();
  c.pusher.stop();
}

ibv_context* open_device(ibv_device* device) {
  const auto p = pretence_of_environment();
  if (p) return open_device_as(device, *p);
  log(log_level::error, "shm0: %s", p.error().message().c_str());
  return errno = EINVAL, nullptr;
}

ibv_context* open_device_as(ibv_device* device, const pretence& p) {
  if (device != &the_device()) return errno = ENODEV, nullptr;
  auto c = make_context(p);
  if (!c) return nullptr;
  c->handle.owner = c.get();
  verbs_context& v = c->handle.verbs;
  v.sz = sizeof(verbs_context);
  v.query_port = port_attributes;
  v.context.device = device;
  v.context.cmd_fd = -1;
  v.context.async_fd = c->events.fd();
  v.context.num_comp_vectors = 1;
  v.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  v.context.ops._compat_query_port = compat_query_port;
  pthread_mutex_init(&v.context.mutex, nullptr);
  fill_operations(v.context.ops, played(*c));
  return &c.release()->handle.verbs.context;
}

int close_device(ibv_context* handle) {
  context& c = of(handle);
  if (c.live.load(std::memory_order_acquire) != 0) return EBUSY;
  stop_context(c);
  pthread_mutex_destroy(&handle->mutex);
  delete &c;
  return 0;
}

int query_device(ibv_context* handle, ibv_device_attr* a) {
  if (const int e = refusal(of(handle), verb::query_device)) return e;
  const device_limits& most = of(handle).plays.limits;
  *a = {};
  std::strcpy(a->fw_ver, "1");
  std::memcpy(&a->node_guid, &of(handle).name.low, 8);
  a->sys_image_guid = a->node_guid;
  a->max_mr_size = ~std::uint64_t{0};
  a->page_size_cap = page_bytes();
  a->vendor_id = 0x70656e;  // "pen": assigned to no vendor
  a->vendor_part_id = of(handle).plays.part;
  a->hw_ver = 1;
  a->max_qp = static_cast<int>(most.qp);
  a->max_qp_wr = static_cast<int>(most.qp_wr);
  a->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID |
                        IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW |
                        IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  if (of(handle).plays.resizes) a->device_cap_flags |= IBV_DEVICE_SRQ_RESIZE;
  a->max_sge = a->max_sge_rd = a->max_srq_sge = static_cast<int>(most.sge);
  a->max_cq = static_cast<int>(most.cq);
  a->max_cqe = static_cast<int>(most.cqe);
  a->max_mr = static_cast<int>(most.mr);
  a->max_mw = a->max_mr;
  a->max_pd = 1 << 20;
  a->max_qp_rd_atom = a->max_qp_init_rd_atom = static_cast<int>(most.reads);
  a->max_res_rd_atom = static_cast<int>(most.reads) * 1024;
  a->atomic_cap = IBV_ATOMIC_GLOB;  // processor atomics: also against the program's own
  a->max_ah = 1 << 20;
  a->max_srq = static_cast<int>(most.srq);
  a->max_srq_wr = static_cast<int>(most.srq_wr);
  a->max_pkeys = 1;
  a->phys_port_cnt = 1;
  return 0;
}

int query_port(ibv_context* c, std::uint8_t port, ibv_port_attr* attr) {
  return port_attributes(c, port, attr, sizeof *attr);
}

int query_gid(ibv_context* handle, std::uint8_t port, int index, ibv_gid* gid) {
  if (port != 1 || index < 0 || index >= gid_places) return errno = EINVAL, -1;
  *gid = index == 0 ? of(handle).name.gid() : ibv_gid{};
  return 0;
}

void raise(context& c, ibv_event_type type, decltype(ibv_async_event::element) element,
           std::atomic<std::uint32_t>* delivered) {
  async_event e;
  e.event.event_type = type;
  e.event.element = element;
  e.delivered = delivered;
  c.events.push(e);
  // E1 event  store-release event_count  -> whoever compares it before get_async_event
  c.event_count.fetch_add(1, std::memory_order_release);
}

int get_async_event(ibv_context* handle, ibv_async_event* event) {
  async_event e;
  if (of(handle).events.pop(e) != 0) return -1;
  if (e.delivered != nullptr) e.delivered->fetch_add(1, std::memory_order_relaxed);
  *event = e.event;
  return 0;
}

std::uint64_t lost_for_receive(ibv_context* handle) noexcept {
  return of(handle).lost_for_receive.load(std::memory_order_relaxed);
}

std::uint64_t rnr_received(ibv_context* handle) noexcept {
  return of(handle).rnr_received.load(std::memory_order_relaxed);
}

std::uint64_t rnr_sent(ibv_context* handle) noexcept {
  return of(handle).memory.header().rnr_sent.load(std::memory_order_relaxed);
}

}  // namespace penstock::nic::shm
