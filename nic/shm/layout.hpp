// What a context shows to its peers: the layout of its memory file. The owner writes it; peers map
// and read it, and write only where that is said. A faulty peer may overwrite everything here. So
// the owner decides nothing about itself from it, and a peer checks what it reads.
//
//   0        header          64 KB on: tables cq, srq, mr, qp (sparse, committed as they fill)
//   heap     receive rings, page-aligned pieces (of the kernel's pages: all who map it share the
//   kernel)
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

#include "lib/base/mode.hpp"

namespace penstock::nic::shm {

inline constexpr std::uint32_t arena_magic = 0x70656e73;  // "pens"
inline constexpr std::uint32_t arena_version = 2;
inline constexpr std::uint64_t arena_bytes = std::uint64_t{4} << 30;

inline constexpr std::uint32_t max_cqs = 16384;
inline constexpr std::uint32_t max_srqs = 4096;
inline constexpr std::uint32_t max_mrs = 1u << 18;
inline constexpr std::uint32_t max_qps = 1u << 16;

/// A 128-bit address of a context: random, so it is also the proof of its identity.
struct nonce {
  std::uint64_t high = 0, low = 0;
  friend bool operator==(const nonce&, const nonce&) = default;
  [[nodiscard]] ibv_gid gid() const noexcept {
    ibv_gid g;
    __builtin_memcpy(g.raw, &high, 8);
    __builtin_memcpy(g.raw + 8, &low, 8);
    return g;
  }
  static nonce of(const ibv_gid& g) noexcept {
    nonce n;
    __builtin_memcpy(&n.high, g.raw, 8);
    __builtin_memcpy(&n.low, g.raw + 8, 8);
    return n;
  }
};

/// The kinds of tables, in the order in which their high-water marks stand in the header.
enum class table : std::uint32_t { cq, srq, mr, qp, count };

/// Page 0 of the arena.
struct arena_header {
  std::uint32_t magic, version;
  nonce name;
  std::atomic<std::uint32_t> used[static_cast<int>(table::count)];  ///< entries committed so far
  /// Receiver-not-ready events that peers met here (each peer adds its own): a statistic for tests.
  alignas(cache_line) std::atomic<std::uint64_t> rnr_sent;
};

/// The state of an RC QP, as its peer must know it. 0 in the low byte: the entry is not in use.
/// cut: ready, but its port is down.
enum class qp_public : std::uint32_t { none = 0, made = 1, ready = 2, error = 3, cut = 4 };

/// The word that names one life of a QP's entry: its generation and its public state.
constexpr std::uint32_t life_word(std::uint32_t generation, qp_public s) noexcept {
  return generation << 8 | static_cast<std::uint32_t>(s);
}

struct qp_entry {
  // Set at creation and connection; `life` is stored last (L1) and read first by peers (-> L2).
  alignas(cache_line) std::atomic<std::uint32_t> life;
  std::atomic<std::uint32_t> qpn, dest_qpn;
  std::atomic<std::uint32_t> nak;  ///< ibv_wc_status of the peer's oldest request; 0: none
  std::atomic<std::uint64_t> dest_high, dest_low;
  std::atomic<std::uint64_t> ring;  ///< offset of the receive ring in the arena
  std::atomic<std::uint32_t> ring_slots, ring_data;
  std::atomic<std::uint32_t> srq;      ///< index + 1 of its SRQ, or 0
  std::atomic<std::uint32_t> recv_cq;  ///< index of its receive CQ
  std::atomic<std::uint32_t> pd, access, min_rnr_timer, reads_allowed;
  std::atomic<std::uint32_t> written;  ///< set by the peer when it begins to write to the ring
  std::atomic<std::uint32_t> domain;   ///< the domain's number of an XRC_RECV QP; 0 for others
  // Receives posted to the QP's own queue since creation: the sender claims against this.
  alignas(cache_line) std::atomic<std::uint64_t> posted;
  std::atomic<std::uint32_t> floor;  ///< a message of that size fits each receive that is posted
  // What this QP, as a requester, does in its peer's memory. The owner writes it for each
  // operation; the peer adds a bit to `claims` when it has counted them (link.cpp).
  alignas(cache_line) std::atomic<std::uint64_t> claims;  ///< SRQ receives claimed at the peer
  std::atomic<std::uint32_t> touching;                    ///< rkey being accessed now, or 0
  std::atomic<std::uint64_t> producing;                   ///< offset of the peer's ring written to
};

struct srq_entry {
  /// Posted receives that no sender has claimed. The owner adds, and senders of all peers take.
  alignas(cache_line) std::atomic<std::int64_t> available;
  std::atomic<std::uint64_t> posted;  ///< receives posted since creation
  std::atomic<std::uint32_t> floor;
  std::atomic<std::uint32_t> domain,
      pd;  ///< the domain's number and the pd of an XRC queue; else 0
};

/// Whether a CQ's owner wants to be woken: 0 no, 1 yes, 2 a peer has rung (by compare-and-swap).
struct cq_entry {
  alignas(cache_line) std::atomic<std::uint32_t> bell;
};
enum bell_state : std::uint32_t { bell_off = 0, bell_armed = 1, bell_rung = 2 };

/// How a peer maps a region: not at all, from a file that it asks for, or from the file of moved
/// memory, which it was given when it was connected.
enum class way_to_map : std::uint32_t { none = 0, ask = 1, moved = 2 };

struct mr_entry {
  /// The rkey when the entry is valid, else 0. Written last (M1) and read before and after (-> M2).
  alignas(cache_line) std::atomic<std::uint32_t> key;
  std::atomic<std::uint32_t> pd, access;
  std::atomic<way_to_map> mappable;
  std::atomic<std::uint64_t> address, length;
  std::atomic<std::uint32_t> qpn;  ///< the only QP of the owner that may use it; 0: any QP may
  /// Counts how often the entry was made valid: a mapping belongs to one epoch.
  std::atomic<std::uint32_t> epoch;
};
static_assert(sizeof(qp_entry) == 4 * cache_line && sizeof(mr_entry) == cache_line);

struct table_place {
  std::uint64_t offset;
  std::uint32_t entry_bytes, capacity;
};
inline constexpr table_place table_places[] = {
    {1u << 20, sizeof(cq_entry), max_cqs},
    {4u << 20, sizeof(srq_entry), max_srqs},
    {8u << 20, sizeof(mr_entry), max_mrs},
    {32u << 20, sizeof(qp_entry), max_qps},
};
inline constexpr std::uint64_t heap_offset = 64u << 20;

}  // namespace penstock::nic::shm
