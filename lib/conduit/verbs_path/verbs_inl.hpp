// What sending and receiving by verbs have in common: the words of an immediate, and a queue's
// owner that is waited for. Included by verbs.cpp and verbs_receive.cpp only.
#pragma once

#include "lib/base/backoff.hpp"
#include "lib/conduit/engine_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// An immediate: the chunk that was answered; or a system message, whole.
inline constexpr std::uint32_t imm_system = 1u << 31, imm_epoch = 1u << 30, imm_urgent = 1u << 29;
inline constexpr std::uint32_t imm_op_shift = 16, imm_op = 15, imm_count = 0xffff;

/// Enters when the thread inside has left; that one waits for nobody.
inline void enter(queue_owner& o, std::uint32_t tag) noexcept {
  backoff b(64);
  while (!o.try_enter(tag)) b.idle();
}

}  // namespace penstock::conduit::PENSTOCK_ABI
