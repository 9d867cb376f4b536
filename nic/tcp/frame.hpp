// What crosses a connection: frames, each a head, for some kinds a place and operands, and a
// payload. Both ends have the same byte order; a hello with another one is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace penstock::nic::tcp {

enum class kind : std::uint8_t {
  none,
  // A responder's word on requests.
  ack,        ///< all requests up to `seq` are done
  refused,    ///< those before `seq` are done; that one ends with status `detail`
  not_ready,  ///< those before `seq` are done; that one found no receive, timer code `detail`
  absent,     ///< those before `seq` may be done; there is no such QP connected to that one (now)
  answer,     ///< what READ or atomic `seq` brings; all before it are done
  // Requests.
  send,
  write,  ///< with a place
  read,   ///< with a place, whose length is what is read; no payload
  fetch_add,
  compare_swap,  ///< both with a place and operands; no payload
  datagram,
  // About the connection.
  left,  ///< QP `from` has left; nothing more comes from it
  bye,   ///< the context is being closed
  count
};

inline constexpr std::uint8_t flag_imm = 1, flag_solicited = 2;
inline constexpr std::uint8_t flag_answer_now = 4;  ///< the requester waits for the ack

struct frame_head {
  kind what = kind::none;
  std::uint8_t flags = 0;
  std::uint16_t detail = 0;
  std::uint32_t bytes = 0;         ///< of the payload
  std::uint32_t to = 0, from = 0;  ///< QP numbers
  std::uint32_t seq = 0;           ///< the request's: the requester's first PSN, then counted
  std::uint32_t imm = 0;
};
struct frame_place {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0, length = 0;
};
struct frame_operands {
  std::uint64_t operand = 0, swap = 0;
};
static_assert(sizeof(frame_head) == 24 && sizeof(frame_place) == 16 &&
              sizeof(frame_operands) == 16);
// Nothing that lay in memory before goes out between their fields.
static_assert(std::has_unique_object_representations_v<frame_head> &&
              std::has_unique_object_representations_v<frame_place> &&
              std::has_unique_object_representations_v<frame_operands>);

constexpr bool is_atomic(kind k) noexcept {
  return k == kind::fetch_add || k == kind::compare_swap;
}
constexpr bool is_request(kind k) noexcept { return k >= kind::send && k <= kind::compare_swap; }

/// How many bytes follow the head before the payload.
constexpr std::size_t more_head(kind k) noexcept {
  if (k == kind::write || k == kind::read) return sizeof(frame_place);
  return is_atomic(k) ? sizeof(frame_place) + sizeof(frame_operands) : 0;
}
inline constexpr std::size_t longest_head =
    sizeof(frame_head) + sizeof(frame_place) + sizeof(frame_operands);

}  // namespace penstock::nic::tcp
