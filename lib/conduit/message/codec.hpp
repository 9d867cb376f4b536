// The codec: the one place that writes a message's header and parts, and that finds them again.
// Both paths and delivery to oneself use it; it knows no device.
//
// A message has three parts (wire.hpp): the header, the fixed part (a Long's block, then argument
// words) and the payload. There are two layouts. In a ring, the slot's body holds the parts that
// fit, and the data ring holds the others. Packed, one part follows the other; queue pairs and
// delivery to oneself have it so. A layout says where the parts lie. describe() and write_parts()
// fill them in, for both layouts alike.
//
// The short ways through the engine say by a parameter that argument words can be read in pairs.
// The compiler inlines these functions there, and drops the branches for other kinds of message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/conduit/message/outgoing.hpp"
#include "nic/shm/ring.hpp"

namespace penstock::conduit::codec {

/// How argument words are read. exact: nargs words. pairs: two words at a time, so that one word
/// beyond an odd number may be read; they fit a slot.
enum class words : std::uint8_t { exact, pairs };

/// The header of m; h has the fields that concern credits and chunks.
[[gnu::always_inline]] constexpr wire::header describe(const outgoing& m, wire::header h) noexcept {
  h.handler = m.handler;
  h.kind_args = wire::kind_args(m.kind, m.nargs);
  h.flags = m.flags;
  h.length = static_cast<std::uint16_t>(m.kind == wire::kind::large ? m.bytes - 1 : m.carried());
  return h;
}

/// Copies n bytes; 8 to 16 bytes without a call.
[[gnu::always_inline]] inline void copy_few(std::byte* to, const void* from,
                                            std::uint32_t n) noexcept {
  if (n < 8 || n > 16) {
    std::memcpy(to, from, n);
    return;
  }
  std::uint64_t first, last;
  const auto* const source = static_cast<const std::byte*>(from);
  std::memcpy(&first, source, 8);
  std::memcpy(&last, source + (n - 8), 8);
  std::memcpy(to, &first, 8);
  std::memcpy(to + (n - 8), &last, 8);
}

/// Writes the fixed part and the payload of m to the places that a layout gives them.
template <words W>
[[gnu::always_inline]] inline void write_parts(const outgoing& m, std::byte* fixed,
                                               std::byte* payload) noexcept {
  switch (m.kind) {
    case wire::kind::long_:
    case wire::kind::packed_long: {
      const wire::long_block lb{reinterpret_cast<std::uintptr_t>(m.dest), m.bytes};
      std::memcpy(fixed, &lb, sizeof lb);
      fixed += sizeof lb;
      break;
    }
    case wire::kind::large:
      std::memcpy(fixed, m.where, sizeof *m.where);
      fixed += sizeof *m.where;
      break;
    case wire::kind::short_:
    case wire::kind::medium:
    case wire::kind::credits:
    case wire::kind::system:
      break;
  }
  if constexpr (W == words::pairs)
    nic::shm::copy_words(fixed, m.args, m.nargs);
  else if (m.nargs != 0)
    std::memcpy(fixed, m.args, 4u * m.nargs);
  if (W == words::exact && m.payload == payload) return;  // it was written in place
  if (const std::uint32_t n = m.carried(); n != 0) copy_few(payload, m.payload, n);
}

/// Where the parts of a message lie.
struct parts {
  std::byte* fixed = nullptr;
  std::byte* payload = nullptr;
};

/// The layout in a slot: the header is the slot's header word.
struct in_slot {
  bool fixed_in_body, payload_in_body;
  std::uint32_t payload_at;  ///< offset of the payload in the body or the data
  std::uint32_t data_bytes;  ///< taken in the data ring

  /// The layout of a message whose fixed part has `fixed` bytes and whose payload has `payload`.
  /// fits: the caller knows that the fixed part fits the body.
  constexpr in_slot(std::uint32_t fixed, std::uint32_t payload, bool fits = false) noexcept
      : fixed_in_body(fits || fixed <= nic::shm::slot_body),
        payload_in_body(fixed_in_body && aligned(fixed) + payload <= nic::shm::slot_body),
        payload_at(payload_in_body ? aligned(fixed)
                   : fixed_in_body ? 0u
                                   : (fixed + 15u) & ~15u),
        data_bytes(payload_in_body ? 0u
                   : payload != 0  ? payload_at + payload
                   : fixed_in_body ? 0u
                                   : fixed) {}
  explicit constexpr in_slot(const outgoing& m) noexcept
      : in_slot(wire::fixed_bytes(m.kind, m.nargs), m.carried()) {}
  explicit constexpr in_slot(const wire::header& h) noexcept
      : in_slot(wire::fixed_bytes(h.kind(), h.nargs()), wire::carried_bytes(h)) {}
  /// The same of a Short or Medium whose words surely fit.
  static constexpr in_slot fitting(unsigned nargs, std::uint32_t bytes) noexcept {
    return {4 * nargs, bytes, true};
  }

  /// The parts of a message whose slot has that body, and whose data lie at `data`.
  [[nodiscard]] parts find(std::byte* body, std::byte* data) const noexcept {
    return {fixed_in_body ? body : data, (payload_in_body ? body : data) + payload_at};
  }
  /// Writes the parts of m, which has this layout; describe() makes the header.
  template <words W>
  [[gnu::always_inline]] void write(const outgoing& m, std::byte* body,
                                    std::byte* data) const noexcept {
    const parts at = find(body, data);
    write_parts<W>(m, at.fixed, at.payload);
  }

 private:
  static constexpr std::uint32_t aligned(std::uint32_t n) noexcept { return (n + 7u) & ~7u; }
};

/// The packed layout: header, fixed part, and the payload at the next multiple of 8.
struct packed {
  std::uint32_t bytes;    ///< of the whole message
  std::uint32_t carried;  ///< bytes of payload among them; it comes last

  constexpr packed(std::uint32_t fixed, std::uint32_t payload) noexcept
      : bytes(wire::packed_bytes(fixed, payload)), carried(payload) {}
  explicit constexpr packed(const outgoing& m) noexcept
      : packed(wire::fixed_bytes(m.kind, m.nargs), m.carried()) {}
  explicit constexpr packed(const wire::header& h) noexcept
      : packed(wire::fixed_bytes(h.kind(), h.nargs()), wire::carried_bytes(h)) {}

  /// The offset of the payload in a message whose fixed part has `fixed` bytes.
  static constexpr std::uint32_t payload_at(std::uint32_t fixed) noexcept {
    return wire::packed_bytes(fixed, 1) - 1;
  }
  /// The parts of a message that begins at `at`.
  [[nodiscard]] parts find(std::byte* at) const noexcept {
    return {at + sizeof(wire::header), at + (bytes - carried)};
  }
  /// Writes m, which has this layout, to `at`; h has the fields that concern credits and chunks.
  template <words W>
  [[gnu::always_inline]] void write(const outgoing& m, wire::header h,
                                    std::byte* at) const noexcept {
    h = describe(m, h);
    std::memcpy(at, &h, sizeof h);
    const parts where = find(at);
    write_parts<W>(m, where.fixed, where.payload);
  }
};

}  // namespace penstock::conduit::codec
