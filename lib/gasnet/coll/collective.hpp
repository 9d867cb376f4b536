// Collective operations over teams of processes: what gasnet_coll.h and gasnetex.h stand on. All
// are non-blocking inside: they begin, and polls advance them (kick(), in every wait of
// lib/gasnet). Calls over one team come in the same order on all its members; any number may be in
// flight. Not from handlers; any thread, one at a time for each team.
//
// Buffers and lists may be touched until the operation is complete. Each call adds 1 to `done` at
// once and takes it back, with release, when this process's buffers are done (or, with out_all, all
// are). Reductions are calculated by a thread that is inside a poll, a wait or a call from here.
#pragma once

#include <gasnet.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/conduit/channel/transfer_queue.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
class engine;
}

namespace penstock::gasnet::PENSTOCK_ABI {

/// Registers the handlers behind collectives. Before start().
void register_collectives(conduit::engine& e);

namespace coll {

using conduit::op_counter;

class team;

/// How two rows of elements become one: element by element, left[i] and right[i] to one of them.
struct reduction {
  /// The result goes to right if result_in_right, else to left.
  void (*combine)(const reduction& how, void* left, void* right, std::size_t count) = nullptr;
  std::size_t element_bytes = 0;
  bool result_in_right = false;
  bool commutative = false;
  void (*function)() = nullptr;  ///< the client's; for combine
  const void* context = nullptr;
  int argument = 0, flags = 0;
};

/// What else is to be waited for, as flags: nothing is read or written before all have called;
/// nobody is done before all are.
enum sync : unsigned { own_buffers = 0, in_all = 1, out_all = 2 };

/// The team of all. After gasnet_attach.
team& world() noexcept;
/// Collective over parent; waits, polling. The new team of those who gave the same colour, ranked
/// by key and then by rank in parent; null for who does not join.
team* split(team& parent, bool joins, std::uint32_t color, std::uint32_t key);
/// Forgets a team, here. Nothing is in flight over it.
void destroy(team* t);

std::uint32_t rank(const team& t) noexcept;
std::uint32_t size(const team& t) noexcept;
/// r must be in range.
std::uint32_t job_rank(const team& t, std::uint32_t r) noexcept;
/// The rank in t of a process of the job. False: it is no member.
bool find(const team& t, std::uint32_t job_rank, std::uint32_t& r) noexcept;

void barrier(team& t, op_counter& done);
/// dst may be src at the root. src is read at the root alone.
void broadcast(team& t, std::uint32_t root, void* dst, const void* src, std::size_t bytes,
               unsigned sync, op_counter& done);
/// Every member's bytes, by rank, to each member's dst.
void gather_all(team& t, void* dst, const void* src, std::size_t bytes, unsigned sync,
                op_counter& done);
/// count elements of each member; dst is written at the root alone. dst may be src.
void reduce(team& t, std::uint32_t root, void* dst, const void* src, std::size_t count,
            const reduction& how, unsigned sync, op_counter& done);
void reduce_all(team& t, void* dst, const void* src, std::size_t count, const reduction& how,
                unsigned sync, op_counter& done);

/// Operations that have begun here and are not complete.
extern std::atomic<std::uint32_t> in_flight;
void advance() noexcept;
/// In every poll and wait outside handlers.
inline void kick() noexcept {
  // relaxed: a hint; who sees it late kicks in its next poll
  if (in_flight.load(std::memory_order_relaxed) != 0) [[unlikely]]
    advance();
}
/// Waits, polling, until done is zero.
void wait(const op_counter& done) noexcept;

}  // namespace coll
}  // namespace penstock::gasnet::PENSTOCK_ABI
