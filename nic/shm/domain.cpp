#include "nic/shm/domain.hpp"

#include <cerrno>

#include "nic/shm/context.hpp"

namespace penstock::nic::shm {

ibv_pd* alloc_pd(ibv_context* handle) {
  context& c = of(handle);
  if (const int e = refusal(c, verb::alloc_pd)) return errno = e, nullptr;
  auto* pd = new protection_domain{};
  pd->context = handle;
  pd->number = c.next_pd.fetch_add(1, std::memory_order_relaxed);
  pd->handle = pd->number;
  c.live.begin();
  return pd;
}

int dealloc_pd(ibv_pd* p) noexcept {
  protection_domain& pd = of(p);
  if (!pd.users.none()) return EBUSY;
  if (pd.base != nullptr) pd.base->users.end();
  if (pd.threads != nullptr) pd.threads->users.end();
  of(pd.context).live.end();
  delete &pd;
  return 0;
}

ibv_td* alloc_td(ibv_context* handle, ibv_td_init_attr* attr) {
  if (attr->comp_mask != 0) return errno = EINVAL, nullptr;
  auto* td = new thread_domain{};
  td->context = handle;
  of(handle).live.begin();
  return td;
}

int dealloc_td(ibv_td* t) noexcept {
  auto* td = static_cast<thread_domain*>(t);
  if (!td->users.none()) return EBUSY;
  of(td->context).live.end();
  delete td;
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* handle, ibv_parent_domain_init_attr* attr) {
  constexpr std::uint32_t known =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  const bool here = attr->pd != nullptr && attr->pd->context == handle &&
                    (attr->td == nullptr || attr->td->context == handle);
  if (!here || (attr->comp_mask & ~known) != 0) return errno = EINVAL, nullptr;
  if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0)
    return errno = EOPNOTSUPP, nullptr;
  auto* pd = new protection_domain{};
  pd->context = handle;
  pd->base = &of(attr->pd);
  pd->number = pd->base->number;
  pd->handle = pd->number;
  pd->base->users.begin();
  if (attr->td != nullptr) {
    pd->threads = static_cast<thread_domain*>(attr->td);
    pd->threads->users.begin();
  }
  of(handle).live.begin();
  return pd;
}

}  // namespace penstock::nic::shm
