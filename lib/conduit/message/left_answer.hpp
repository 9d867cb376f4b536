// What threads leave behind that have handled a request and find an end of its peer's held (PAR):
// an answer, for the thread inside the reply lane (verbs_path/left.cpp), or the end of a request
// that was not answered. Both are copies on the heap. There are no more of them than requests of
// the peer's, whose credits come back with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "lib/conduit/message/outgoing.hpp"
#include "lib/conduit/message/token.hpp"
#include "penstock/penstock.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// An answer, with what it answers, and its words; its payload lies behind it.
struct left_answer {
  left_answer* next = nullptr;
  bool put_off = false;  ///< it lacked a chunk, and polls know that it waits
  token_state request;
  outgoing m;
  wire::large_block where;
  std::uint32_t args[max_args];

  /// A copy of m, which answers t; null: there is no memory, or m has more than 1 MiB. free_one()
  /// frees it. in_place: a Long's payload is at its destination already.
  static left_answer* copy_of(const token_state& t, const outgoing& m,
                              bool in_place = false) noexcept {
    constexpr std::size_t most_bytes = std::size_t{1} << 20;
    const std::size_t bytes = m.kind != wire::kind::long_ ? m.carried() : in_place ? 0 : m.bytes;
    if (bytes > most_bytes) return nullptr;
    void* const at = ::operator new(sizeof(left_answer) + bytes, std::nothrow);
    if (at == nullptr) return nullptr;
    auto* const a = new (at) left_answer{.request = t, .m = m, .where = {}, .args = {}};
    a->request.reply_chunk = queues::no_chunk;  // the thread that handled t keeps it
    a->m.written = nullptr;
    if (m.nargs != 0) std::memcpy(a->args, m.args, m.nargs * sizeof(std::uint32_t));
    a->m.args = a->args;
    if (m.where != nullptr) {
      a->where = *m.where;
      a->m.where = &a->where;
    }
    if (bytes != 0) {
      std::memcpy(a + 1, m.payload, bytes);
      a->m.payload = a + 1;
    }
    return a;
  }
  static void free_one(left_answer& a) noexcept { ::operator delete(&a); }
};

/// By rings: what is to be noted, inside the end, of a message whose handler ran on while another
/// thread took the end (ring_path/relieved.cpp).
struct relieved_end {
  relieved_end* next = nullptr;
  std::uint32_t reader = 0;   ///< tag of the thread that ran the handler
  std::uint32_t handled = 1;  ///< messages that it has handled in this poll, and not counted
  std::uint32_t cost = 0;     ///< credits that are owed, and lent beyond them
  std::uint8_t grant = 0;
  bool request = true;
  bool urgent = false;  ///< the sender waits for credits
  bool left = false;    ///< the answer went another way, and so did its room
  bool counts = false;  ///< these are to be counted
  bool system = false;
  wire::kind kind = wire::kind::short_;
  std::size_t bytes = 0;
};

/// A request whose handler has returned without an answer.
struct left_end {
  left_end* next = nullptr;
  std::uint16_t chunk = queues::no_chunk;
  std::uint8_t grant = 0;
  bool urgent = false;
  std::uint32_t cost = 0;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
