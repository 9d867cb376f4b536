// The operations of a context, in the form that libibverbs wants: adapters around nic/shm's calls.
#pragma once

#include <infiniband/verbs.h>

#include "nic/provider/abi34.hpp"

namespace penstock::nic::provider {

/// The table for verbs_set_ops; played: for contexts that heed faults.
const abi34::operation_table& operations(bool played) noexcept;

// device.cpp
void free_context(ibv_context*);

/// connection_manager.cpp: makes librdmacm, if this process has it, report that there is no
/// connection manager.
void refuse_connection_manager() noexcept;

// completions.cpp, work_requests.cpp: the extended interfaces
ibv_cq_ex* create_cq_ex(ibv_context*, ibv_cq_init_attr_ex*);
ibv_qp* create_qp_ex(ibv_context*, ibv_qp_init_attr_ex*);

}  // namespace penstock::nic::provider
