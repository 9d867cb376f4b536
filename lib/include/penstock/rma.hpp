// Put and get of the C++ interface: one-sided operations between this process's memory and the
// segments of an endpoint's ranks. The inline functions of this header reach segments that are
// mapped here (those of the same host) without a call; the device reaches all others.
//
//   penstock::remote_memory mem(ep);                  // after ep.start()
//   mem.put(1, ep.segment_of(1).data(), bytes);       // complete at rank 1 when it returns
//   auto op = mem.get_nb(buffer, 1, there);           // explicit handle
//   …
//   op.wait();
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "penstock/penstock.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
struct transfer_op;
}  // namespace penstock::conduit::PENSTOCK_ABI

namespace penstock::PENSTOCK_ABI {

class remote_memory;

namespace detail {

struct atomic_call;

/// The part of a rank's memory that this process reaches by load and store. bytes is 0 until the
/// part is mapped, which the first access does, and is written last.
struct alignas(32) window {
  std::atomic<std::uintptr_t> base{0};  ///< in the rank's own address space
  std::atomic<std::size_t> bytes{0};
  std::atomic<std::byte*> here{nullptr};
};

/// memcpy that makes no call for the sizes of single values.
inline void copy_bytes(void* to, const void* from, std::size_t n) noexcept {
  if (n == 8)
    std::memcpy(to, from, 8);
  else if (n == 4)
    std::memcpy(to, from, 4);
  else if (n != 0)
    std::memcpy(to, from, n);
}

/// From this size on a transfer that is not waited for is left to the library, which may copy it
/// beside the program (PENSTOCK_PROGRESS_THREAD).
inline constexpr std::size_t beside_bytes = std::size_t{512} << 10;

}  // namespace detail

/// When the source of a put may be changed.
enum class source_reuse : std::uint8_t {
  on_return,      ///< when the call returns
  on_completion,  ///< when the operation is complete (GASNet's bulk); may save a copy or a wait
};

/// A handle of an operation that may still be in flight. It is move only. A handle that was moved
/// from, made by default, or waited for is complete. Any thread may wait for it, but only one at a
/// time. Its destruction waits.
class [[nodiscard]] operation {
 public:
  operation() = default;
  /// The other handle becomes complete.
  operation(operation&& o) noexcept
      : op_(std::exchange(o.op_, nullptr)),
        engine_(o.engine_),
        generation_(o.generation_),
        result_(o.result_) {}
  /// The two handles change places.
  operation& operator=(operation&& o) noexcept {
    std::swap(op_, o.op_);
    std::swap(engine_, o.engine_);
    std::swap(generation_, o.generation_);
    std::swap(result_, o.result_);
    return *this;
  }
  ~operation() {
    if (op_ != nullptr) [[unlikely]]
      finish();
  }

  /// Waits until the operation is complete, and polls meanwhile, which runs handlers. Returns ok,
  /// or why the operation failed or could not be started.
  status wait() noexcept { return op_ == nullptr ? result_ : sync(true); }
  /// Polls once. pending if the operation is still in flight, else as wait().
  status try_wait() noexcept { return op_ == nullptr ? result_ : sync(false); }
  /// True until a wait has found the operation complete.
  [[nodiscard]] bool in_flight() const noexcept { return op_ != nullptr; }

 private:
  friend class remote_memory;
  template <class T>
  friend class atomic_domain;
  explicit operation(status s) noexcept : result_(s) {}
  operation(conduit::engine& e, conduit::transfer_op& op, std::uint32_t generation,
            status s) noexcept
      : op_(&op), engine_(&e), generation_(generation), result_(s) {}
  status sync(bool wait) noexcept;
  void finish() noexcept;
  friend status wait_some(std::span<operation> ops) noexcept;

  conduit::transfer_op* op_ = nullptr;
  conduit::engine* engine_ = nullptr;
  std::uint32_t generation_ = 0;
  status result_ = status::ok;
};

/// Waits for all operations. Returns the first failure, or ok.
status wait_all(std::span<operation> ops) noexcept;
/// Waits until at least one operation that was in flight is complete; returns at once if none was.
status wait_some(std::span<operation> ops) noexcept;
/// Polls once. ok if all operations are complete, else pending.
status try_all(std::span<operation> ops) noexcept;
/// Polls once. ok if an operation that was in flight is complete now, or none was in flight; else
/// pending.
status try_some(std::span<operation> ops) noexcept;

/// The one-sided operations of an endpoint. Copies are cheap; threads may share one object or have
/// one each.
///
/// A remote address is one of the remote rank's address space, and must lie in its segment
/// (endpoint::segment_of). Local memory may lie anywhere; that of puts may be read-only. The two
/// must not overlap. Calls that wait poll, which runs handlers. No function may be called in a
/// handler unless it concerns mapped memory. The thread rules are those of endpoint. Failures are
/// returned:
///   bad_rank, out_of_segment, in_handler, shut_down   nothing was done
///   bad_arguments   the same: local memory is null; only where the memory is not mapped, or with
///                   the setting CHECKS, since a copy to mapped memory does not look
///   device_error, peer_dead                           part of the operation may have been done
class remote_memory {
 public:
  /// ep must have been started, and must live longer than this object and all operations.
  explicit remote_memory(endpoint& ep) noexcept;

  /// Blocking: the operation is complete at both ends when the call returns. Cost: to mapped memory
  /// that of a copy, about a nanosecond for 8 bytes; otherwise a round trip of the device.
  ///@{
  /// Writes src to dest at rank `to`. ok: the bytes are there, and src may be reused.
  status put(rank_id to, void* dest, std::span<const std::byte> src) noexcept {
    if (copied_there(to, dest, src)) [[likely]]
      return status::ok;
    return put_slow(to, dest, src);
  }
  /// Reads dest.size() bytes from src at rank `from`. ok: they are in dest.
  status get(std::span<std::byte> dest, rank_id from, const void* src) noexcept {
    if (copied_here(dest, from, src)) [[likely]]
      return status::ok;
    return get_slow(dest, from, src);
  }
  ///@}
  /// Blocking, for one value of up to 8 bytes.
  ///@{
  /// put() of value. ok: it is there, whole.
  template <detail::argument T>
  requires(sizeof(T) <= 8) status put_value(rank_id to, T* dest, const T& value)
  noexcept { return put(to, dest, std::as_bytes(std::span<const T, 1>(&value, 1))); }
  /// get() of one T into value.
  template <detail::argument T>
  requires(sizeof(T) <= 8) status get_value(T& value, rank_id from, const T* src)
  noexcept { return get(std::as_writable_bytes(std::span<T, 1>(&value, 1)), from, src); }
  ///@}
  /// Blocking: sets `bytes` bytes at dest to value.
  status set(rank_id to, void* dest, std::byte value, std::size_t bytes) noexcept {
    return set_nb(to, dest, value, bytes).wait();
  }

  /// With an explicit handle: the operation is complete when the handle has been waited for. src
  /// must stay unchanged as long as r says, and dest of a get untouched until then.
  ///@{
  /// Begins a put. The handle's wait() has the statuses. Cost: to mapped memory that of put(), and
  /// the handle is complete at once; but where there is a progress thread it copies 512 KB and
  /// more, beside the program, unless src may change on return.
  operation put_nb(rank_id to, void* dest, std::span<const std::byte> src,
                   source_reuse r = source_reuse::on_return) noexcept {
    if (!may_go_beside(src.size(), r) && copied_there(to, dest, src)) [[likely]]
      return {};
    return put_nb_slow(to, dest, src, r);
  }
  /// Begins a get. Statuses and cost as put_nb().
  operation get_nb(std::span<std::byte> dest, rank_id from, const void* src) noexcept {
    if (!may_go_beside(dest.size()) && copied_here(dest, from, src)) [[likely]]
      return {};
    return get_nb_slow(dest, from, src);
  }
  /// Begins to set `bytes` bytes at dest to value. Statuses and cost as put_nb().
  operation set_nb(rank_id to, void* dest, std::byte value, std::size_t bytes) noexcept;

  ///@}
  /// With an implicit handle: each thread waits for all of its own together (wait_implicit).
  ///@{
  /// Begins a put. ok: it was begun; a failure of the device comes with the wait.
  status put_nbi(rank_id to, void* dest, std::span<const std::byte> src,
                 source_reuse r = source_reuse::on_return) noexcept {
    if (!may_go_beside(src.size(), r) && copied_there(to, dest, src)) [[likely]]
      return status::ok;
    return put_nbi_slow(to, dest, src, r);
  }
  /// Begins a get; otherwise as put_nbi().
  status get_nbi(std::span<std::byte> dest, rank_id from, const void* src) noexcept {
    if (!may_go_beside(dest.size()) && copied_here(dest, from, src)) [[likely]]
      return status::ok;
    return get_nbi_slow(dest, from, src);
  }
  /// Begins to set `bytes` bytes at dest to value; otherwise as put_nbi().
  status set_nbi(rank_id to, void* dest, std::byte value, std::size_t bytes) noexcept;
  ///@}
  /// Wait for this thread's implicit puts and sets, for its gets, or for both, but not for those of
  /// an access region. ok, or the first failure.
  ///@{
  /// Waits for this thread's implicit puts and sets.
  status wait_puts() noexcept { return wait_implicit(true, false); }
  /// Waits for this thread's implicit gets.
  status wait_gets() noexcept { return wait_implicit(false, true); }
  /// Waits for both.
  status wait_implicit() noexcept { return wait_implicit(true, true); }
  ///@}
  /// Poll once. ok if they are complete, else pending.
  ///@{
  /// Of this thread's implicit puts and sets.
  status try_puts() noexcept { return try_implicit(true, false); }
  /// Of this thread's implicit gets.
  status try_gets() noexcept { return try_implicit(false, true); }
  /// Of both.
  status try_implicit() noexcept { return try_implicit(true, true); }

  ///@}
  /// Begins an access region: until end_region(), this thread's implicit operations belong to one
  /// handle. Regions do not nest; false if one is open already.
  [[nodiscard]] bool begin_region() noexcept;
  /// Ends the access region, and returns the handle of all its operations; it is complete if there
  /// were none.
  operation end_region() noexcept;

  /// Where [addr, addr+bytes) of a rank's segment lies in this process. Null if loads and stores
  /// cannot reach it, or if no operation has mapped it yet. Cost: a few loads.
  [[nodiscard]] std::byte* reach(rank_id r, const void* addr, std::size_t bytes) const noexcept {
    if (r >= size_) [[unlikely]]
      return nullptr;
    const detail::window& w = windows_[r];
    // W2 reach  acquire bytes  <- W1 (rma_setup.cpp): base and here are there
    const std::size_t all = w.bytes.load(std::memory_order_acquire);
    const std::size_t at =
        reinterpret_cast<std::uintptr_t>(addr) - w.base.load(std::memory_order_relaxed);
    if (at > all || bytes > all - at) [[unlikely]]
      return nullptr;
    return w.here.load(std::memory_order_relaxed) + at;
  }
  /// The library's own use.
  [[nodiscard]] conduit::engine& internals() const noexcept { return *engine_; }

 private:
  template <class T>
  friend class atomic_domain;
  static bool may_go_beside(std::size_t bytes,
                            source_reuse r = source_reuse::on_completion) noexcept {
    return bytes >= detail::beside_bytes && r == source_reuse::on_completion;
  }
  bool copied_there(rank_id to, void* dest, std::span<const std::byte> src) noexcept {
    std::byte* const here = reach(to, dest, src.size());
    if (here == nullptr) [[unlikely]]
      return false;
    detail::copy_bytes(here, src.data(), src.size());
    // release: these stores become visible before this thread's next store.
    std::atomic_thread_fence(std::memory_order_release);
    return true;
  }
  bool copied_here(std::span<std::byte> dest, rank_id from, const void* src) noexcept {
    const std::byte* const here = reach(from, src, dest.size());
    if (here == nullptr) [[unlikely]]
      return false;
    detail::copy_bytes(dest.data(), here, dest.size());
    std::atomic_thread_fence(std::memory_order_acquire);  // acquire: before this thread's next load
    return true;
  }
  status put_slow(rank_id to, void* dest, std::span<const std::byte> src) noexcept;
  status get_slow(std::span<std::byte> dest, rank_id from, const void* src) noexcept;
  operation put_nb_slow(rank_id to, void* dest, std::span<const std::byte> src,
                        source_reuse r) noexcept;
  operation get_nb_slow(std::span<std::byte> dest, rank_id from, const void* src) noexcept;
  status put_nbi_slow(rank_id to, void* dest, std::span<const std::byte> src,
                      source_reuse r) noexcept;
  status get_nbi_slow(std::span<std::byte> dest, rank_id from, const void* src) noexcept;
  status wait_implicit(bool puts, bool gets) noexcept;
  status try_implicit(bool puts, bool gets) noexcept;
  operation start_atomic(const detail::atomic_call& c) noexcept;
  template <class Start>
  operation start(Start&& go) noexcept;

  conduit::engine* engine_;
  detail::window* windows_;
  rank_id size_;
};

}  // namespace penstock::PENSTOCK_ABI
