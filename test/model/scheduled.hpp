// What stands in for std::atomic, std::atomic_ref and plain data in code that the explorer runs
// (model.hpp). Each of them holds its value alone, so layouts stay. Outside of a run they are plain
// variables. number_orders rewrites sources to these, and gives each memory order and fence the
// number of its place in the text (sites.hpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

namespace penstock::model {

/// True within a run of the explorer, on one of its threads.
[[nodiscard]] bool running() noexcept;
std::uint64_t load(const void* at, unsigned bytes, std::memory_order o) noexcept;
void store(void* at, unsigned bytes, std::uint64_t v, std::memory_order o) noexcept;
std::uint64_t change(void* at, unsigned bytes,
                     const std::function<bool(std::uint64_t old, std::uint64_t& now)>& f,
                     std::memory_order ok, std::memory_order fail) noexcept;
void thread_fence(std::memory_order o) noexcept;
/// Stands in for fence_all_threads(): a full fence by every thread of this process, or of all.
bool fence_all() noexcept;
void fence_everywhere() noexcept;
/// Plain data at that address are read or written.
void plain(const void* at, bool writes) noexcept;
/// The memory holds something else from now on: other objects, or zeros of new pages.
void forget(const void* at, std::size_t bytes) noexcept;
/// Of the model's thread, from 1; 1 outside of a run.
[[nodiscard]] std::uint32_t thread_tag() noexcept;

/// A memory order that stands at that site.
constexpr std::memory_order mo(unsigned site, std::memory_order o) noexcept {
  return static_cast<std::memory_order>(static_cast<unsigned>(o) | site << 8);
}
/// A fence on all threads that stands at that site; a mutant leaves it out.
[[nodiscard]] bool left_out(unsigned site) noexcept;
template <class Fence>
auto fenced(unsigned site, Fence&& f) noexcept {
  using result = decltype(f());
  if constexpr (std::is_void_v<result>) {
    if (!left_out(site)) f();
  } else {
    return left_out(site) ? result{true} : f();
  }
}

/// The operations of std::atomic on a T that `word()` finds.
template <class T, class Self>
class operations {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  static constexpr std::memory_order seq_cst = std::memory_order_seq_cst;
  static std::uint64_t bits(T v) noexcept {
    std::uint64_t b = 0;
    std::memcpy(&b, &v, sizeof v);
    return b;
  }
  static T value(std::uint64_t b) noexcept {
    T v;
    std::memcpy(&v, &b, sizeof v);
    return v;
  }
  [[nodiscard]] T* word() const noexcept { return static_cast<const Self*>(this)->at(); }
  template <class F>
  T replace(F f, std::memory_order o) const noexcept {
    T* const w = word();
    if (!running()) {
      const T old = *w;
      *w = f(old);
      return old;
    }
    return value(change(
        w, sizeof(T),
        [&f](std::uint64_t old, std::uint64_t& now) {
          now = bits(f(value(old)));
          return true;
        },
        o, o));
  }

 public:
  static constexpr bool is_always_lock_free = true;
  using value_type = T;

  T load(std::memory_order o = seq_cst) const noexcept {
    return running() ? value(model::load(word(), sizeof(T), o)) : *word();
  }
  void store(T x, std::memory_order o = seq_cst) const noexcept {
    if (running())
      model::store(word(), sizeof(T), bits(x), o);
    else
      *word() = x;
  }
  operator T() const noexcept { return load(); }  // NOLINT: as std::atomic
  T exchange(T x, std::memory_order o = seq_cst) const noexcept {
    return replace([x](T) { return x; }, o);
  }
  template <class D>
  T fetch_add(D x, std::memory_order o = seq_cst) const noexcept {
    return replace([x](T old) { return static_cast<T>(old + x); }, o);
  }
  template <class D>
  T fetch_sub(D x, std::memory_order o = seq_cst) const noexcept {
    return replace([x](T old) { return static_cast<T>(old - x); }, o);
  }
  T fetch_or(T x, std::memory_order o = seq_cst) const noexcept {
    return replace([x](T old) { return static_cast<T>(old | x); }, o);
  }
  T fetch_and(T x, std::memory_order o = seq_cst) const noexcept {
    return replace([x](T old) { return static_cast<T>(old & x); }, o);
  }
  bool compare_exchange_strong(T& expected, T x, std::memory_order ok,
                               std::memory_order fail) const noexcept {
    T* const w = word();
    const std::uint64_t wanted = bits(expected);
    if (!running()) {
      const T old = *w;
      if (bits(old) == wanted) return *w = x, true;
      return expected = old, false;
    }
    const std::uint64_t old = change(
        w, sizeof(T),
        [&](std::uint64_t there, std::uint64_t& now) { return now = bits(x), there == wanted; }, ok,
        fail);
    if (old == wanted) return true;
    return expected = value(old), false;
  }
  bool compare_exchange_strong(T& expected, T x, std::memory_order o = seq_cst) const noexcept {
    const unsigned order = static_cast<unsigned>(o) & 0xff;
    const auto fail = order == static_cast<unsigned>(std::memory_order_acq_rel)
                          ? std::memory_order_acquire
                      : order == static_cast<unsigned>(std::memory_order_release)
                          ? std::memory_order_relaxed
                          : static_cast<std::memory_order>(order);
    return compare_exchange_strong(expected, x, o, fail);
  }
  /// Never fails without cause: a run would not be reproducible otherwise.
  template <class... Orders>
  bool compare_exchange_weak(T& expected, T x, Orders... orders) const noexcept {
    return compare_exchange_strong(expected, x, orders...);
  }
};

/// Stands in for std::atomic: every operation is one step of the schedule.
template <class T>
class scheduled : public operations<T, scheduled<T>> {
 public:
  constexpr scheduled(T v = T{}) noexcept : v_(v) {  // NOLINT: as std::atomic
    if (!std::is_constant_evaluated() && running()) forget(&v_, sizeof v_);
  }
  scheduled(const scheduled&) = delete;
  scheduled& operator=(const scheduled&) = delete;
  T operator=(T x) noexcept { return this->store(x), x; }  // NOLINT: as std::atomic
  [[nodiscard]] T* at() const noexcept { return &v_; }

 private:
  mutable T v_;
};

/// Stands in for std::atomic_ref.
template <class T>
class scheduled_ref : public operations<T, scheduled_ref<T>> {
 public:
  explicit scheduled_ref(T& v) noexcept : v_(&v) {}
  [[nodiscard]] T* at() const noexcept { return v_; }

 private:
  T* v_;
};

/// Plain data that several threads touch, one after the other: two accesses that nothing orders
/// fail the run, unless both read.
template <class T>
class var {
 public:
  constexpr var(T v = T{}) noexcept : v_(v) {  // NOLINT: as a T
    if (!std::is_constant_evaluated() && running()) forget(&v_, sizeof v_);
  }
  var(const var& o) noexcept : var(static_cast<T>(o)) {}
  operator T() const noexcept {  // NOLINT: as a T
    plain(&v_, false);
    return v_;
  }
  var& operator=(const var& o) noexcept { return *this = static_cast<T>(o); }
  var& operator=(T x) noexcept {
    plain(&v_, true);
    v_ = x;
    return *this;
  }
  var& operator+=(T x) noexcept { return *this = static_cast<T>(*this) + x; }
  T operator++() noexcept { return *this += 1; }
  T operator--() noexcept { return *this = static_cast<T>(*this) - 1; }
  T operator->() const noexcept { return *this; }

 private:
  T v_;
};

}  // namespace penstock::model
