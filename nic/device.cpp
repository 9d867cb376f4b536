// Finding and opening devices: walks the devices of each library, takes the first that the settings
// and the rules of choice.hpp allow, and says why. Set-up only.
#include "nic/device.hpp"

#include <endian.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>

#include "lib/base/log.hpp"
#include "lib/base/settings.hpp"
#include "lib/base/shortage.hpp"
#include "nic/choice.hpp"
#include "nic/shm/direct.hpp"

namespace penstock::nic {
namespace {

/// Larger inline sends than this are slower than a gather, on every device.
constexpr std::uint32_t max_inline_tried = 16384;

const char* port_state(ibv_port_state s) noexcept {
  switch (s) {
    case IBV_PORT_DOWN:
      return "down";
    case IBV_PORT_INIT:
      return "initializing";
    case IBV_PORT_ARMED:
      return "armed";
    case IBV_PORT_ACTIVE:
      return "active";
    default:
      return "in an unknown state";
  }
}

/// The largest inline send of a small RC QP. It is found by asking for it, since no query tells it.
std::uint32_t probe_inline(const calls& v, ibv_context* context) {
  ibv_pd* const pd = v.alloc_pd(context);
  if (pd == nullptr) return 0;
  ibv_cq* const cq = v.create_cq(context, 4, nullptr, nullptr, 0);
  const auto grants = [&](std::uint32_t bytes) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {.max_send_wr = 4,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = bytes};
    init.qp_type = IBV_QPT_RC;
    ibv_qp* const qp = v.create_qp(pd, &init);
    if (qp != nullptr) v.destroy_qp(qp);
    return qp != nullptr && init.cap.max_inline_data >= bytes;
  };
  std::uint32_t good = 0;
  if (cq != nullptr) {
    std::uint32_t bad = max_inline_tried + 4;
    if (grants(max_inline_tried)) good = max_inline_tried, bad = good;
    while (bad - good > 4) {
      const std::uint32_t middle = (good + (bad - good) / 2) & ~3u;
      (grants(middle) ? good : bad) = middle;
    }
    v.destroy_cq(cq);
  }
  v.dealloc_pd(pd);
  return good;
}

ibv_mtu mtu_code(std::uint32_t bytes, ibv_mtu active) noexcept {
  std::uint32_t code = IBV_MTU_256;
  while (code < static_cast<std::uint32_t>(active) && (128u << (code + 1)) <= bytes) ++code;
  return static_cast<ibv_mtu>(code);
}

/// Finds the row of the port's table that holds the partition key; its membership bit (the highest)
/// may differ. False, with `why`, if there is none.
bool find_pkey(device& d, std::uint8_t number, const settings& s, std::string& why) {
  const auto text = [](std::uint32_t key) {
    char out[8];
    std::snprintf(out, sizeof out, "0x%04x", key & 0xffff);
    return std::string(out);
  };
  std::string seen;
  for (int i = 0; i < d.port.pkey_tbl_len && d.verbs->query_pkey != nullptr; ++i) {
    __be16 key = 0;
    if (d.verbs->query_pkey(d.context, number, i, &key) != 0) continue;
    if ((be16toh(key) & 0x7fff) == (s.pkey & 0x7fff)) {
      d.paths.pkey_index = static_cast<std::uint16_t>(i);
      return true;
    }
    if (key != 0) seen += joined({" ", text(be16toh(key))});
  }
  why = joined({"port ", std::to_string(number), " has no partition key ", text(s.pkey),
                seen.empty() ? "" : "; it has", seen});
  return false;
}

/// Fills port, self and reason for the given port; false with `why` if the port cannot be used.
/// interface: only GIDs of this network interface are used, unless it is empty.
bool use_port(device& d, std::uint8_t number, bool asked, const settings& s,
              const std::string& interface, std::string& why) {
  const std::string port = "port " + std::to_string(number);
  if (const int e = d.verbs->query_port(d.context, number, &d.port); e != 0) {
    why = joined({port, " cannot be queried: ", std::strerror(e)});
    return false;
  }
  if (d.port.state != IBV_PORT_ACTIVE) {
    why = joined({port, " is ", port_state(d.port.state)});
    return false;
  }
  const bool ethernet = d.port.link_layer == IBV_LINK_LAYER_ETHERNET;
  const bool global = d.shared_memory || ethernet || (d.port.flags & IBV_QPF_GRH_REQUIRED) != 0;
  auto rows = read_gids(*d.verbs, d.context, number, d.port.gid_tbl_len);
  if (!interface.empty())
    std::erase_if(rows, [&](const gid_row& r) {
      return !has_interface(*d.context->device, number, r.index, interface);
    });
  const gid_row* row = best_gid(rows);
  if (s.gid_index >= 0) {
    const auto it = std::ranges::find(rows, s.gid_index, &gid_row::index);
    row = it == rows.end() ? nullptr : &*it;
  }
  if (row == nullptr && (global || s.gid_index >= 0)) {
    why = port + " has no GID";
    if (s.gid_index >= 0) why += " at index " + std::to_string(s.gid_index);
    why += rows.empty() ? " (its table is empty)" : "; it has";
    for (const gid_row& r : rows)
      why += joined(
          {" ", std::to_string(r.index), " (", gid_kind_text(r.kind), " ", gid_text(r.gid), ")"});
    return false;
  }
  d.self = {};
  if (row != nullptr) {
    d.self.gid = row->gid;
    d.self.gid_index = static_cast<std::uint8_t>(row->index);
  }
  d.self.lid = d.port.lid;
  d.self.port = number;
  d.self.is_global = global ? 1 : 0;
  d.self.mtu = static_cast<std::uint8_t>(
      s.mtu <= 0 ? d.port.active_mtu
                 : mtu_code(static_cast<std::uint32_t>(s.mtu), d.port.active_mtu));
  // Shared memory belongs to no partition.
  if (s.pkey != 0 && d.pins && !find_pkey(d, number, s, why)) return false;
  d.reason += joined({", ", port, asked ? " as asked" : " is active"});
  if (d.shared_memory) {
    d.reason += ", shared memory of this host";
  } else if (!d.pins) {
    d.reason += joined({", TCP from ", gid_text(row->gid)});
  } else if (global) {
    d.reason += joined({", GID ", std::to_string(row->index), " (", gid_kind_text(row->kind), " ",
                        gid_text(row->gid), s.gid_index >= 0 ? ") as asked" : ") is the best"});
  } else {
    d.reason += joined({", InfiniBand LID ", std::to_string(d.port.lid)});
  }
  return true;
}

/// Opens one device and a port of it; the failure's `what` says why it cannot be used.
result<device> try_device(const calls& v, ibv_device* dev, std::uint32_t port, const settings& s,
                          std::string_view secret, const std::string& interface = "") {
  device d;
  d.verbs = &v;
  d.name = v.get_device_name(dev);
  if (const char* problem = unfit(*dev)) return failure{problem, 0, ""};
  d.shared_memory = &v == &shm_calls();
  d.pins = !d.shared_memory && &v != &tcp_calls();
  if (d.shared_memory && s.any_ptracer) shm::admit_peers();
  std::string pretends;
  if (d.shared_memory) {
    auto opened = open_shm(dev, s, pretends);
    if (!opened) return opened.error();
    d.context = *opened;
  } else if (&v == &tcp_calls()) {
    auto opened = open_tcp(dev, s, secret);
    if (!opened) return opened.error();
    d.context = *opened;
  } else {
    d.context = v.open_device(dev);
  }
  if (d.context == nullptr) return failure{"it cannot be opened", errno, what_to_raise(errno)};
  if (const int e = v.query_device(d.context, &d.limits); e != 0)
    return failure{"its limits cannot be queried", e, ""};
  std::string why;
  bool found = false;
  if (port > d.limits.phys_port_cnt) {
    why = joined({"it has ", std::to_string(d.limits.phys_port_cnt), " port(s), not ",
                  std::to_string(port)});
  } else if (port != 0) {
    found = use_port(d, static_cast<std::uint8_t>(port), true, s, interface, why);
  } else {
    for (unsigned p = 1; !found && p <= d.limits.phys_port_cnt; ++p) {
      std::string problem;
      found = use_port(d, static_cast<std::uint8_t>(p), false, s, interface, problem);
      if (!found) why += joined({why.empty() ? "" : ", ", problem});
    }
  }
  d.reason += pretends;
  if (!found) return failure{why.empty() ? "it has no port" : why, 0, ""};
  d.max_inline = probe_inline(v, d.context);
  d.cqe_set = s.max_cqe != 0 && s.max_cqe < static_cast<std::uint32_t>(d.limits.max_cqe);
  if (d.cqe_set) d.limits.max_cqe = static_cast<int>(s.max_cqe);
  d.paths.service_level = static_cast<std::uint8_t>(s.service_level);
  d.paths.traffic_class = static_cast<std::uint8_t>(s.traffic_class);
  d.paths.hop_limit = static_cast<std::uint8_t>(s.hop_limit);
  d.paths.flow_label = s.flow_label;
  d.paths.flow_spread = s.flow_spread;
  // There is no bus between processes that share memory. A device that lacks the feature ignores
  // the bit.
  if (s.mem_consistency == memory_ordering::relaxed && d.pins)
    d.registration_access = IBV_ACCESS_RELAXED_ORDERING;
  return d;
}

}  // namespace

device::device(device&& o) noexcept
    : verbs(std::exchange(o.verbs, nullptr)),
      context(std::exchange(o.context, nullptr)),
      name(std::move(o.name)),
      reason(std::move(o.reason)),
      limits(o.limits),
      port(o.port),
      self(o.self),
      paths(o.paths),
      cqe_set(o.cqe_set),
      max_inline(o.max_inline),
      registration_access(o.registration_access),
      shared_memory(o.shared_memory),
      pins(o.pins) {}

device& device::operator=(device&& o) noexcept {
  std::swap(verbs, o.verbs);
  std::swap(context, o.context);
  name.swap(o.name);
  reason.swap(o.reason);
  std::swap(limits, o.limits);
  std::swap(port, o.port);
  std::swap(self, o.self);
  std::swap(paths, o.paths);
  std::swap(cqe_set, o.cqe_set);
  std::swap(max_inline, o.max_inline);
  std::swap(registration_access, o.registration_access);
  std::swap(shared_memory, o.shared_memory);
  std::swap(pins, o.pins);
  return *this;
}

device::~device() {
  if (context != nullptr) verbs->close_device(context);
}

bool device::port_is_down() const noexcept {
  ibv_port_attr now{};
  return verbs->query_port(context, self.port, &now) == 0 && now.state != IBV_PORT_ACTIVE;
}

ibv_ah_attr device::path_to(const address& remote, std::uint64_t flow) const noexcept {
  ibv_ah_attr a{};
  a.sl = paths.service_level;
  a.port_num = self.port;
  a.dlid = remote.lid;
  // Between InfiniBand subnets the LID reaches only the router, which needs the GID.
  const bool other_subnet = remote.gid.global.subnet_prefix != self.gid.global.subnet_prefix;
  if (self.is_global != 0 || remote.is_global != 0 || other_subnet) {
    a.is_global = 1;
    a.grh.dgid = remote.gid;
    a.grh.sgid_index = self.gid_index;
    a.grh.hop_limit = paths.hop_limit;
    a.grh.traffic_class = paths.traffic_class;
    a.grh.flow_label = paths.flow_spread ? spread_label(paths.flow_label, flow) : paths.flow_label;
  }
  return a;
}

result<device> open_device_of(std::span<const calls* const> libraries, const settings& s,
                              std::string_view secret) {
  std::string wanted;
  std::uint32_t port = 0;
  if (!split_device_name(s.device, wanted, port))
    return failure{joined({"device \"", s.device, "\" is not NAME or NAME:PORT"}), 0, ""};
  if (s.port != 0) port = s.port;
  const bool any = wanted == "auto";
  std::string seen;   // every device that exists, and why each cannot be used
  std::string limit;  // the limit to raise so that one of them can be used
  for (const calls* v : libraries) {
    const device_list list(*v);
    if (list.failed() == ENOMEM) return failure{"a list of devices", ENOMEM, what_to_raise(ENOMEM)};
    std::vector<ibv_device*> devices(list.all().begin(), list.all().end());
    if (any) near_first(devices);
    for (ibv_device* dev : devices) {
      const std::string name = v->get_device_name(dev);
      seen += joined({seen.empty() ? "" : ", ", name});
      std::string interface;
      std::uint32_t its_port = port;
      if (!any && name != wanted) {
        const known_as known = also_known_as(*dev, wanted);
        if (!known.matches) continue;
        if (known.by_gid) interface = wanted;
        if (port == 0) its_port = known.port;
      }
      auto d = try_device(*v, dev, its_port, s, secret, interface);
      if (d) {
        const std::string_view how = !any            ? name == wanted ? " as asked" : " is "
                                     : is_near(*dev) ? " is the first usable device"
                                                     : " is the first usable device, though far";
        d->reason = joined({name, how, !any && name != wanted ? wanted : "", d->reason});
        if (any && seen != name) d->reason += joined({" (of ", seen, ")"});
        log(log_level::info, "device: %s", d->reason.c_str());
        return d;
      }
      if (!any)
        return failure{joined({"device ", s.device, " cannot be used: ", d.error().what}),
                       d.error().code, d.error().hint};
      const int code = d.error().code;
      if (!d.error().hint.empty()) limit = d.error().hint;
      seen += joined(
          {" (", d.error().what, code != 0 ? ": " : "", code != 0 ? std::strerror(code) : "", ")"});
    }
  }
  const std::string missing = any ? "no usable device" : joined({"there is no device ", wanted});
  return failure{joined({missing, "; there is: ", seen.empty() ? "none" : seen}), 0,
                 limit.empty() ? "set PENSTOCK_DEVICE to auto or one of these" : limit};
}

std::vector<settings> rails_of(const settings& s) {
  std::vector<settings> rails;
  std::string_view faults = s.shm_fault;
  for (std::size_t at = 0; at <= s.device.size();) {
    const std::size_t end = std::min(s.device.find(',', at), s.device.size());
    const std::string part = s.device.substr(at, end - at);
    at = end + 1;
    const std::string_view first = std::string_view(part).substr(0, part.find('+'));
    if (!rails.empty() && !first.empty() && first.find_first_not_of("0123456789") == first.npos) {
      rails.back().device += "," + part;  // a further port
      continue;
    }
    settings& rail = rails.emplace_back(s);
    rail.device = part;
    rail.shm_fault = faults.substr(0, faults.find('/'));
    if (faults.find('/') != faults.npos) faults.remove_prefix(faults.find('/') + 1);
  }
  return rails;
}

// "a:1,2+b" is the first of a:1, a:2 and b that can be used.
result<device> open_device(const settings& all, std::string_view secret) {
  const settings s = rails_of(all).front();
  static const std::array libraries = {&verbs_calls(), &shm_calls(), &tcp_calls()};
  // tcp0 is taken by its name alone: where shm0 cannot be opened, the reason is to be told.
  const auto open = [secret](const settings& one) {
    const bool any = one.device.substr(0, one.device.find(':')) == "auto";
    return open_device_of(std::span(libraries).first(any ? 2 : 3), one, secret);
  };
  if (s.device.find_first_of("+,") == s.device.npos) return open(s);
  std::string name, seen;
  for (std::size_t at = 0; at <= s.device.size();) {
    const std::size_t end = std::min(s.device.find_first_of("+,", at), s.device.size());
    std::string part = s.device.substr(at, end - at);
    if (at != 0 && s.device[at - 1] == ',')
      part = joined({name, ":", part});
    else
      name = part.substr(0, part.rfind(':'));
    settings one = s;
    one.device = part;
    auto d = open(one);
    if (d) return d;
    seen += joined({seen.empty() ? "" : "; ", d.error().what});
    at = end + 1;
  }
  return failure{seen, 0, "set PENSTOCK_DEVICE to auto or a device that is there"};
}

}  // namespace penstock::nic
