// The devices, and the lines that say why something is refused.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lib/base/immortal.hpp"
#include "lib/base/log.hpp"
#include "nic/cm/cm.hpp"

namespace penstock::nic::cm {
namespace {

struct devices {
  std::mutex lock;
  std::vector<std::unique_ptr<device>> all;
};
devices& list() noexcept {
  static immortal<devices> d;
  return d.value;
}

bool open(device& d, ibv_device* from) noexcept {
  d.index = static_cast<unsigned>(std::strtoul(ibv_get_device_name(from) + 3, nullptr, 10));
  d.context = ibv_open_device(from);
  if (d.context == nullptr) return false;
  d.pd = ibv_alloc_pd(d.context);
  if (d.pd == nullptr || ibv_query_device(d.context, &d.limits) != 0 ||
      ibv_query_port(d.context, 1, &d.port) != 0)
    return false;
  d.by_lid = d.port.link_layer == IBV_LINK_LAYER_INFINIBAND;
  d.gid_row = !d.by_lid && d.port.gid_tbl_len > 1 ? 1 : 0;  // RoCE v2
  return ibv_query_gid(d.context, 1, d.gid_row, &d.gid) == 0;
}

/// Opens all at the first call. False with errno.
bool opened_all(devices& d) {
  if (!d.all.empty()) return true;
  ibv_device** found = ibv_get_device_list(nullptr);
  for (ibv_device** at = found; at != nullptr && *at != nullptr; ++at) {
    if (std::strncmp(ibv_get_device_name(*at), "shm", 3) != 0) continue;
    auto made = std::make_unique<device>();
    if (open(*made, *at)) {
      d.all.push_back(std::move(made));
      continue;
    }
    const int e = errno;
    if (made->pd != nullptr) ibv_dealloc_pd(made->pd);
    if (made->context != nullptr) ibv_close_device(made->context);
    errno = e;
    break;
  }
  const int e = errno;
  ibv_free_device_list(found);
  if (!d.all.empty()) return true;
  errno = found != nullptr && e != 0 ? e : ENODEV;
  refuse(errno, "no device shm0: start the program by penverbs");
  return false;
}

/// "Devices remain opened while the librdmacm is loaded" (rdma_get_devices(3)). What a program has
/// left keeps its device open, but no file. A child of fork(2) that ends leaves all to its parent.
[[gnu::destructor]] void close_devices() {
  auto& w = everything();
  if (w.maker != ::getpid()) return;  // and another thread may have held the lock at the fork
  const guard g(w.lock);
  for (const auto& [key, i] : w.all) close_socket(*i);
  if (!w.all.empty()) return;
  for (const auto& d : list().all) {
    if (d->xrcd != nullptr) ibv_close_xrcd(d->xrcd);
    ibv_dealloc_pd(d->pd);
    ibv_close_device(d->context);
  }
}

}  // namespace

std::vector<device*> open_devices() {
  auto& d = list();
  const std::lock_guard held(d.lock);
  std::vector<device*> all;
  errno = 0;
  if (opened_all(d))
    for (const auto& one : d.all) all.push_back(one.get());
  return all;
}

device* open_device(unsigned index) {
  const auto all = open_devices();
  for (device* d : all)
    if (d->index == index) return d;
  return all.empty() ? nullptr : all.front();
}

int refuse(int code, const char* format, ...) noexcept {
  char text[300];
  va_list list;
  va_start(list, format);
  std::vsnprintf(text, sizeof text, format, list);
  va_end(list);
  log(log_level::error, "librdmacm of penverbs: %s (%s)", text, std::strerror(code));
  return code;
}

}  // namespace penstock::nic::cm

using namespace penstock::nic::cm;

extern "C" {

ibv_context** rdma_get_devices(int* count) {
  ibv_context** result = nullptr;
  int n = 0;
  answer([&] {
    const auto all = open_devices();
    if (all.empty()) return errno;
    result = static_cast<ibv_context**>(std::calloc(all.size() + 1, sizeof *result));
    if (result == nullptr) return ENOMEM;
    for (const device* d : all) result[n++] = d->context;
    return 0;
  });
  if (count != nullptr) *count = n;
  return result;
}

void rdma_free_devices(ibv_context** list) { std::free(list); }
}
