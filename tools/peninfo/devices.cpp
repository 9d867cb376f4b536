// See devices.hpp.
#include "tools/peninfo/devices.hpp"

#include <fmt/format.h>

#include "nic/choice.hpp"

namespace peninfo {
namespace {

using penstock::nic::device_info;

const char* state_text(ibv_port_state s) {
  switch (s) {
    case IBV_PORT_ACTIVE:
      return "active";
    case IBV_PORT_DOWN:
      return "down";
    case IBV_PORT_INIT:
      return "initializing";
    case IBV_PORT_ARMED:
      return "armed";
    default:
      return "unknown";
  }
}

const char* link_text(std::uint8_t layer) {
  switch (layer) {
    case IBV_LINK_LAYER_INFINIBAND:
      return "InfiniBand";
    case IBV_LINK_LAYER_ETHERNET:
      return "Ethernet (RoCE)";
    default:
      return "unspecified";
  }
}

std::string limits_text(const ibv_device_attr& a) {
  std::string out;
  const auto row = [&out](const char* name, auto value, const char* what) {
    out += fmt::format("  {:<22} {:>14}  {}\n", name, value, what);
  };
  row("queue pairs", a.max_qp, "of all processes together");
  row("work requests", a.max_qp_wr, "outstanding on a queue");
  row("scatter entries", a.max_sge, "of a work request");
  row("completion queues", a.max_cq, "");
  row("completions", a.max_cqe, "in a completion queue");
  row("shared receive queues", a.max_srq, "");
  row("receives", a.max_srq_wr, "posted on a shared receive queue");
  row("memory regions", a.max_mr, "");
  row("largest region", fmt::format("{}", a.max_mr_size), "bytes");
  row("reads and atomics", a.max_qp_rd_atom, "in flight to a peer");
  row("atomics",
      a.atomic_cap == IBV_ATOMIC_NONE  ? "none"
      : a.atomic_cap == IBV_ATOMIC_HCA ? "device"
                                       : "global",
      "atomic towards the device's own, or towards the processor's too");
  return out;
}

std::string port_text(const device_info::port_info& p) {
  const auto mtu = [](ibv_mtu m) { return 128 << static_cast<int>(m); };
  std::string out =
      fmt::format("  port {}: {}, {}, MTU {} of {}, LID {}, messages up to {} bytes\n", p.number,
                  state_text(p.attr.state), link_text(p.attr.link_layer), mtu(p.attr.active_mtu),
                  mtu(p.attr.max_mtu), p.attr.lid, p.attr.max_msg_sz);
  for (const auto& [index, gid] : p.gids)
    out += fmt::format("    GID {:>3}  {}\n", index, penstock::nic::gid_text(gid));
  return out;
}

}  // namespace

std::string devices_text(const std::vector<device_info>& devices) {
  std::string out;
  for (const auto& d : devices) {
    if (!out.empty()) out += '\n';
    if (d.name.empty()) {
      out += fmt::format("no device  ({})\n  {}\n", d.library, d.problem);
      continue;
    }
    out += fmt::format("{}  ({})\n", d.name, d.library);
    if (!d.problem.empty()) out += fmt::format("  cannot be used: {}\n", d.problem);
    if (d.limits.max_qp == 0) continue;  // its limits could not be queried
    out += limits_text(d.limits);
    for (const auto& p : d.ports) out += port_text(p);
  }
  return out;
}

}  // namespace peninfo
