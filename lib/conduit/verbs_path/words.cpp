// Messages of the engine's own, taken by queue pairs: system messages, and the list of a message of
// credits.
#include <cstring>

#include "lib/base/cross_process.hpp"
#include "lib/conduit/verbs_path/verbs_path_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

// Takes a system message, all of which is in the immediate; false: it is malformed.
bool verbs_path::take_word(peer& p, std::uint32_t imm) noexcept {
  wire::header h;
  h.kind_args = wire::kind_args(wire::kind::system, 0);
  h.handler = static_cast<std::uint8_t>(imm >> imm_op_shift & imm_op);
  h.flags = (imm & imm_urgent) != 0 ? wire::flag_urgent : std::uint8_t{0};
  h.length = static_cast<std::uint16_t>(imm & imm_count);
  h.credit = credit::credit_byte{(imm & imm_epoch) != 0, 0, 0}.encode();
  return credits_.system_message(p, h, {});
}

// Takes the system messages (SYS) among n completions of reply_cq, before the replies.
void verbs_path::take_words(domain& d, ibv_wc* wc, int n) noexcept {
  for (int i = 0; i < n; ++i) {
    const std::uint32_t imm = be32toh(wc[i].imm_data);
    if (wc[i].status != IBV_WC_SUCCESS || (imm & imm_system) == 0) continue;
    if (const std::uint32_t rank = rank_of(d.queues->identity_of(wc[i].qp_num)); rank < c_.size())
      if (!take_word(d.peers[rank], imm)) c_.peer_failed(d.peers[rank], core::malformed);
  }
}

// Frees the chunks that a message of credits lists behind its header: all that it frees, but for
// the one that it was written to. False: the list is malformed.
bool verbs_path::free_listed_chunks(peer& p, const std::byte* at, std::uint32_t bytes) noexcept {
  if (bytes < sizeof(wire::header) || bytes > p.home->queues->size.chunk_bytes) return false;
  const std::uint32_t n = (bytes - std::uint32_t{sizeof(wire::header)}) / 2;
  for (std::uint32_t i = 0; i < n; ++i) {
    std::uint16_t c;
    std::memcpy(&c, at + sizeof(wire::header) + 2 * i, 2);
    if (!settle(*p.home->queues->request_chunks, p, c)) continue;
    PENSTOCK_ASSERT(c, <, p.home->queues->request_chunks->chunks());
    tsan_hear_peer(p.home->queues->request_chunks->at(c), 16);
    p.home->queues->request_chunks->give(c);
  }
  return true;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
