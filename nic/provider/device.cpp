// The provider's entry: libibverbs loads this library because $IBV_DRIVERS names it. The library
// registers itself for devices called shm*, and libibverbs then opens contexts through it.
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "lib/base/log.hpp"
#include "nic/provider/abi34.hpp"
#include "nic/provider/kernel.hpp"
#include "nic/provider/operations.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/direct.hpp"

namespace penstock::nic::provider {
namespace {

using exposed = shm::context::exposed;

/// Whether libibverbs put our functions where <infiniband/verbs.h> says that they are. Any
/// difference between its table and abi34.hpp would have moved them.
bool fits(const verbs_context& v, const abi34::operation_table& ours) noexcept {
  const auto same = [&](auto* function, abi34::operation o) {
    return reinterpret_cast<abi34::any_function>(function) == ours.at[o];
  };
  const ibv_context_ops& c = v.context.ops;
  return v.sz == sizeof(verbs_context) && same(c.poll_cq, abi34::poll_cq) &&
         same(c.req_notify_cq, abi34::req_notify_cq) && same(c.post_send, abi34::post_send) &&
         same(c.post_recv, abi34::post_recv) && same(c.post_srq_recv, abi34::post_srq_recv) &&
         same(c.alloc_mw, abi34::alloc_mw) && same(c.bind_mw, abi34::bind_mw) &&
         same(c.dealloc_mw, abi34::dealloc_mw) && same(v.create_qp_ex, abi34::create_qp_ex) &&
         same(v.open_xrcd, abi34::open_xrcd) && same(v.close_xrcd, abi34::close_xrcd) &&
         same(v.create_srq_ex, abi34::create_srq_ex) && same(v.get_srq_num, abi34::get_srq_num) &&
         same(v.query_device_ex, abi34::query_device_ex) && same(v.advise_mr, abi34::advise_mr);
}

void release(exposed* block) noexcept {
  abi34::verbs_uninit_context(&block->verbs);
  std::free(block);
}

/// Takes over command_fd, even when it fails.
verbs_context* alloc_context(ibv_device* device, int command_fd, void*) {
  const auto pretence = shm::pretence_of_environment();
  if (!pretence) {
    log(log_level::error, "shm0: %s", pretence.error().message().c_str());
    ::close(command_fd);
    return errno = EINVAL, nullptr;
  }
  auto c = shm::make_context(*pretence);
  if (!c) {
    const int e = errno;
    ::close(command_fd);
    return errno = e, nullptr;
  }
  // penverbs passes its environment on; "no" leaves Yama's rule as it is.
  const char* admit = std::getenv("PENVERBS_ANY_PTRACER");
  if (admit == nullptr || std::strcmp(admit, "no") != 0) shm::admit_peers();
  refuse_connection_manager();
  c->polls_datagrams = true;
  c->moves_memory = true;
  c->datagram_patience_ns = 5'000'000'000;  // for programs that were written for a quiet network
  // The requests that verbs_init_context makes of the kernel are answered, too, so its descriptor
  // must be known.
  const int async_fd = ::dup(c->events.fd());
  if (async_fd < 0) {
    const int e = errno;
    ::close(command_fd);
    return errno = e, nullptr;
  }
  if (!answer_for_the_kernel())
    log(log_level::warning, "shm0: this libibverbs cannot be given completion channels");
  remember_context(command_fd, async_fd, c.get());
  auto* offset = reinterpret_cast<verbs_context*>(offsetof(exposed, verbs));
  auto* block = static_cast<exposed*>(
      abi34::_verbs_init_and_alloc_context(device, command_fd, sizeof(exposed), offset, 0));
  if (block == nullptr) {
    forget_context(c.get());
    ::close(async_fd);
    return nullptr;
  }
  block->owner = c.get();
  block->verbs.context.async_fd = async_fd;
  block->verbs.context.num_comp_vectors = 1;
  const abi34::operation_table& ours = operations(shm::played(*c));
  abi34::verbs_set_ops(&block->verbs, &ours);
  if (!fits(block->verbs, ours)) {
    log(log_level::error, "shm0: this libibverbs is not one of private ABI 34 as known here");
    forget_context(c.get());
    release(block);
    return errno = ENOSYS, nullptr;
  }
  [[maybe_unused]] const shm::context* kept = c.release();
  return &block->verbs;
}

abi34::device* alloc_device(abi34::found_device*) {
  refuse_connection_manager();  // librdmacm lists the devices first
  auto* d = static_cast<abi34::device*>(std::calloc(1, sizeof(abi34::device)));
  if (d == nullptr) errno = ENOMEM;
  return d;
}

void uninit_device(abi34::device* d) { std::free(d); }

constexpr abi34::match matches[] = {
    {nullptr, "rdma_device:*Nshm*", 0, 0, abi34::match_by_pattern},
    {},
};

constexpr abi34::device_operations driver = {
    .name = "penstock",
    .lowest_abi = 1,
    .highest_abi = 1,
    .matches = matches,
    .static_providers = nullptr,
    .match_device = nullptr,
    .alloc_context = alloc_context,
    .import_context = nullptr,
    .alloc_device = alloc_device,
    .uninit_device = uninit_device,
};

[[gnu::constructor]] void enter() { abi34::verbs_register_driver_34(&driver); }

}  // namespace

void free_context(ibv_context* handle) {
  auto* block =
      reinterpret_cast<exposed*>(reinterpret_cast<std::byte*>(handle) -
                                 offsetof(verbs_context, context) - offsetof(exposed, verbs));
  shm::context* c = block->owner;
  shm::stop_context(*c);
  forget_context(c);
  release(block);
  // Objects that the program did not destroy point to the context; a kernel would have removed
  // them.
  if (c->live.load(std::memory_order_acquire) == 0) delete c;
}

}  // namespace penstock::nic::provider
