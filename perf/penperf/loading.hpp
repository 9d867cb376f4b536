// How the payload of a Medium or Long is made (--payload): it lies ready; it is made for each
// message in a buffer, which is then sent; or it is made in the memory from which it is sent, by
// reserve and commit. Making is a copy.
#pragma once

#include <cstdint>
#include <cstring>

#include "penstock/reserve.hpp"
#include "perf/penperf/options.hpp"
#include "perf/penperf/twin.hpp"

namespace penstock::penperf {

/// One thread's; `from` must stay valid.
class loading {
 public:
  using handler = payload_handler<std::uint64_t>;
  loading(const options& o, const payload_buffer& from)
      : how_(o.payload), from_(from), made_(from.view().size()) {}

  status medium(endpoint& ep, rank_id to, handler h, std::uint64_t i) {
    if (how_ == payload_kind::ready) [[likely]]
      return ep.request_medium(to, h, from_.view(), i);
    if (how_ == payload_kind::made) return ep.request_medium(to, h, made(), i);
    auto r = reserve_medium(ep, to, h, from_.view().size(), from_.view().size());
    return commit(r, i);
  }
  status long_to(endpoint& ep, rank_id to, handler h, void* dest, std::uint64_t i) {
    if (how_ == payload_kind::ready) [[likely]]
      return ep.request_long(to, h, from_.view(), dest, i);
    if (how_ == payload_kind::made) return ep.request_long(to, h, made(), dest, i);
    auto r = reserve_long(ep, to, h, from_.view().size(), from_.view().size(), dest);
    return commit(r, i);
  }

 private:
  std::span<const std::byte> made() {
    std::memcpy(made_.data(), from_.data(), from_.view().size());
    return made_.view();
  }
  status commit(reservation<std::uint64_t>& r, std::uint64_t i) {
    if (!r) return r.why();
    std::memcpy(r.payload().data(), from_.data(), from_.view().size());
    return r.commit(from_.view().size(), i);
  }

  payload_kind how_;
  const payload_buffer& from_;
  payload_buffer made_;
};

}  // namespace penstock::penperf
