// Protection domains, and the parent domains and thread domains around them. A region, a window and
// a queue are of one protection domain if their domains have the same number.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "lib/base/use_count.hpp"

namespace penstock::nic::shm {

/// A thread domain says that its objects are not used by two threads at once. Nothing follows here:
/// the device's locks are held for the pusher, too.
struct thread_domain : ibv_td {
  use_count users;  ///< parent domains
};

struct protection_domain : ibv_pd {
  std::uint32_t number = 0;
  use_count users;
  // Of a parent domain, which is its base in all but these.
  protection_domain* base = nullptr;
  thread_domain* threads = nullptr;
};
inline protection_domain& of(ibv_pd* p) noexcept { return *static_cast<protection_domain*>(p); }

ibv_pd* alloc_pd(ibv_context*);
/// Also of a parent domain. EBUSY while anything was made with it, a parent domain included.
int dealloc_pd(ibv_pd*) noexcept;

ibv_td* alloc_td(ibv_context*, ibv_td_init_attr*);
/// EBUSY while a parent domain has it.
int dealloc_td(ibv_td*) noexcept;
/// Another handle of the domain attr->pd, with a thread domain or without. EOPNOTSUPP: the program
/// wants to allocate the device's memory, which lies in a file that peers map.
ibv_pd* alloc_parent_domain(ibv_context*, ibv_parent_domain_init_attr*);

}  // namespace penstock::nic::shm
