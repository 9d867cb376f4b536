// The provider's entry: libibverbs loads this library because $IBV_DRIVERS names it. The library
// registers itself for devices called shm* and tcp*, and libibverbs then opens contexts through it.
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "lib/base/descriptors.hpp"
#include "lib/base/log.hpp"
#include "nic/provider/kernel.hpp"
#include "nic/provider/layouts.hpp"
#include "nic/provider/operations.hpp"
#include "nic/shm/boundary.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/direct.hpp"
#include "nic/shm/page_guard.hpp"
#include "nic/tcp/context.hpp"

namespace penstock::nic::provider {
namespace {

using exposed = shm::context::exposed;

/// What lies behind the functions of a verbs_context: its length and the ibv_context.
constexpr std::size_t tail = sizeof(verbs_context) - offsetof(verbs_context, sz);

static_assert(abi::longest_context <= sizeof(verbs_context) + sizeof(exposed::later_functions));

/// A block for libibverbs to fill: room, its verbs_context, and spare bytes for a release whose
/// context is longer than any that is known. A release that knows more functions has them in front,
/// so its verbs_context and ours end together; ours, with the owner before it, begins elsewhere.
constexpr std::size_t room = sizeof(exposed), spare = 512;

/// Ours, of a context of libibverbs's that has this length.
exposed* ours_of(verbs_context* theirs, std::size_t bytes) noexcept {
  return reinterpret_cast<exposed*>(reinterpret_cast<std::byte*>(theirs) + bytes - sizeof(exposed));
}
verbs_context* theirs_of(exposed* ours) noexcept {
  return reinterpret_cast<verbs_context*>(reinterpret_cast<std::byte*>(ours) + sizeof(exposed) -
                                          ours->verbs.sz);
}

/// The layout of this libibverbs: that whose length it has written where this length ends.
const abi::layout* layout_of(const verbs_context* theirs) noexcept {
  for (const abi::layout& l : abi::layouts) {
    std::size_t written = 0;
    std::memcpy(&written, reinterpret_cast<const std::byte*>(theirs) + l.context_bytes - tail,
                sizeof written);
    if (l.number == private_number && written == l.context_bytes) return &l;
  }
  return nullptr;
}

/// Whether libibverbs put our functions where <infiniband/verbs.h> says that they are. Any
/// difference between its table and layouts.hpp would have moved them. The operations that are not
/// seen in a context (create_cq_ex, free_context, query_port) are in the table between two others
/// that are.
bool fits(const verbs_context& v, const abi::operation_table& table, abi::release r) noexcept {
  const auto same = [&](auto* function, abi::operation o) {
    return reinterpret_cast<abi::any_function>(function) == table.at[abi::place(o, r)];
  };
  const ibv_context_ops& c = v.context.ops;
  const bool data = same(c.poll_cq, abi::poll_cq) && same(c.req_notify_cq, abi::req_notify_cq) &&
                    same(c.post_send, abi::post_send) && same(c.post_recv, abi::post_recv) &&
                    same(c.post_srq_recv, abi::post_srq_recv) && same(c.alloc_mw, abi::alloc_mw) &&
                    same(c.bind_mw, abi::bind_mw) && same(c.dealloc_mw, abi::dealloc_mw);
  const bool extended =
      same(v.create_qp_ex, abi::create_qp_ex) && same(v.open_xrcd, abi::open_xrcd) &&
      same(v.close_xrcd, abi::close_xrcd) && same(v.create_srq_ex, abi::create_srq_ex) &&
      same(v.get_srq_num, abi::get_srq_num) && same(v.query_device_ex, abi::query_device_ex) &&
      same(v.advise_mr, abi::advise_mr);
  const bool classic =
      same(c._compat_alloc_pd, abi::alloc_pd) && same(c._compat_dealloc_pd, abi::dealloc_pd) &&
      same(c._compat_reg_mr, abi::reg_mr) && same(c._compat_rereg_mr, abi::rereg_mr) &&
      same(c._compat_dereg_mr, abi::dereg_mr) && same(c._compat_create_cq, abi::create_cq) &&
      same(c._compat_resize_cq, abi::resize_cq) && same(c._compat_destroy_cq, abi::destroy_cq) &&
      same(c._compat_create_srq, abi::create_srq) && same(c._compat_modify_srq, abi::modify_srq) &&
      same(c._compat_query_srq, abi::query_srq) && same(c._compat_destroy_srq, abi::destroy_srq) &&
      same(c._compat_create_qp, abi::create_qp) && same(c._compat_query_qp, abi::query_qp) &&
      same(c._compat_modify_qp, abi::modify_qp) && same(c._compat_destroy_qp, abi::destroy_qp) &&
      same(c._compat_create_ah, abi::create_ah) && same(c._compat_destroy_ah, abi::destroy_ah);
  return data && extended && classic;
}

/// Gives the context our functions, if this libibverbs is as we know it; else null.
exposed* install(verbs_context* theirs, const shm::context& c) noexcept {
  const abi::layout* l = layout_of(theirs);
  if (l == nullptr) return nullptr;
  const abi::operation_table table = operations(l->since, c);
  abi::verbs_set_ops(theirs, &table);
  exposed* ours = ours_of(theirs, l->context_bytes);
  return fits(ours->verbs, table, l->since) ? ours : nullptr;
}

void release(verbs_context* theirs) noexcept {
  abi::verbs_uninit_context(theirs);
  std::free(reinterpret_cast<std::byte*>(theirs) - room);
}

/// The device's number, of its name shm<number>.
unsigned number_of(const char* name) noexcept {
  const auto n = static_cast<unsigned>(std::strtoul(name + std::strlen("shm"), nullptr, 10));
  return n < shm::most_devices ? n : 0;
}

/// Where processes of several network namespaces meet, if the environment names a folder. 0 or an
/// errno.
int join_fabric() noexcept {
  static const int e = [] {
    const char* folder = std::getenv("PENVERBS_FABRIC");
    if (folder == nullptr || *folder == '\0') return 0;
    const int code = shm::use_fabric(folder);
    if (code != 0)
      log(log_level::error,
          "shm0: PENVERBS_FABRIC=%s: %s; name a folder that the user may write to", folder,
          std::strerror(code));
    return code;
  }();
  return e;
}

/// Null with errno; a line says why.
std::unique_ptr<shm::context> make_shm_context(unsigned number) {
  auto pretence = shm::pretence_of_environment();
  if (!pretence) {
    log(log_level::error, "shm0: %s", pretence.error().message().c_str());
    return errno = EINVAL, nullptr;
  }
  if (const int e = join_fabric()) return errno = e, nullptr;
  pretence->device = &shm::device_identity(number);
  const char* told = std::getenv("PENVERBS_DEVICES");
  if (const auto all = shm::parse_devices(told != nullptr ? told : ""); all && number < all->size())
    pretence->rate = (*all)[number].rate;
  return shm::make_context(*pretence);
}

/// A context that is being opened. If it is not, all is undone, and errno stays.
struct opening {
  int command_fd;  ///< taken over, even then
  std::unique_ptr<shm::context> c = {};
  int async_fd = -1;

  explicit opening(int fd) noexcept : command_fd(fd) {}
  ~opening() {
    const int e = errno;
    if (c) forget_context(c.get());
    if (async_fd >= 0) ::close(async_fd);
    if (command_fd >= 0) ::close(command_fd);
    c.reset();
    errno = e;
  }
  opening(const opening&) = delete;
  opening& operator=(const opening&) = delete;
};

verbs_context* alloc_context(ibv_device* device, int command_fd, void*) {
  opening o(command_fd);
  o.c = std::strncmp(device->name, "tcp", 3) == 0 ? tcp::make_context_of_environment()
                                                  : make_shm_context(number_of(device->name));
  if (!o.c) return nullptr;
  shm::context& c = *o.c;
  // penverbs passes its environment on; "no" leaves Yama's rule as it is.
  const char* admit = std::getenv("PENVERBS_ANY_PTRACER");
  if (admit == nullptr || std::strcmp(admit, "no") != 0) shm::admit_peers();
  refuse_connection_manager();
  shm::install_page_guard();
  c.polls_datagrams.store(true, std::memory_order_relaxed);
  if (!c.carrier) c.moves_memory.store(shm::moved_memory::make_file(), std::memory_order_relaxed);
  c.datagram_patience_ns = 5'000'000'000;  // for programs that were written for a quiet network
  c.watched = shm::observer::of_environment(c);
  if (!c.watched && errno != 0) {
    const int e = errno;
    log(log_level::error, "shm0: the file of penverbs --stats or --trace: %s", std::strerror(e));
    return errno = e, nullptr;
  }
  // The requests that verbs_init_context makes of the kernel are answered, too, so its descriptor
  // must be known.
  o.async_fd = above_stdio(::dup(c.events.fd()));
  if (o.async_fd < 0) return nullptr;
  if (!answer_for_the_kernel())
    log(log_level::warning, "shm0: this libibverbs cannot be given completion channels");
  remember_context(command_fd, o.async_fd, &c);
  o.command_fd = -1;  // libibverbs's, even when it fails
  auto* block = static_cast<std::byte*>(
      abi::_verbs_init_and_alloc_context(device, command_fd, room + abi::longest_context + spare,
                                         reinterpret_cast<verbs_context*>(room), 0));
  if (block == nullptr) return nullptr;
  auto* theirs = reinterpret_cast<verbs_context*>(block + room);
  exposed* ours = install(theirs, c);
  if (ours == nullptr) {
    log(log_level::error, "shm0: this libibverbs is not one of private ABI %d as known here",
        private_number);
    release(theirs);
    return errno = ENOSYS, nullptr;
  }
  ours->verbs.context.async_fd = std::exchange(o.async_fd, -1);
  ours->verbs.context.num_comp_vectors = 1;
  ours->owner = o.c.release();
  return theirs;
}

abi::device* alloc_device(abi::found_device*) {
  refuse_connection_manager();  // librdmacm lists the devices first
  auto* d = static_cast<abi::device*>(std::calloc(1, sizeof(abi::device)));
  if (d == nullptr) errno = ENOMEM;
  return d;
}

void uninit_device(abi::device* d) noexcept { std::free(d); }

constexpr abi::match matches[] = {
    {nullptr, "rdma_device:*Nshm*", 0, 0, abi::match_by_pattern},
    {nullptr, "rdma_device:*Ntcp*", 0, 0, abi::match_by_pattern},
    {},
};

}  // namespace

constexpr abi::device_operations driver = {
    .name = "penstock",
    .lowest_abi = 1,
    .highest_abi = 1,
    .matches = matches,
    .static_providers = nullptr,
    .match_device = nullptr,
    .alloc_context = shm::c_call<alloc_context>,
    .import_context = nullptr,
    .alloc_device = shm::c_call<alloc_device>,
    .uninit_device = uninit_device,
};

void free_context(ibv_context* handle) noexcept {
  auto* ours =
      reinterpret_cast<exposed*>(reinterpret_cast<std::byte*>(handle) -
                                 offsetof(verbs_context, context) - offsetof(exposed, verbs));
  shm::context* c = ours->owner;
  shm::stop_context(*c);
  forget_context(c);
  release(theirs_of(ours));
  // Objects that the program did not destroy point to the context; a kernel would have removed
  // them.
  if (c->live.none()) delete c;
}

}  // namespace penstock::nic::provider
