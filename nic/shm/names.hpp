// Completion statuses and events in words.
#pragma once

#include <infiniband/verbs.h>

namespace penstock::nic::shm {

const char* wc_status_str(ibv_wc_status status) noexcept;
const char* event_type_str(ibv_event_type type) noexcept;

}  // namespace penstock::nic::shm
