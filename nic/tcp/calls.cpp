// tcp0 as a verbs device: its calls are those of shm0, on contexts that have a carrier.
#include <cerrno>
#include <utility>

#include "nic/choice.hpp"
#include "nic/device.hpp"
#include "nic/shm/boundary.hpp"
#include "nic/tcp/context.hpp"

namespace penstock::nic {
namespace tcp {
namespace {

ibv_device& the_device() noexcept {
  static shm::named_device tcp0("tcp0");
  return tcp0.device;
}

ibv_device** get_device_list(int* count) noexcept { return shm::list_of(the_device(), count); }

ibv_context* open_device(ibv_device* device) {
  auto c = make_context_of_environment();
  return c ? shm::expose(std::move(c), device) : nullptr;
}

}  // namespace
}  // namespace tcp

result<ibv_context*> open_tcp(ibv_device* dev, const settings& s, std::string_view secret) {
  if (dev != &tcp::the_device()) return failure{"no such device", ENODEV, ""};
  auto c = tcp::make_context(s, secret);
  if (!c) return c.error();
  return shm::expose(*std::move(c), dev);
}

const calls& tcp_calls() noexcept {
  static const calls table = [] {
    calls t = shm_calls();
    t.library = "tcp";
    shm::enter(t.get_device_list, tcp::get_device_list);
    shm::enter(t.open_device, shm::c_call<tcp::open_device>);
    return t;
  }();
  return table;
}

}  // namespace penstock::nic
