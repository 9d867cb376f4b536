#include "nic/shm/context.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "lib/base/descriptors.hpp"
#include "lib/base/log.hpp"
#include "lib/base/no_memory.hpp"
#include "lib/base/page.hpp"
#include "lib/base/settings.hpp"
#include "lib/base/shortage.hpp"
#include "nic/shm/counters.hpp"
#include "nic/shm/fence.hpp"
#include "nic/shm/limits.hpp"
#include "nic/shm/peer.hpp"
#include "nic/shm/qp.hpp"

namespace penstock::nic::shm {
namespace {

ibv_device& the_device() noexcept {
  static named_device shm0("shm0");
  return shm0.device;
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

bool fill_random(nonce& n) noexcept {
  std::uint64_t words[2];
  if (asked("getrandom", static_cast<int>(::getrandom(words, sizeof words, 0))) != sizeof words)
    return false;
  n = {words[0], words[1]};
  return true;
}

/// Binds the name by which peers find the context: its random one, or one of those of its device
/// that is not in use. The search begins anywhere, so that a name is not soon used again.
int take_name(context& c, const identity* device) {
  c.device = device;
  if (c.by_block()) c.plays.limits.qp = std::min(c.plays.limits.qp, (1u << own_bits) - first_qp);
  if (c.carrier) return c.carrier->open(c);
  if (device == nullptr) return c.service.bind();
  const std::uint64_t first = c.name.low;
  for (std::uint32_t i = 0; i < most_contexts; ++i) {
    c.block = static_cast<std::uint32_t>((first + i) % most_contexts);
    c.name = context_name(device->seed, c.block << own_bits);
    const int e = c.service.bind();
    if (e != EADDRINUSE) return e;
  }
  log(log_level::error, "shm%u: all %u contexts of the device are open", device->index,
      most_contexts);
  return EADDRINUSE;
}

}  // namespace

ibv_port_attr port_attributes(const context& c) noexcept {
  const bool lids = c.device != nullptr && c.plays.has_lids;
  const bool up = c.play == nullptr || !c.play->port_is_down();
  ibv_port_attr a{};
  a.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  a.max_mtu = a.active_mtu = IBV_MTU_4096;
  a.gid_tbl_len = gid_places;
  a.max_msg_sz = max_message_bytes;
  a.pkey_tbl_len = 1;
  a.max_vl_num = 1;
  a.active_width = c.rate != nullptr ? c.rate->width : 2;
  a.active_speed = c.rate != nullptr ? c.rate->speed : 32;
  a.phys_state = up ? 5 : 3;
  a.link_layer = lids ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
  if (lids)
    a.lid = a.sm_lid = c.device->lid;
  else
    a.flags = IBV_QPF_GRH_REQUIRED;  // addresses are GIDs
  return a;
}

named_device::named_device(const char* name) noexcept {
  device.node_type = IBV_NODE_CA;
  device.transport_type = IBV_TRANSPORT_IB;
  std::strcpy(device.name, name);
  std::strcpy(device.dev_name, name);
}

ibv_device** list_of(ibv_device& device, int* count) noexcept {
  auto** list = static_cast<ibv_device**>(std::calloc(2, sizeof(ibv_device*)));
  if (list == nullptr) return nullptr;
  list[0] = &device;
  if (count != nullptr) *count = 1;
  return list;
}

ibv_device** get_device_list(int* count) noexcept { return list_of(the_device(), count); }

void free_device_list(ibv_device** list) noexcept { std::free(list); }

const char* get_device_name(ibv_device* d) noexcept { return d->name; }

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
  const auto s = read_settings({}, ours, "");
  if (!s) return s.error();
  // Of several rails' faults (nic::rails_of) those of the first.
  return parse_pretence(s->shm_personality, s->shm_fault.substr(0, s->shm_fault.find('/')));
}

std::unique_ptr<context> make_context(const pretence& p, std::unique_ptr<carrier> carrier) {
  end_by_a_line_without_memory();
  const doing now{"opening shm0"};
  auto c = std::make_unique<context>();
  c->carrier = std::move(carrier);
  c->plays = p.plays;
  c->rate = p.rate;
  if (!p.faults.text.empty()) c->play = std::make_unique<faults>(*c, p.faults);
  c->post = c->play ? played_post : post_held;
  c->attempt = c->play ? played_attempt : attempt;
  c->move = p.faults.any_order ? move_in_any_order : move_bytes;
  if (!fill_random(c->name) || !fill_random(c->proof)) return nullptr;
  if (c->carrier) {
    c->post = carried_post;
    c->attempt = carried_attempt;
    c->polls_datagrams.store(true, std::memory_order_relaxed);  // a poll looks at the carrier
  }
  const bool barriers = join_barriers();
  c->timed_bells.store(!barriers && !c->carrier, std::memory_order_relaxed);
  int e = take_name(*c, p.device);
  if (e == 0) e = c->memory.open(c->name);
  if (e == 0) e = c->events.open();
  if (e == 0) e = c->pusher.start();
  if (e == 0 && !c->carrier) e = c->service.start();
  if (e != 0) {
    log(log_level::info, "shm0: cannot be opened: %s", std::strerror(e));
    return errno = e, nullptr;
  }
  return c;
}

int resolve(const context& c, const ibv_ah_attr& a, nonce& to) {
  const auto here = [&](auto has) {
    for (unsigned i = 0; i < most_devices; ++i)
      if (const identity& d = device_identity(i); has(d)) return to = d.seed, true;
    return false;
  };
  const bool lids = c.device != nullptr && c.plays.has_lids;
  if (a.port_num != 1 || (a.is_global == 0 && !lids)) return EINVAL;
  if (a.is_global == 0 && here([&](const identity& d) { return d.lid == a.dlid; })) return 0;
  if (a.is_global == 0) {
    log(log_level::warning, "shm0: no device here has LID 0x%x", a.dlid);
    return EHOSTUNREACH;
  }
  if (a.grh.sgid_index >= gid_count(c)) return EINVAL;
  to = nonce::of(a.grh.dgid);
  if (c.device == nullptr || here([&](const identity& d) { return d.has(a.grh.dgid); })) return 0;
  log(log_level::warning,
      "shm0: no device here has GID %s: it is another host's or network namespace's "
      "(PENVERBS_FABRIC "
      "joins the latter)",
      gid_text(a.grh.dgid).c_str());
  return EHOSTUNREACH;
}

void stop_context(context& c) noexcept {
  c.service.stop();
  c.pusher.stop();
  if (c.carrier) c.carrier->close();
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
  return c ? expose(std::move(c), device) : nullptr;
}

ibv_context* expose(std::unique_ptr<context> c, ibv_device* device) {
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
  fill_operations(v.context.ops, *c);
  return &c.release()->handle.verbs.context;
}

int close_device(ibv_context* handle) noexcept {
  context& c = of(handle);
  if (!c.live.none()) return EBUSY;
  stop_context(c);
  pthread_mutex_destroy(&handle->mutex);
  delete &c;
  return 0;
}

int query_device(ibv_context* handle, ibv_device_attr* a) noexcept {
  if (const int e = refusal(of(handle), verb::query_device)) return e;
  const device_limits& most = of(handle).plays.limits;
  *a = {};
  std::strcpy(a->fw_ver, "1");
  const context& c = of(handle);
  a->node_guid = c.device != nullptr ? c.device->guid() : c.name.low;
  a->sys_image_guid = a->node_guid;
  a->max_mr_size = ~std::uint64_t{0};
  a->page_size_cap = page_bytes();
  a->vendor_id = 0x70656e;  // "pen": assigned to no vendor
  a->vendor_part_id = of(handle).plays.part;
  a->hw_ver = 1;
  a->max_qp = static_cast<int>(most.qp);
  a->max_qp_wr = static_cast<int>(most.qp_wr);
  a->device_cap_flags =
      IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_CURR_QP_STATE_MOD;
  if (!c.carrier)
    a->device_cap_flags |= IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  if (of(handle).plays.resizes) a->device_cap_flags |= IBV_DEVICE_SRQ_RESIZE;
  a->max_sge = a->max_sge_rd = a->max_srq_sge = static_cast<int>(most.sge);
  a->max_cq = static_cast<int>(most.cq);
  a->max_cqe = static_cast<int>(most.cqe);
  a->max_mr = static_cast<int>(most.mr);
  a->max_mw = c.carrier ? 0 : a->max_mr;
  a->max_pd = 1 << 20;
  a->max_qp_rd_atom = a->max_qp_init_rd_atom = static_cast<int>(most.reads);
  a->max_res_rd_atom = static_cast<int>(most.reads) * 1024;
  // Processor atomics: also against the program's own. Some programs want an adapter's.
  a->atomic_cap = c.plays.adapter_atomics ? IBV_ATOMIC_HCA : IBV_ATOMIC_GLOB;
  a->max_ah = 1 << 20;
  a->max_srq = static_cast<int>(most.srq);
  a->max_srq_wr = static_cast<int>(most.srq_wr);
  a->max_pkeys = 1;
  a->phys_port_cnt = 1;
  return 0;
}

int query_port(ibv_context* c, std::uint8_t port, ibv_port_attr* attr) noexcept {
  return port_attributes(c, port, attr, sizeof *attr);
}

int query_gid(ibv_context* handle, std::uint8_t port, int index, ibv_gid* gid) noexcept {
  if (port != 1 || index < 0 || index >= gid_places) return errno = EINVAL, -1;
  const context& c = of(handle);
  *gid = index < gid_count(c) ? gid_of(c, index) : ibv_gid{};
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

void give_up(context& c, int code) noexcept {
  if (c.given_up.exchange(true, std::memory_order_relaxed)) return;
  const char* const call = refused_call(code);
  const failure why{std::string(c.carrier != nullptr ? "tcp0: " : "shm0: ") +
                        (call != nullptr ? call : "a system call"),
                    code, what_to_raise(code)};
  log(log_level::error, "%s", why.message().c_str());
  raise(c, IBV_EVENT_DEVICE_FATAL, {}, nullptr);
}

int get_async_event(ibv_context* handle, ibv_async_event* event) noexcept {
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
