// Packs many short runs into few Mediums. A put carries the bytes and says where they go; a get
// says where they are and gets them back in one reply. vis.cpp uses it.
//
//   put   bytes, one run after the other | rows                 answered when they are laid out
//   get   rows                                                  answered with the bytes
//
// A row is a number of runs of one length at one distance, so a regular array takes one row or a
// few. The rows of a peer's message are checked: they lie in this node's segment, or the job ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lib/conduit/message/draft.hpp"
#include "lib/conduit/message/outgoing.hpp"
#include "lib/conduit/peer/transfer_queue.hpp"
#include "lib/gasnet/process.hpp"
#include "lib/gasnet/reach.hpp"
#include "lib/gasnet/vis/runs.hpp"
#include "lib/gasnet/vis/vis.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::vis {

/// `count` runs of `bytes` each, from `at` on, `stride` apart.
struct row {
  std::uint64_t at;
  std::int64_t stride;
  std::uint32_t bytes, count;
};
static_assert(sizeof(row) == 24);

/// True if has(at, bytes) holds for each run of a row, which may have come from a peer: one look if
/// all lie in one part of a segment, else one a run, for there may be foreign memory between parts.
template <class Has>
[[nodiscard]] bool each_in(const row& r, Has&& has) noexcept {
  std::int64_t span = 0;
  if (__builtin_mul_overflow(r.stride, std::int64_t{r.count} - 1, &span)) return false;
  const auto far = static_cast<std::uint64_t>(span);
  if (span < 0 ? has(r.at + far, r.bytes - far) : has(r.at, r.bytes + far)) return true;
  std::uint64_t at = r.at;
  for (std::uint32_t i = 0; i < r.count; ++i, at += static_cast<std::uint64_t>(r.stride))
    if (!has(at, std::uint64_t{r.bytes})) return false;
  return true;
}

/// Runs in order, as rows.
class rows {
 public:
  static constexpr std::uint32_t most = conduit::max_eager / sizeof(row);

  /// Adds a run. False: there is no room.
  bool add(const void* at, std::size_t bytes) noexcept {
    const auto where = reinterpret_cast<std::uintptr_t>(at);
    const auto n = static_cast<std::uint32_t>(bytes);
    if (count_ != 0) {
      row& last = row_[count_ - 1];
      if (last.count == 1 && where == last.at + last.bytes) {
        last.bytes += n;
        return true;
      }
      if (last.bytes == n) {
        const auto ahead = static_cast<std::int64_t>(where - last.at);
        if (last.count == 1) last.stride = ahead;
        if (ahead == last.stride * last.count) {
          ++last.count;
          return true;
        }
      }
    }
    if (count_ == most) return false;
    row_[count_++] = {where, 0, n, 1};
    return true;
  }
  /// Adds `count` runs, `stride` apart, to the last row or as a row of their own; runs that touch
  /// each other become one.
  bool add(const void* at, std::ptrdiff_t stride, std::size_t bytes, std::size_t count) noexcept {
    if (count == 1 || stride == static_cast<std::ptrdiff_t>(bytes)) return add(at, bytes * count);
    const auto where = reinterpret_cast<std::uintptr_t>(at);
    const auto n = static_cast<std::uint32_t>(bytes), more = static_cast<std::uint32_t>(count);
    if (count_ != 0) {
      row& last = row_[count_ - 1];
      const auto ahead = static_cast<std::int64_t>(where - last.at);
      if (last.bytes == n && (last.count == 1 || last.stride == stride) &&
          ahead == stride * last.count) {
        last.stride = stride;
        last.count += more;
        return true;
      }
    }
    if (count_ == most) return false;
    row_[count_++] = {where, stride, n, more};
    return true;
  }
  void clear() noexcept { count_ = 0; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] const row* data() const noexcept { return row_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return count_ * sizeof(row); }
  /// True if all runs lie in one piece.
  [[nodiscard]] bool one_piece() const noexcept { return count_ == 1 && row_[0].count == 1; }
  [[nodiscard]] void* begin() const noexcept { return reinterpret_cast<void*>(row_[0].at); }

 private:
  std::uint32_t count_ = 0;
  row row_[most];
};

/// A run must be shorter than this to be packed.
inline constexpr std::size_t longest_packed = conduit::max_eager / 2;

/// Collects the runs of a put, where the Medium is sent from. The object is large, and lies on the
/// stack of one call.
class put_packer {
 public:
  put_packer(const char* call, gasnet_node_t to, op_counter& c) noexcept
      : call_(call), to_(to), counter_(c) {}
  put_packer(const put_packer&) = delete;
  put_packer& operator=(const put_packer&) = delete;
  ~put_packer();

  /// Puts a run by itself.
  static status directly(gasnet_node_t to, std::byte* remote, const std::byte* local,
                         std::size_t bytes, op_counter& c) noexcept;
  /// Whether that would go out without waiting.
  static status may_go(gasnet_node_t to, std::byte* remote, const std::byte*,
                       std::size_t bytes) noexcept {
    return engine_room(to, remote, bytes, true);
  }
  void add(std::byte* remote, const std::byte* local, std::size_t bytes);
  /// Adds runs from this process to the remote one.
  void add(runs r);
  /// Sends the collected runs.
  void flush();

 private:
  static constexpr std::size_t room = conduit::max_eager;
  /// Where the runs are collected.
  std::byte* data();

  const char* const call_;
  const gasnet_node_t to_;
  op_counter& counter_;
  rows where_;
  std::size_t used_ = 0;
  conduit::draft* draft_ = nullptr;
};

/// A part of a get that is in flight, with the places for its bytes. Its reply ends it.
struct awaited {
  op_counter* counter = nullptr;
  std::size_t bytes = 0;
  rows where;
};

/// Collects the runs of a get.
class get_packer {
 public:
  get_packer(const char* call, gasnet_node_t from, op_counter& c) noexcept
      : call_(call), from_(from), counter_(c) {}
  get_packer(const get_packer&) = delete;
  get_packer& operator=(const get_packer&) = delete;

  /// Gets a run by itself.
  static status directly(gasnet_node_t from, std::byte* local, const std::byte* remote,
                         std::size_t bytes, op_counter& c) noexcept;
  /// Whether that would go out without waiting.
  static status may_go(gasnet_node_t from, std::byte*, const std::byte* remote,
                       std::size_t bytes) noexcept {
    return engine_room(from, remote, bytes, false);
  }
  void add(std::byte* local, const std::byte* remote, std::size_t bytes);
  /// Adds runs from the remote process to this one.
  void add(runs r);
  void flush();

 private:
  /// Makes room for a run, and for a row on either side.
  void make_room(std::size_t bytes);

  const char* const call_;
  const gasnet_node_t from_;
  op_counter& counter_;
  rows where_;
  std::unique_ptr<awaited> here_;
};

}  // namespace penstock::gasnet::PENSTOCK_ABI::vis
