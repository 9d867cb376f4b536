// No memory in the calls that make objects: each of their allocations fails in turn. The call
// answers ENOMEM, throws nothing, and keeps nothing.
#include <cerrno>
#include <cstdlib>
#include <new>

#include "test/nic/rig.hpp"

namespace {

constexpr std::uint64_t none = ~std::uint64_t{0};
thread_local std::uint64_t to_failure = none;  // how many allocations of this thread succeed before

/// Calls make() with its first allocation failing, then its second, until it meets no failure;
/// answers how many failed, and the object.
template <class Make>
int fail_each(Make&& make, auto*& object) {
  for (int k = 0;; ++k) {
    bool thrown = false;
    errno = 0;
    to_failure = static_cast<std::uint64_t>(k);
    try {
      object = make();
    } catch (...) {
      thrown = true;
    }
    const bool failed = to_failure == none;
    to_failure = none;
    REQUIRE(!thrown);
    if (!failed) return k;
    REQUIRE(object == nullptr);
    REQUIRE(errno == ENOMEM);
  }
}

}  // namespace

// Both: a sanitizer's own one of the second kind would not ask the first.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  const bool fails = to_failure == 0;
  if (to_failure != none) to_failure = fails ? none : to_failure - 1;
  return fails ? nullptr : std::malloc(bytes != 0 ? bytes : 1);
}
void* operator new(std::size_t bytes) {
  void* const at = ::operator new(bytes, std::nothrow);
  if (at == nullptr) throw std::bad_alloc();
  return at;
}
void operator delete(void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }

TEST_CASE("a completion queue for which there is no memory is refused, and takes no place") {
  rig::side s;
  ibv_cq* before = s.v.create_cq(s.context, 64, nullptr, nullptr, 0);
  REQUIRE(before != nullptr);
  const std::uint32_t place = before->handle;
  REQUIRE(s.v.destroy_cq(before) == 0);
  ibv_cq* cq = nullptr;
  CHECK(fail_each([&] { return s.v.create_cq(s.context, 64, nullptr, nullptr, 0); }, cq) >= 2);
  CHECK(cq->handle == place);
  CHECK(s.v.destroy_cq(cq) == 0);
}

TEST_CASE("a shared receive queue for which there is no memory is refused, and takes no place") {
  rig::side s;
  ibv_srq_init_attr init{};
  init.attr.max_wr = 16;
  init.attr.max_sge = 1;
  ibv_srq* before = s.v.create_srq(s.pd, &init);
  REQUIRE(before != nullptr);
  const std::uint32_t place = before->handle;
  REQUIRE(s.v.destroy_srq(before) == 0);
  ibv_srq* srq = nullptr;
  CHECK(fail_each([&] { return s.v.create_srq(s.pd, &init); }, srq) >= 2);
  CHECK(srq->handle == place);
  CHECK(s.v.destroy_srq(srq) == 0);
}
