// Which handler takes a message that came, and with what: the check of bytes that a peer has
// written, for messages that are not plain (handlers.hpp). The engine's parts use it. It calls no
// handler and moves no byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "lib/conduit/message/codec.hpp"
#include "lib/conduit/message/handlers.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// What the handler of a message is called with.
struct delivery {
  const handler_entry* to = nullptr;  ///< null: the message is malformed, and the rest says nothing
  codec::parts at;                    ///< argument words; the payload as the handler sees it
  std::size_t bytes = 0;              ///< of that payload
  /// A packed Long's payload as it came, which is to be copied to at.payload first; else null.
  const std::byte* packed = nullptr;
};

/// Checks the message with header h and parts at `at`, which lie in memory that the message's
/// length covers. large: the bytes of a large Medium, whose header has become a Medium's; else 0.
/// segment: where the payload of a Long may lie. Any thread may call it.
[[gnu::always_inline]] inline delivery deliver(const handler_table& handlers, const wire::header& h,
                                               codec::parts at, std::size_t large,
                                               std::span<std::byte> segment) noexcept {
  const wire::kind k = h.kind();
  if (h.nargs() > max_args) [[unlikely]]
    return {};
  if (h.system() && h.handler >= system_handlers) [[unlikely]]
    return {};
  const handler_entry& e = handlers.of(h.handler, h.system());
  if (e.call == nullptr || (e.words != any_args && e.words != h.nargs())) [[unlikely]]
    return {};
  if (e.payload != handler_entry::takes::either &&
      (e.payload == handler_entry::takes::payload) != (k != wire::kind::short_)) [[unlikely]]
    return {};
  switch (k) {
    case wire::kind::short_:
      return {&e, at, 0, nullptr};
    case wire::kind::medium:
      if (large != 0) [[unlikely]]
        return {&e, at, large, nullptr};
      if (h.length > max_eager) [[unlikely]]
        return {};
      return {&e, at, h.length, nullptr};
    case wire::kind::long_:
    case wire::kind::packed_long: {
      wire::long_block lb;
      std::memcpy(&lb, at.fixed, sizeof lb);
      const std::uint64_t offset = lb.dest - reinterpret_cast<std::uintptr_t>(segment.data());
      if (lb.bytes != 0 && (offset > segment.size() || lb.bytes > segment.size() - offset))
          [[unlikely]]
        return {};
      const bool travels = k == wire::kind::packed_long;
      if (travels && lb.bytes != h.length) [[unlikely]]
        return {};
      return {&e,
              {at.fixed + sizeof lb,
               reinterpret_cast<std::byte*>(lb.dest)},  // unchecked where bytes is 0
              lb.bytes,
              travels && lb.bytes != 0 ? at.payload : nullptr};
    }
    case wire::kind::credits:
    case wire::kind::system:
    case wire::kind::large:  // these have no handler: they are taken before
      break;
  }
  return {};  // a peer may send the value that is no kind
}

}  // namespace penstock::conduit::PENSTOCK_ABI
