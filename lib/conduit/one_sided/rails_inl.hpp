// What rails*.cpp know of a rail and of its links. Only they include it.
#pragma once

#include <list>
#include <string>
#include <utility>

#include "lib/conduit/engine.hpp"
#include "lib/conduit/one_sided/rails.hpp"
#include "lib/conduit/one_sided/rma.hpp"
#include "nic/registrar.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

// Travels as the payload of a Medium. qpn 0: the asker wants no queue pair (any more), or the other
// side has none for it now; reads 0: it has no such rail.
struct rails::words {
  std::uint32_t rail = 0, generation = 0;
  std::uint32_t qpn = 0, psn = 0;
  nic::address address;
  std::uint32_t reads = 1, rkey = 0;
  std::uint64_t base = 0, bytes = 0;  // of the segment's part that is registered
};

// A piece under way, or one that the first rail is to send. A rail has made as many as it may need,
// and each lies in one of its lists.
struct rails::posted {
  piece what;
  firehose::lease lease;
};

// Of one rail to one rank.
//
//   none -> asked -> tried -> ready
//             \________\________\____ failed -> none
struct rails::link {
  enum class stage : std::uint8_t { none, asked, tried, ready, failed } at = stage::none;
  std::uint32_t generation = 0;  // of qp; an answer or completion of an earlier one says nothing
  ibv_qp* qp = nullptr;          // this process's transfers
  ibv_qp* theirs = nullptr;      // the other side's
  std::uint32_t psn = 0;
  bool asks = false;                // for the other end, or for the end of it
  std::uint64_t not_before_ns = 0;  // for the next ask
  words there;                      // what the other side has answered
  std::list<posted> pieces;         // under way, in the order of their completions
};

struct rails::rail {
  nic::device device;
  unsigned number = 0;  // as the user counts them: the first device is rail 1
  std::string name;     // for lines
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  std::uint32_t entries = 0;  // of cq
  std::uint32_t depth = 0;    // of a link: most pieces under way
  std::uint32_t reads = 1;
  std::unique_ptr<memreg::account> account;
  memreg::registration segment;
  std::byte* base = nullptr;  // of the segment
  std::uint64_t bytes = 0;    // of the segment that are registered
  std::unique_ptr<firehose::pool> cache;
  std::list<posted> spare;  // of pieces
  std::list<posted> again;  // for the first rail
  std::map<rank_id, link> links;
  bool down = false, gone = false;  // the port; the device
  bool said = false;                // that it is left out
  std::uint32_t looks = 0;
  std::size_t under_way = 0;  // pieces that are not back, and empty WRITEs
  std::uint64_t pieces = 0, carried = 0, times_out = 0;

  void destroy(ibv_qp*& qp) noexcept {
    if (qp != nullptr) device.verbs->destroy_qp(std::exchange(qp, nullptr));
  }
  rail() = default;
  rail(const rail&) = delete;
  rail& operator=(const rail&) = delete;
  ~rail();
};

}  // namespace penstock::conduit::PENSTOCK_ABI
