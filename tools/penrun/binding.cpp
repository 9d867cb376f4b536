// See binding.hpp.
#include "tools/penrun/binding.hpp"

#include <hwloc.h>

#include <cerrno>

namespace penrun {

struct binding::parts {
  hwloc_topology_t topology = nullptr;
  hwloc_obj_type_t type = HWLOC_OBJ_CORE;
  std::uint32_t count = 0;
  ~parts() {
    if (topology != nullptr) hwloc_topology_destroy(topology);
  }
};

binding::binding() = default;
binding::~binding() = default;

penstock::result<void> binding::prepare(const std::string& to) {
  if (to.empty() || to == "none") return {};
  parts_ = std::make_unique<parts>();
  parts& p = *parts_;
  p.type = to == "hwthread" ? HWLOC_OBJ_PU
           : to == "numa"   ? HWLOC_OBJ_NUMANODE
           : to == "socket" ? HWLOC_OBJ_PACKAGE
                            : HWLOC_OBJ_CORE;
  // On a machine that taskset or a container divides, only this part counts.
  if (hwloc_topology_init(&p.topology) != 0 ||
      hwloc_topology_set_flags(p.topology, HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING |
                                               HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM) != 0 ||
      hwloc_topology_load(p.topology) != 0)
    return penstock::failure{"hwloc cannot tell the processors of this host", errno,
                             "--bind-to none"};
  int n = hwloc_get_nbobjs_by_type(p.topology, p.type);
  if (n <= 0) {  // some virtual machines hide what stands between a socket and a thread
    p.type = HWLOC_OBJ_PU;
    n = hwloc_get_nbobjs_by_type(p.topology, p.type);
  }
  p.count = n > 0 ? static_cast<std::uint32_t>(n) : 0;
  return {};
}

void binding::bind(std::uint32_t i) const {
  if (parts_ == nullptr || parts_->count == 0) return;
  const hwloc_obj_t to = hwloc_get_obj_by_type(parts_->topology, parts_->type, i % parts_->count);
  if (to != nullptr) hwloc_set_cpubind(parts_->topology, to->cpuset, HWLOC_CPUBIND_PROCESS);
}

}  // namespace penrun
