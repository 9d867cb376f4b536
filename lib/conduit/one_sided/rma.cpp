#include "lib/conduit/one_sided/rma.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "firehose/firehose.hpp"
#include "lib/base/log.hpp"
#include "lib/base/thread_index.hpp"
#include "lib/conduit/one_sided/rma_everything.hpp"
#include "lib/conduit/one_sided/rma_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
// The checks that every operation begins with. here: the address at which `at` is mapped, or null.
status transfers::begin(rank_id to, const void* at, std::size_t bytes, std::byte*& here) noexcept {
  here = nullptr;
  if (running != nullptr) [[unlikely]]
    return status::in_handler;
  if (to >= core_.size()) [[unlikely]]
    return status::bad_rank;
  if (!core_.has_started()) [[unlikely]]
    return engine::over();
  if (bytes == 0) return status::ok;
  const peer& p = core_.begun(core_.peers()[to]);
  if (!core::in_segment(p, at, bytes)) [[unlikely]]
    return begin_anywhere(to, at, bytes, here);
  if (!p.maps() && to != core_.rank()) return everything_ ? settle_changes() : status::ok;
  std::byte* const base = engine_.segment_here(to);
  if (base == nullptr) [[unlikely]]
    return status::peer_dead;
  here = base + (static_cast<const std::byte*>(at) - p.segment_base);
  note_mapped(to, base);
  return status::ok;
}

status transfers::null_memory(rank_id to, const void* at, std::size_t bytes) const noexcept {
  if (core_.options().checks)
    log(log_level::warning,
        "a transfer of %zu bytes at %p of rank %u is not begun: local memory is null", bytes, at,
        to);
  return status::bad_arguments;
}

// Carries a transfer out, piece by piece. What finds no room goes on beside the program where that
// is worth it; else the caller waits.
template <bool Puts>
inline status transfers::carry(course t) noexcept {
  if (handed_ && t.left >= detail::beside_bytes && !everything_) [[unlikely]]
    return carry_beside(t);
  return go_on<Puts, true>(t);
}

status transfers::carry_beside(course t) noexcept {
  // The shared-memory device copies inside the post.
  const status s = core_.device().shared_memory ? status::no_space : go_on(t);
  if (!is_short(s)) return s;
  // relaxed: as in try_push()
  t.count->fetch_add(1, std::memory_order_relaxed);
  if (rests_.begin(t)) {
    engine_.wake_progress();
    return status::ok;
  }
  t.count->fetch_sub(1, std::memory_order_relaxed);
  return t.puts ? go_on<true, true>(t) : go_on<false, true>(t);
}

// Sends pieces until all are under way; Waits: also for room.
template <bool Puts, bool Waits>
inline status transfers::go_on(course& t) noexcept {
  while (t.left != 0) {
    part piece;
    const std::size_t most = Waits ? t.left : std::min(t.left, max_piece_);
    const auto take = [&]() noexcept {
      if constexpr (Puts)
        return source(t.local, most, t.r, piece);
      else
        return destination(t.local, most, piece);
    };
    status s = Waits ? retry(take) : take();
    std::size_t by_rails = 0;
    if (s == status::ok) {
      constexpr ibv_wr_opcode opcode = Puts ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
      if (piece.bytes >= rails_.least() && piece.hold.chunk == no_place &&
          (Waits || has_room(*t.p))) [[unlikely]] {
        by_rails = piece.bytes;
        piece.bytes = rails_.cut({t.p, t.count, opcode, t.remote, t.local, piece.bytes});
        by_rails -= piece.bytes;
      }
      s = move(*t.p, opcode, t.remote, piece, *t.count, Waits);
    }
    if (s == status::unsupported) {  // the peer cannot let others reach that memory
      piece.bytes = std::min<std::size_t>(t.left, max_eager);
      s = Puts ? put_by_message(t.p->rank, t.remote, t.local, piece.bytes, *t.count)
               : get_by_message(t.p->rank, t.remote, t.local, piece.bytes, *t.count);
    }
    if (s != status::ok) return s;
    const std::size_t n = piece.bytes + by_rails;
    t.local += n, t.remote += n, t.left -= n;
  }
  return status::ok;
}

status transfers::go_on(course& t) noexcept {
  return t.puts ? go_on<true, false>(t) : go_on<false, false>(t);
}

// Copies to or from mapped memory of `peer`; beside: the source stays until the operation is
// complete.
void transfers::copy(rank_id peer, std::byte* to, const void* from, std::size_t bytes, bool beside,
                     op_counter& c) noexcept {
  if (beside && copies_beside(peer, bytes) &&
      handed_->begin(to, static_cast<const std::byte*>(from), bytes, c))
    engine_.wake_progress();
  else
    std::memmove(to, from, bytes);
}

status transfers::put(rank_id to, void* dest, const void* src, std::size_t bytes, reuse r,
                      op_counter& c) noexcept {
  std::byte* here = nullptr;
  if (const status s = begin(to, dest, bytes, here); s != status::ok || bytes == 0) return s;
  if (src == nullptr) [[unlikely]]
    return null_memory(to, dest, bytes);
  if (here != nullptr) {
    copy(to, here, src, bytes, r == reuse::on_completion, c);
    return status::ok;
  }
  if (engine_.maps(to)) [[unlikely]]
    return copy_far(to, reinterpret_cast<std::uintptr_t>(dest),
                    const_cast<std::byte*>(static_cast<const std::byte*>(src)), bytes, true, c);
  peer_counts& counts = channel(to).counts;
  count_shared(counts.puts, 1);
  count_shared(counts.put_bytes, bytes);
  if (core_.drawn() != nullptr) core_.drawn()->event("put", "put", to, 0, bytes);
  if (bytes <= max_inline_ && !everything_) return put_inline(to, dest, src, bytes, c);
  // A source larger than a bounce chunk is sent without a copy. A caller that wants it back at once
  // then waits for the whole operation, since only a write's completion says that its source was
  // read.
  op_counter local{0};
  const bool wait_here =
      r == reuse::on_return && bytes > std::max<std::size_t>(put_bounce_, max_inline_);
  op_counter& count = wait_here ? local : c;
  if (wait_here) r = reuse::on_completion;
  const status s =
      carry<true>({&channel(to), true, r, reinterpret_cast<std::uintptr_t>(dest),
                   const_cast<std::byte*>(static_cast<const std::byte*>(src)), bytes, &count});
  if (wait_here) settle(local);
  return s;
}

status transfers::put_ahead(rank_id to, const outgoing& m) noexcept {
  op_counter count{0};
  const status s = carry<true>(
      {&channel(to), true, reuse::on_completion, reinterpret_cast<std::uintptr_t>(m.dest),
       const_cast<std::byte*>(static_cast<const std::byte*>(m.payload)), m.bytes, &count});
  settle(count);
  return s;
}

// The shortest way of a put: the device copies the source, so the caller may change it on return.
status transfers::put_inline(rank_id to, void* dest, const void* src, std::size_t bytes,
                             op_counter& c) noexcept {
  peer& p = channel(to);
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(src), static_cast<std::uint32_t>(bytes), 0};
  ibv_send_wr wr;
  wr.next = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_INLINE;
  wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(dest);
  wr.wr.rdma.rkey = p.segment_rkey.load(std::memory_order_relaxed);
  transfer_record r;
  r.counter = &c;
  return push(p, wr, r);
}

status transfers::get(void* dest, rank_id from, const void* src, std::size_t bytes,
                      op_counter& c) noexcept {
  std::byte* here = nullptr;
  if (const status s = begin(from, src, bytes, here); s != status::ok || bytes == 0) return s;
  if (dest == nullptr) [[unlikely]]
    return null_memory(from, src, bytes);
  if (here != nullptr) {
    copy(from, static_cast<std::byte*>(dest), here, bytes, true, c);
    return status::ok;
  }
  auto* to = static_cast<std::byte*>(dest);
  if (engine_.maps(from)) [[unlikely]]
    return copy_far(from, reinterpret_cast<std::uintptr_t>(src), to, bytes, false, c);
  peer& p = channel(from);
  count_shared(p.counts.gets, 1);
  count_shared(p.counts.get_bytes, bytes);
  if (core_.drawn() != nullptr) core_.drawn()->event("get", "get", from, 0, bytes);
  return carry<false>(
      {&p, false, reuse::on_completion, reinterpret_cast<std::uintptr_t>(src), to, bytes, &c});
}

// A rest is counted until its last piece is under way, or none can be any more: the wait for it, or
// the pieces that were, tell of a peer that has gone.
bool transfers::go_on_beside() noexcept {
  if (!handed_) return false;
  const bool copied = handed_->step(std::memcpy);
  if (!rests_.has_any()) return copied;
  const unsigned ended = rests_.step([this](course& t) noexcept {
    if (is_short(go_on(t)) && !core_.is_gone(t.p->rank)) return false;
    // R1 complete  release count  -> P1
    t.count->fetch_sub(1, std::memory_order_release);
    return true;
  });
  return copied || ended != 0;
}

status transfers::set(rank_id to, void* dest, int value, std::size_t bytes,
                      op_counter& c) noexcept {
  std::byte* here = nullptr;
  if (const status s = begin(to, dest, bytes, here); s != status::ok || bytes == 0) return s;
  if (here != nullptr) {
    std::memset(here, value, bytes);
    return status::ok;
  }
  if (!everything_ && bytes <= core_.queue_sizes().chunk_bytes) {
    part filled;
    status s = retry([&]() noexcept { return chunk(bytes, filled); });
    if (s != status::ok) return s;
    std::memset(reinterpret_cast<void*>(filled.at), value, bytes);
    return move(channel(to), IBV_WR_RDMA_WRITE, reinterpret_cast<std::uintptr_t>(dest), filled, c);
  }
  const no_limit waits_on;  // as in put_by_message()
  std::uint32_t args[7];
  const std::uint64_t length = bytes;
  op_counter* const counter = &c;
  std::memcpy(args, &dest, 8);
  std::memcpy(args + 2, &length, 8);
  std::memcpy(args + 4, &counter, 8);
  args[6] = static_cast<unsigned char>(value);
  // relaxed: the message carries the order to the thread that completes it
  c.fetch_add(1, std::memory_order_relaxed);
  const status s = engine_.request(
      to, {.handler = rma_set, .flags = wire::flag_system, .nargs = 7, .args = args});
  if (s != status::ok) c.fetch_sub(1, std::memory_order_relaxed);
  return s;
}

status transfers::atomic(rank_id to, device_atomic op, void* dest, std::uint64_t a, std::uint64_t b,
                         std::uint64_t* old, op_counter& c) noexcept {
  std::byte* here = nullptr;
  if (const status s = begin(to, dest, sizeof a, here); s != status::ok) return s;
  if (!device_atomics_) return status::unsupported;
  if (reinterpret_cast<std::uintptr_t>(dest) % sizeof a != 0) return status::misaligned;
  if (here != nullptr && core_.device().shared_memory) {
    std::atomic_ref word(*reinterpret_cast<std::uint64_t*>(here));
    // The shared-memory device uses the processor's atomics itself.
    // acq_rel: an atomic comes behind what its caller has put, and before what it gets.
    if (op == device_atomic::fetch_add)
      a = word.fetch_add(a, std::memory_order_acq_rel);
    else
      (void)word.compare_exchange_strong(a, b, std::memory_order_acq_rel,
                                         std::memory_order_acquire);
    if (old != nullptr) *old = a;
    return status::ok;
  }
  transfer_record r;
  const status s = retry([&]() noexcept {
    const auto slot = slots_->take();
    if (!slot) return status::no_chunk;
    r.slot = static_cast<std::uint16_t>(*slot);
    return status::ok;
  });
  if (s != status::ok) return s;
  r.counter = &c;
  r.copy_to = old;
  r.copy_bytes = sizeof a;
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(slots_->at(r.slot)), sizeof a, slots_->keys().lkey};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode =
      op == device_atomic::fetch_add ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
  wr.wr.atomic.remote_addr = reinterpret_cast<std::uintptr_t>(dest);
  wr.wr.atomic.rkey = core_.peers()[to].segment_rkey.load(std::memory_order_relaxed);
  wr.wr.atomic.compare_add = a;
  wr.wr.atomic.swap = b;
  count_shared(channel(to).counts.atomics, 1);
  return push(channel(to), wr, r);
}

// ---- the queue ----

// Sends the piece in as many work requests as the device's longest message makes necessary; the
// last one's record holds what the piece needs. On a failure all is given back once nothing is in
// flight. waits: for room; else the piece is one work request.
status transfers::move(peer& p, ibv_wr_opcode opcode, std::uint64_t remote, part& local,
                       op_counter& c, bool waits) noexcept {
  std::uint32_t rkey = p.segment_rkey.load(std::memory_order_relaxed);
  if (everything_) [[unlikely]]
    if (const status s = aim(p, opcode, remote, local, rkey); s != status::ok) {
      release(local.hold);
      return s;
    }
  for (std::size_t sent = 0; sent < local.bytes;) {
    const std::size_t n = std::min(local.bytes - sent, max_piece_);
    ibv_sge sge{local.at + sent, static_cast<std::uint32_t>(n), local.lkey};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    if (local.inlined) wr.send_flags = IBV_SEND_INLINE;
    wr.wr.rdma.remote_addr = remote + sent;
    wr.wr.rdma.rkey = rkey;
    sent += n;
    transfer_record middle;
    transfer_record& r = sent == local.bytes ? local.hold : middle;
    r.counter = &c;
    if (const status s = waits ? push(p, wr, r) : try_push(p, wr, r); s != status::ok) {
      while (!is_short(s) && p.transfers && !p.transfers->empty()) (void)reap(*p.home);
      release(local.hold);
      return s;
    }
  }
  return status::ok;
}

// ---- large sets, at the target and back ----

void transfers::on_set(void* self, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  auto& all = *static_cast<transfers*>(self);
  const auto at = address_pair<std::byte>(args, 0);
  const auto bytes = word_pair(args, 2);
  const bool own = all.core_.own_segment() && all.core_.own_segment()->contains(at, bytes);
  if (!own && !all.everything_) [[unlikely]]
    fatal(1, "rank %u asks for bytes outside this segment to be set", running->source());
  std::memset(at, static_cast<int>(args[6]), bytes);
  if (const status s = all.engine_.reply(
          *running,
          {.handler = rma_done, .flags = wire::flag_system, .nargs = 2, .args = args + 4});
      s != status::ok)
    fatal(1, "the answer to a set: %s", describe(s));
}

void transfers::on_done(void*, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  // R1 complete  release counter  -> P1
  address_pair<op_counter>(args, 0)->fetch_sub(1, std::memory_order_release);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
