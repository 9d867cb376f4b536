#include "nic/thread_domain.hpp"

#include <cerrno>
#include <utility>

namespace penstock::nic {

thread_domain::thread_domain(device& d, ibv_pd* plain) noexcept : verbs_(d.verbs), plain_(plain) {
  why_not_ = EOPNOTSUPP;
  if (verbs_->alloc_td == nullptr) return;
  ibv_td_init_attr alone{};
  td_ = verbs_->alloc_td(d.context, &alone);
  if (td_ == nullptr) {
    why_not_ = errno;
    return;
  }
  ibv_parent_domain_init_attr around{};
  around.pd = plain;
  around.td = td_;
  parent_ = verbs_->alloc_parent_domain(d.context, &around);
  why_not_ = parent_ != nullptr ? 0 : errno;
  if (parent_ == nullptr) close();
}

thread_domain& thread_domain::operator=(thread_domain&& o) noexcept {
  std::swap(verbs_, o.verbs_);
  std::swap(plain_, o.plain_);
  std::swap(parent_, o.parent_);
  std::swap(td_, o.td_);
  std::swap(why_not_, o.why_not_);
  return *this;
}

void thread_domain::close() noexcept {
  if (parent_ != nullptr) verbs_->dealloc_pd(std::exchange(parent_, nullptr));
  if (td_ != nullptr) verbs_->dealloc_td(std::exchange(td_, nullptr));
}

}  // namespace penstock::nic
