// The list of devices for the user: every device of every library with its ports and GIDs, or the
// reason why it cannot be used. Set-up only.
#include <cerrno>
#include <cstring>

#include "nic/choice.hpp"

namespace penstock::nic {

std::vector<device_info> list_devices_of(std::span<const calls* const> libraries) {
  std::vector<device_info> infos;
  for (const calls* v : libraries) {
    const device_list list(*v);
    if (list.all().empty()) {
      device_info& info = infos.emplace_back();
      info.library = v->library;
      info.problem = list.failed() != 0 ? std::strerror(list.failed()) : "it knows of none here";
    }
    for (ibv_device* dev : list.all()) {
      device_info& info = infos.emplace_back();
      info.name = v->get_device_name(dev);
      info.library = v->library;
      if (const char* problem = unfit(*dev)) info.problem = problem;
      ibv_context* const context = v->open_device(dev);
      if (context == nullptr) {
        info.problem = std::string("it cannot be opened: ") + std::strerror(errno);
        continue;
      }
      if (const int e = v->query_device(context, &info.limits); e != 0)
        info.problem = std::string("its limits cannot be queried: ") + std::strerror(e);
      for (unsigned p = 1; p <= info.limits.phys_port_cnt; ++p) {
        device_info::port_info& port = info.ports.emplace_back();
        port.number = static_cast<std::uint8_t>(p);
        if (v->query_port(context, port.number, &port.attr) != 0) continue;
        for (const gid_row& r : read_gids(*v, context, port.number, port.attr.gid_tbl_len))
          port.gids.emplace_back(r.index, r.gid);
      }
      v->close_device(context);
    }
  }
  return infos;
}

std::vector<device_info> list_devices() {
  const calls* const libraries[] = {&verbs_calls(), &shm_calls(), &tcp_calls()};
  return list_devices_of(libraries);
}

}  // namespace penstock::nic
