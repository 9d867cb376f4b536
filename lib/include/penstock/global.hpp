// Typed global pointers: a rank and an address in its segment, so that programs need no casts for
// one-sided operations. Header only, over penstock/rma.hpp.
//
//   global<double> cell = global_in<double>(ep, 1, 64);   // 64 bytes into rank 1's segment
//   put(mem, cell + 3, 0.5);                              // complete at rank 1 when it returns
//   double x = 0;
//   get(mem, x, cell + 3);
//   counters.fetch_add(at.rank(), at.address(), 1, old);  // atomics: penstock/atomic.hpp
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "penstock/rma.hpp"

namespace penstock::PENSTOCK_ABI {

/// The place of a T, or of the first of several, in the segment of a rank. It is a value: it may be
/// copied, compared, and sent in a message. Made by default it is null. Arithmetic counts Ts, and
/// stays at the rank; nothing checks it before an operation does.
template <class T>
requires std::is_trivially_copyable_v<T>
class global {
 public:
  constexpr global() = default;
  /// address: in the rank's own address space (endpoint::segment_of).
  constexpr global(rank_id rank, T* address) noexcept : address_(address), rank_(rank) {}

  /// The rank whose memory it is.
  [[nodiscard]] constexpr rank_id rank() const noexcept { return rank_; }
  /// Where it lies in that rank's address space; not to be dereferenced at another rank.
  [[nodiscard]] constexpr T* address() const noexcept { return address_; }
  /// False if it is null.
  constexpr explicit operator bool() const noexcept { return address_ != nullptr; }

  /// Where loads and stores of this process reach n Ts from here; null if they do not, or if no
  /// operation has mapped the segment yet.
  [[nodiscard]] T* local(const remote_memory& mem, std::size_t n = 1) const noexcept {
    return reinterpret_cast<T*>(mem.reach(rank_, address_, n * sizeof(T)));
  }

  /// n Ts on, or back.
  ///@{
  constexpr global& operator+=(std::ptrdiff_t n) noexcept {
    address_ += n;
    return *this;
  }
  constexpr global& operator-=(std::ptrdiff_t n) noexcept { return *this += -n; }
  constexpr global operator[](std::ptrdiff_t n) const noexcept { return {rank_, address_ + n}; }
  friend constexpr global operator+(global p, std::ptrdiff_t n) noexcept { return p += n; }
  friend constexpr global operator-(global p, std::ptrdiff_t n) noexcept { return p -= n; }
  ///@}
  /// The Ts between two places at one rank.
  friend constexpr std::ptrdiff_t operator-(global a, global b) noexcept {
    return a.address_ - b.address_;
  }
  /// The same rank and address.
  friend constexpr bool operator==(global, global) noexcept = default;

 private:
  T* address_ = nullptr;
  rank_id rank_ = 0;
};

/// The T that begins `bytes` bytes into the segment of rank r. bytes is a multiple of T's
/// alignment, which segments, as whole pages, have. Null if the segment ends before the T does.
template <class T>
global<T> global_in(const endpoint& ep, rank_id r, std::size_t bytes) noexcept {
  const std::span<std::byte> all = ep.segment_of(r);
  if (bytes > all.size() || all.size() - bytes < sizeof(T)) return {};
  return {r, reinterpret_cast<T*>(all.data() + bytes)};
}

/// Blocking, as remote_memory::put and get; the same statuses.
///@{
template <class T>
status put(remote_memory& mem, global<T> to, const std::type_identity_t<T>& value) noexcept {
  return mem.put(to.rank(), to.address(), std::as_bytes(std::span<const T, 1>(&value, 1)));
}
template <class T>
status put(remote_memory& mem, global<T> to,
           std::span<const std::type_identity_t<T>> values) noexcept {
  return mem.put(to.rank(), to.address(), std::as_bytes(values));
}
template <class T>
status get(remote_memory& mem, std::type_identity_t<T>& value, global<T> from) noexcept {
  return mem.get(std::as_writable_bytes(std::span<T, 1>(&value, 1)), from.rank(), from.address());
}
template <class T>
status get(remote_memory& mem, std::span<std::type_identity_t<T>> values, global<T> from) noexcept {
  return mem.get(std::as_writable_bytes(values), from.rank(), from.address());
}
///@}
/// With a handle, as remote_memory::put_nb and get_nb.
///@{
template <class T>
operation put_nb(remote_memory& mem, global<T> to, std::span<const std::type_identity_t<T>> values,
                 source_reuse r = source_reuse::on_return) noexcept {
  return mem.put_nb(to.rank(), to.address(), std::as_bytes(values), r);
}
template <class T>
operation get_nb(remote_memory& mem, std::span<std::type_identity_t<T>> values,
                 global<T> from) noexcept {
  return mem.get_nb(std::as_writable_bytes(values), from.rank(), from.address());
}
///@}

}  // namespace penstock::PENSTOCK_ABI
