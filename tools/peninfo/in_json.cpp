// See in_json.hpp.
#include "tools/peninfo/in_json.hpp"

#include <nlohmann/json.hpp>

#include "lib/base/settings_table.hpp"
#include "nic/choice.hpp"

namespace peninfo {
namespace {

using json = nlohmann::ordered_json;
using penstock::nic::device_info;

json of_device(const device_info& d) {
  json out{{"name", d.name}, {"library", d.library}};
  if (!d.problem.empty()) out["problem"] = d.problem;
  if (d.limits.max_qp == 0) return out;  // its limits could not be queried
  const ibv_device_attr& a = d.limits;
  out["limits"] = {{"queue_pairs", a.max_qp},
                   {"work_requests", a.max_qp_wr},
                   {"scatter_entries", a.max_sge},
                   {"completion_queues", a.max_cq},
                   {"completions", a.max_cqe},
                   {"shared_receive_queues", a.max_srq},
                   {"receives", a.max_srq_wr},
                   {"memory_regions", a.max_mr},
                   {"largest_region_bytes", a.max_mr_size},
                   {"reads_and_atomics", a.max_qp_rd_atom},
                   {"atomics", a.atomic_cap != IBV_ATOMIC_NONE}};
  out["ports"] = json::array();
  for (const auto& p : d.ports) {
    json gids = json::object();
    for (const auto& [index, gid] : p.gids)
      gids[std::to_string(index)] = penstock::nic::gid_text(gid);
    out["ports"].push_back({{"number", p.number},
                            {"active", p.attr.state == IBV_PORT_ACTIVE},
                            {"infiniband", p.attr.link_layer == IBV_LINK_LAYER_INFINIBAND},
                            {"mtu_bytes", 128 << static_cast<int>(p.attr.active_mtu)},
                            {"lid", p.attr.lid},
                            {"gids", gids}});
  }
  return out;
}

const char* level_name(penstock::setting_level l) {
  switch (l) {
    case penstock::setting_level::user:
      return "user";
    case penstock::setting_level::operators:
      return "operator";
    case penstock::setting_level::developer:
      return "developer";
  }
  __builtin_unreachable();
}

}  // namespace

std::string in_json(const std::vector<device_info>& devices,
                    const penstock::result<penstock::nic::device>& choice,
                    const penstock::settings& s) {
  json out{{"devices", json::array()}};
  out["libraries_without_devices"] = json::object();
  for (const auto& d : devices)
    if (d.name.empty())
      out["libraries_without_devices"][d.library] = d.problem;
    else
      out["devices"].push_back(of_device(d));
  if (choice)
    out["choice"] = {
        {"name", choice->name}, {"reason", choice->reason}, {"inline_bytes", choice->max_inline}};
  else
    out["choice"] = {{"problem", choice.error().message()}};
  const penstock::settings defaults;
  const auto rows = penstock::settings_table();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].has(penstock::of_launchers)) continue;
    out["settings"].push_back({{"name", std::string("PENSTOCK_") + rows[i].name},
                               {"value", penstock::format_setting(rows[i], s)},
                               {"default", penstock::format_setting(rows[i], defaults)},
                               {"source", i < s.sources.size() ? s.sources[i] : "default"},
                               {"level", level_name(penstock::level_of(rows[i]))},
                               {"help", rows[i].help},
                               {"allowed", penstock::allowed_values(rows[i])},
                               {"also", rows[i].aliases}});
  }
  out["files"] = s.files;
  return out.dump(2) + "\n";
}

}  // namespace peninfo
