#include "lib/conduit/peer/near_device.hpp"

#include <cerrno>
#include <utility>

#include "lib/base/settings.hpp"
#include "lib/base/shortage.hpp"
#include "lib/conduit/peer/core.hpp"
#include "nic/registrar.hpp"
#include "nic/shm/direct.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

settings shm0_beside(settings s) {
  const settings defaults;
  s.device = "shm0";
  s.port = defaults.port;
  s.gid_index = defaults.gid_index;
  s.mtu = defaults.mtu;
  return s;
}

result<std::unique_ptr<near_device>> near_device::open(const settings& s, bool with_channel) {
  auto d = nic::open_device(shm0_beside(s));
  if (!d) return d.error();
  auto n = std::make_unique<near_device>();
  n->device = std::move(*d);
  n->events = &nic::shm::event_count(n->device.context);
  nic::shm::peers_may_be_silent(n->device.context);
  n->pd = n->device.verbs->alloc_pd(n->device.context);
  if (n->pd == nullptr) return failure{"ibv_alloc_pd on shm0", errno, what_to_raise(errno)};
  if (with_channel) n->channel = n->device.verbs->create_comp_channel(n->device.context);
  if (with_channel && n->channel == nullptr)
    return failure{"ibv_create_comp_channel on shm0", errno, what_to_raise(errno)};
  if (!never_waits(n->device.context->async_fd) || (with_channel && !never_waits(n->channel->fd)))
    return failure{"fcntl on the events of shm0", errno, ""};
  return n;
}

// declare_shared() may be repeated: it has been called before where the engine's device is shm0,
// too.
result<void> near_device::show(const memreg::segment& s) {
  nic::shm::declare_shared(s.base(), s.capacity(), s.fd(), 0);
  auto r = nic::register_memory(device, pd, s.base(), s.capacity(), memreg::access::all);
  if (!r) return r.error();
  segment = s.base();
  registration = r->mr;
  return {};
}

near_device::~near_device() {
  nic::deregister_memory(device, registration);
  if (segment != nullptr) nic::shm::forget_shared(segment);
  if (channel != nullptr) device.verbs->destroy_comp_channel(channel);
  if (pd != nullptr) device.verbs->dealloc_pd(pd);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
