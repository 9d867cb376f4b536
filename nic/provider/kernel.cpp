#include "nic/provider/kernel.hpp"

#include <net/if.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "lib/base/immortal.hpp"
#include "nic/provider/abi34.hpp"
#include "nic/provider/redirect.hpp"
#include "nic/shm/boundary.hpp"
#include "nic/shm/limits.hpp"

namespace penstock::nic::provider {
namespace {

/// What a descriptor of ours is for.
struct role {
  shm::context* context = nullptr;
  bool command = false;                          ///< false: it delivers events
  std::shared_ptr<shm::channel_events> channel;  ///< a completion channel's
};

struct descriptors {
  std::mutex lock;
  std::map<int, role> roles;
};
descriptors& table() {
  static immortal<descriptors> d;  // much is closed at exit
  return d.value;
}

role role_of(int fd) noexcept {
  auto& d = table();
  const std::lock_guard guard(d.lock);
  const auto at = d.roles.find(fd);
  return at == d.roles.end() ? role{} : at->second;
}

/// Makes the events of a channel; the program gets their descriptor.
int make_channel(shm::context* c, std::uint32_t* fd) {
  auto events = std::make_shared<shm::channel_events>();
  if (const int e = events->open()) return e;
  *fd = static_cast<std::uint32_t>(events->fd());
  auto& d = table();
  const std::lock_guard guard(d.lock);
  d.roles[events->fd()] = {c, false, events};
  return 0;
}

ssize_t command(const role& r, const void* bytes, std::size_t n) {
  struct {
    ib_uverbs_cmd_hdr head;
    ib_uverbs_create_comp_channel body;
  } request{};
  if (n >= sizeof request) std::memcpy(&request, bytes, sizeof request);
  ib_uverbs_create_comp_channel_resp answer{};
  int e = EOPNOTSUPP;
  if (request.head.command == IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL)
    e = shm::c_call<make_channel>(r.context, &answer.fd);
  if (e != 0) return errno = e, -1;
  std::memcpy(reinterpret_cast<void*>(request.body.response), &answer, sizeof answer);
  return static_cast<ssize_t>(n);
}

const ib_uverbs_attr* attribute(const ib_uverbs_ioctl_hdr& h, std::uint16_t id) noexcept {
  for (std::uint16_t i = 0; i < h.num_attrs; ++i)
    if (h.attrs[i].attr_id == id) return &h.attrs[i];
  return nullptr;
}

/// Fills in as much of an answer as the caller has room for.
template <class T>
bool give(const ib_uverbs_attr* to, const T& value) noexcept {
  if (to == nullptr || to->data == 0) return false;
  std::memcpy(reinterpret_cast<void*>(to->data), &value,
              to->len < sizeof value ? to->len : sizeof value);
  return true;
}

ib_uverbs_gid_entry gid_entry(const shm::context& c, int row) noexcept {
  ib_uverbs_gid_entry g{};
  const ibv_gid gid = shm::gid_of(c, row);
  std::memcpy(g.gid, gid.raw, sizeof g.gid);
  g.gid_index = static_cast<std::uint32_t>(row);
  g.port_num = 1;
  g.gid_type = c.plays.has_lids ? IB_UVERBS_GID_TYPE_IB
               : row % 2 == 0   ? IB_UVERBS_GID_TYPE_ROCE_V1
                                : IB_UVERBS_GID_TYPE_ROCE_V2;
  if (!c.plays.has_lids) g.netdev_ifindex = ::if_nametoindex(shm::netdev_of(gid).c_str());
  return g;
}

int query_gids(const role& r, const ib_uverbs_ioctl_hdr& h) noexcept {
  if (h.method_id == UVERBS_METHOD_QUERY_GID_ENTRY) {
    const auto* port = attribute(h, UVERBS_ATTR_QUERY_GID_ENTRY_PORT);
    const auto* index = attribute(h, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX);
    if (port == nullptr || index == nullptr || static_cast<std::uint32_t>(port->data) != 1)
      return EINVAL;
    const auto place = static_cast<std::uint32_t>(index->data);
    if (place >= shm::gid_places) return EINVAL;
    if (place >= static_cast<std::uint32_t>(shm::gid_count(*r.context))) return ENODATA;
    return give(attribute(h, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY),
                gid_entry(*r.context, static_cast<int>(place)))
               ? 0
               : EINVAL;
  }
  const auto* entries = attribute(h, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
  if (entries == nullptr) return EINVAL;
  const auto rows = static_cast<std::uint64_t>(shm::gid_count(*r.context));
  ib_uverbs_gid_entry all[shm::gid_rows]{};
  for (std::uint64_t i = 0; i < rows; ++i) all[i] = gid_entry(*r.context, static_cast<int>(i));
  if (entries->data == 0 || entries->len < rows * sizeof all[0]) return EINVAL;
  std::memcpy(reinterpret_cast<void*>(entries->data), all, rows * sizeof all[0]);
  return give(attribute(h, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES), rows) ? 0 : EINVAL;
}

// Not noexcept: a program may cancel a thread that waits in one of these. They ask for no memory
// but by a c_call.
ssize_t write_in_place(int fd, const void* bytes, std::size_t n) {
  const role r = role_of(fd);
  return r.command ? command(r, bytes, n) : ::write(fd, bytes, n);
}

int ioctl_in_place(int fd, unsigned long what, ...) {
  va_list list;
  va_start(list, what);
  void* argument = va_arg(list, void*);
  va_end(list);
  const role r = role_of(fd);
  if (!r.command) return ::ioctl(fd, what, argument);
  int e = EPROTONOSUPPORT;  // "ioctls exist, but not this one"
  if (what == RDMA_VERBS_IOCTL) {
    const auto& h = *static_cast<const ib_uverbs_ioctl_hdr*>(argument);
    if (h.object_id == UVERBS_OBJECT_DEVICE && (h.method_id == UVERBS_METHOD_QUERY_GID_TABLE ||
                                                h.method_id == UVERBS_METHOD_QUERY_GID_ENTRY))
      e = query_gids(r, h);
  }
  return e == 0 ? 0 : (errno = e, -1);
}

ssize_t read_in_place(int fd, void* to, std::size_t n) {
  const role r = role_of(fd);
  if (r.context == nullptr || r.command) return ::read(fd, to, n);
  if (r.channel) {
    shm::completion_queue* cq = nullptr;
    if (shm::next_event(*r.channel, &cq) != 0) return -1;
    const ib_uverbs_comp_event_desc event{reinterpret_cast<std::uint64_t>(cq)};
    std::memcpy(to, &event, n < sizeof event ? n : sizeof event);
    return sizeof event;
  }
  shm::async_event got;
  if (r.context->events.pop(got) != 0) return -1;
  if (got.delivered != nullptr) got.delivered->fetch_add(1, std::memory_order_relaxed);
  ib_uverbs_async_event_desc event{};
  std::memcpy(&event.element, &got.event.element, sizeof event.element);
  event.event_type = got.event.event_type;
  std::memcpy(to, &event, n < sizeof event ? n : sizeof event);
  return sizeof event;
}

int close_in_place(int fd) {
  role r;
  {
    auto& d = table();
    const std::lock_guard guard(d.lock);
    if (const auto at = d.roles.find(fd); at != d.roles.end()) {
      r = at->second;
      d.roles.erase(at);
    }
  }
  // A channel's descriptor is closed with its events.
  return r.channel ? 0 : ::close(fd);
}

}  // namespace

bool answer_for_the_kernel() {
  static const bool done = [] {
    const replacement all[] = {
        {"write", reinterpret_cast<void*>(write_in_place)},
        {"read", reinterpret_cast<void*>(read_in_place)},
        {"ioctl", reinterpret_cast<void*>(ioctl_in_place)},
        {"close", reinterpret_cast<void*>(close_in_place)},
    };
    return redirect(reinterpret_cast<void*>(&abi::verbs_set_ops), all);
  }();
  return done;
}

void remember_context(int command_fd, int async_fd, shm::context* c) {
  auto& d = table();
  const std::lock_guard guard(d.lock);
  d.roles[command_fd] = {c, true, nullptr};
  d.roles[async_fd] = {c, false, nullptr};
}

void forget_context(const shm::context* c) noexcept {
  auto& d = table();
  const std::lock_guard guard(d.lock);
  std::erase_if(d.roles, [c](const auto& r) { return r.second.context == c && !r.second.channel; });
}

shm::channel_events* events_of(int channel_fd) noexcept {
  return role_of(channel_fd).channel.get();
}

}  // namespace penstock::nic::provider
