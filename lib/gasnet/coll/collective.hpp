// Collective operations over teams of processes, for gasnet_coll.h and gasnetex.h. All are
// non-blocking inside: a call begins an operation, and polls advance it (kick(), in every wait of
// lib/gasnet). The calls over a team come in the same order on all its members; any number of
// operations may be in flight. Any thread may call, one at a time for each team, but no handler.
//
// The library may touch buffers and lists until the operation is complete. Each call adds 1 to
// `done` at once and subtracts it, with release, when this process's buffers are done (or, with
// out_all, those of all processes). A thread inside a poll, a wait or one of these calls calculates
// reductions.
#pragma once

#include <gasnet.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/conduit/peer/transfer_queue.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
class engine;
}

namespace penstock::gasnet::PENSTOCK_ABI {

/// Registers the handlers of collectives. Before start().
void register_collectives(conduit::engine& e);

namespace coll {

using conduit::op_counter;

class team;

/// How two rows of elements are combined into one: left[i] and right[i], for each i, into one of
/// them.
struct reduction {
  /// The result goes to right if result_in_right, else to left.
  void (*combine)(const reduction& how, void* left, void* right, std::size_t count) = nullptr;
  std::size_t element_bytes = 0;
  bool result_in_right = false;
  bool commutative = false;
  void (*function)() = nullptr;  ///< the client's; for combine
  const void* context = nullptr;
  int argument = 0, flags = 0;
  std::uint8_t code = 0;  ///< of the function and the type, for all to compare (call_word.hpp)
};

/// What else an operation waits for, as flags. in_all: no memory is read or written before all
/// members have called. out_all: no member is done before all are.
enum sync : unsigned { own_buffers = 0, in_all = 1, out_all = 2 };

/// The team of all processes. After gasnet_attach.
team& world() noexcept;
/// Collective over parent; waits, polling. Returns the new team of the members that have passed the
/// same color, ranked by key and then by rank in parent; null for a member that does not join.
team* split(team& parent, bool joins, std::uint32_t color, std::uint32_t key);
/// Forgets a team in this process. No operation over it may be in flight.
void destroy(team* t);

std::uint32_t rank(const team& t) noexcept;
std::uint32_t size(const team& t) noexcept;
/// The job's rank of member r, which must be in range.
std::uint32_t job_rank(const team& t, std::uint32_t r) noexcept;
/// Finds the rank r in t of a process of the job. False: it is no member.
bool find(const team& t, std::uint32_t job_rank, std::uint32_t& r) noexcept;

void barrier(team& t, op_counter& done);
/// Brings bytes from src of the root to each member's dst. src is read at the root alone, where dst
/// may be src.
void broadcast(team& t, std::uint32_t root, void* dst, const void* src, std::size_t bytes,
               unsigned sync, op_counter& done);
/// Brings the bytes of all members, in the order of ranks, to each member's dst.
void gather_all(team& t, void* dst, const void* src, std::size_t bytes, unsigned sync,
                op_counter& done);
/// Reduces count elements of each member to dst of the root, which alone is written. dst may be
/// src.
void reduce(team& t, std::uint32_t root, void* dst, const void* src, std::size_t count,
            const reduction& how, unsigned sync, op_counter& done);
void reduce_all(team& t, void* dst, const void* src, std::size_t count, const reduction& how,
                unsigned sync, op_counter& done);

/// The number of operations that have begun in this process and are not complete, and of questions
/// of others that wait for a look.
extern std::atomic<std::uint32_t> in_flight;
/// The number of barriers of gasnet.h that this process has notified.
extern std::atomic<std::uint32_t> barriers;
void advance() noexcept;
/// Advances operations; called in every poll and wait outside handlers.
inline void kick() noexcept {
  // relaxed: a hint; a thread that sees it late kicks in its next poll
  if (in_flight.load(std::memory_order_relaxed) != 0) [[unlikely]]
    advance();
}
/// The progress thread's step: advances operations while the program computes. True: some are left.
bool advance_in_progress() noexcept;
/// Waits, polling, until done is zero.
void wait(const op_counter& done) noexcept;

}  // namespace coll
}  // namespace penstock::gasnet::PENSTOCK_ABI
