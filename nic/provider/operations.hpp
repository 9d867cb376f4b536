// The operations of a context, in the form that libibverbs wants: adapters around nic/shm's calls.
#pragma once

#include <infiniband/verbs.h>

#include "nic/provider/layouts.hpp"
#include "nic/shm/context.hpp"

namespace penstock::nic::provider {

/// The table for verbs_set_ops of that context, as a release has it.
abi::operation_table operations(abi::release r, const shm::context& c) noexcept;

/// private_number.cpp: of the private ABI that this library is for.
extern const int private_number;

// device.cpp
extern const abi::device_operations driver;
void free_context(ibv_context*) noexcept;

/// connection_manager.cpp: makes librdmacm, if this process has it, report that there is no
/// connection manager.
void refuse_connection_manager();

/// dmabuf.cpp: regions of dma-bufs, and the calls that must know of them. `iova` is where the
/// buffer lies in this process, or a free place, at which it is mapped as long as the region lives.
ibv_mr* reg_dmabuf_mr(ibv_pd*, std::uint64_t offset, std::size_t bytes, std::uint64_t iova, int fd,
                      int access);
int dereg_mr(ibv_mr*) noexcept;
int rereg_mr(ibv_mr*, int flags, ibv_pd*, void* address, std::size_t bytes, int access) noexcept;

// completions.cpp, work_requests.cpp: the extended interfaces
ibv_cq_ex* create_cq_ex(ibv_context*, ibv_cq_init_attr_ex*);
ibv_qp* create_qp_ex(ibv_context*, ibv_qp_init_attr_ex*);

}  // namespace penstock::nic::provider
