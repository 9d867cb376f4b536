#include "lib/conduit/one_sided/rma.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "firehose/firehose.hpp"
#include "lib/base/thread_index.hpp"
#include "lib/conduit/one_sided/rma_everything.hpp"
#include "lib/conduit/one_sided/rma_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

// Gets and atomics whose bytes land in memory of ours first: how many at a time, and how large.
constexpr std::uint32_t slot_count = 512, slot_bytes = 64;
// Reads that one queue pair has in flight; more only cost the target's device memory.
constexpr int most_reads = 16;

}  // namespace

transfers::transfers(engine& e) noexcept : engine_(e) {
  using takes = handler_entry::takes;
  e.add_system_handler(rma_set, {&transfers::on_set, this, 7, takes::nothing});
  add_atomic_handlers(e);
  e.add_system_handler(rma_done, {&transfers::on_done, this, 2, takes::nothing});
  e.add_system_handler(rma_put, {&transfers::on_put, this, 4, takes::payload});
  e.add_system_handler(rma_get, {&transfers::on_get, this, 8, takes::nothing});
  e.add_system_handler(rma_got, {&transfers::on_got, this, 4, takes::payload});
}
transfers::~transfers() = default;

void transfers::know_segments() {
  windows_ = std::make_unique<detail::window[]>(engine_.size_);
  for (std::uint32_t r = 0; r < engine_.size_; ++r)
    windows_[r].base = reinterpret_cast<std::uintptr_t>(engine_.peers_[r].segment_base);
}

void transfers::note_mapped(rank_id r, std::byte* base) noexcept {
  detail::window& w = windows_[r];
  if (w.bytes.load(std::memory_order_relaxed) != 0) return;
  w.here.store(base, std::memory_order_relaxed);
  // W1 window  release bytes  -> W2 (penstock/rma.hpp): here is there
  w.bytes.store(engine_.peers_[r].segment_bytes, std::memory_order_release);
}

void transfers::forget_mapped() noexcept {
  for (std::uint32_t r = 0; windows_ != nullptr && r < engine_.size_; ++r)
    windows_[r].bytes.store(0, std::memory_order_relaxed);
}

void transfers::close() noexcept {
  report();
  // What was in flight when the job ended gives its leases back first.
  for (peer& p : engine_.peers_) p.transfers.reset();
  remote_ = nullptr;
  everywhere_.reset();
  slots_.reset();
  memory_.reset();
  pool_.reset();
  temporaries_.reset();
  heap_seen_.store(nullptr, std::memory_order_relaxed);
  heap_.reset();
  program_heap_.reset();
  for (std::uint32_t i = 0; i < engine_.domain_count_; ++i)
    if (ibv_cq*& cq = engine_.domains_[i].transfers; cq != nullptr)
      engine_.device_.verbs->destroy_cq(std::exchange(cq, nullptr));
}

// Verbs path only; the segment is attached.
result<void> transfers::open() {
  const engine& e = engine_;
  const ibv_device_attr& limits = e.device_.limits;
  reads_ = static_cast<std::uint8_t>(
      std::clamp(std::min(limits.max_qp_rd_atom, limits.max_qp_init_rd_atom), 1, most_reads));
  // Words outside segments have no key that lasts: their atomics travel as messages.
  device_atomics_ = limits.atomic_cap != IBV_ATOMIC_NONE && !everything_;
  max_inline_ = e.max_inline_;
  max_piece_ = std::min<std::size_t>(e.device_.max_message(), std::size_t{1} << 30);
  const std::size_t chunk_bytes = e.sizes().chunk_bytes;
  put_bounce_ = std::min<std::size_t>(e.settings_.put_bounce_limit, chunk_bytes);
  get_bounce_ = std::min<std::size_t>(e.settings_.get_bounce_limit, chunk_bytes);

  // One completion queue for all of a domain. Where it is shorter than all queue pairs together,
  // these share its entries as tickets.
  depth_ = std::min(e.settings_.op_oust_pp, e.settings_.msg_limit);
  const std::uint64_t together = std::uint64_t{depth_} * e.size_;
  const auto entries = static_cast<std::uint32_t>(
      std::min({together, std::uint64_t{e.settings_.msg_limit},
                std::uint64_t{static_cast<std::uint32_t>(limits.max_cqe)}}));
  shares_tickets_ = together > entries;
  for (std::uint32_t i = 0; i < e.domain_count_; ++i) {
    ibv_cq*& cq = engine_.domains_[i].transfers;
    cq = e.device_.verbs->create_cq(e.device_.context, static_cast<int>(entries), nullptr, nullptr,
                                    0);
    engine_.domains_[i].transfer_room.open(entries);
    if (cq == nullptr)
      return failure{
          "ibv_create_cq of " + std::to_string(entries) + " entries on " + e.device_.name, errno,
          "raise ulimit -l, or lower PENSTOCK_OP_OUST_PP"};
  }

  memreg::arena_options o;
  o.name = "penstock-slots";
  o.block_bytes = std::size_t{slot_count} * slot_bytes;
  memory_ = std::make_unique<memreg::arena>(e.registrar_.get(), o);
  auto slots = queues::chunk_pool::open(*memory_, slot_count, slot_bytes);
  if (!slots) return slots.error();
  slots_ = std::move(*slots);

  program_heap_ = memreg::program_heap::create(*e.registrar_);
  temporaries_ = std::make_unique<memreg::temporary_pool>(*e.registrar_, e.settings_.tmpmd_limit);
  if (e.settings_.use_firehose) {
    firehose::pool_settings f;
    f.max_bytes = e.settings_.firehose_maxvictim_m;
    f.max_regions = e.settings_.firehose_maxvictim_r;
    f.max_region_bytes = e.settings_.firehose_maxregion_size;
    if (everything_) make_room_for_peers(f);
    // shm0 reaches memory by its address, not by pages held: no registration of it can be stale.
    if (e.device_.shared_memory)
      f.protect = firehose::protection::none;
    else
      firehose::offer_interposing();
    auto pool = firehose::pool::create(*e.registrar_, f);
    if (!pool) return pool.error();
    pool_ = std::move(*pool);
    log(log_level::info, "firehose: %s", pool_->protection_text());
  }
  if (everything_ && pool_) return open_everything();
  return {};
}

// Nothing is received on these queue pairs but what remote firehoses say to each other.
void transfers::describe_queue(const peer& p, ibv_qp_init_attr& init) const noexcept {
  init.send_cq = init.recv_cq = p.home->transfers;
  init.cap.max_send_wr = depth_;
  init.cap.max_recv_wr = 1;
  init.cap.max_recv_sge = 1;
  init.cap.max_inline_data = max_inline_;
  if (everywhere_ && p.home->index == 0) everywhere_->describe_queue(init);
}

// What every operation asks first. here: where `at` is mapped, or null.
status transfers::begin(rank_id to, const void* at, std::size_t bytes, std::byte*& here) noexcept {
  here = nullptr;
  if (running != nullptr) [[unlikely]]
    return status::in_handler;
  if (to >= engine_.size_) [[unlikely]]
    return status::bad_rank;
  if (!engine_.started_) [[unlikely]]
    return engine::over();
  if (bytes == 0) return status::ok;
  const peer& p = engine_.peers_[to];
  if (!engine::in_segment(p, at, bytes)) [[unlikely]]
    return begin_anywhere(to, at, bytes, here);
  if (!engine_.direct_ && to != engine_.rank_) return everything_ ? settle_changes() : status::ok;
  std::byte* const base = engine_.segment_here(to);
  if (base == nullptr) [[unlikely]]
    return status::peer_dead;
  here = base + (static_cast<const std::byte*>(at) - p.segment_base);
  note_mapped(to, base);
  return status::ok;
}

status transfers::put(rank_id to, void* dest, const void* src, std::size_t bytes, reuse r,
                      op_counter& c) noexcept {
  std::byte* here = nullptr;
  if (const status s = begin(to, dest, bytes, here); s != status::ok || bytes == 0) return s;
  if (here != nullptr) {
    std::memmove(here, src, bytes);
    return status::ok;
  }
  if (engine_.direct_) [[unlikely]]
    return copy_far(to, reinterpret_cast<std::uintptr_t>(dest),
                    const_cast<std::byte*>(static_cast<const std::byte*>(src)), bytes, true, c);
  if (bytes <= max_inline_ && !everything_) return put_inline(to, dest, src, bytes, c);
  // What is larger than a copy in a chunk leaves from its place; then a caller who wants the source
  // back at once waits for the whole operation, since a write has left when it has arrived.
  op_counter local{0};
  const bool wait_here =
      r == reuse::on_return && bytes > std::max<std::size_t>(put_bounce_, max_inline_);
  op_counter& count = wait_here ? local : c;
  if (wait_here) r = reuse::on_completion;
  peer& p = channel(to);
  const auto* from = static_cast<const std::byte*>(src);
  auto at = reinterpret_cast<std::uintptr_t>(dest);
  status s = status::ok;
  while (bytes != 0) {
    part local_part;
    s = insist([&]() noexcept { return source(from, bytes, r, local_part); });
    if (s == status::ok) s = move(p, IBV_WR_RDMA_WRITE, at, local_part, count);
    if (s == status::unsupported) {  // the peer cannot let others write there
      local_part.bytes = std::min<std::size_t>(bytes, max_medium);
      s = put_by_message(to, at, from, local_part.bytes, count);
    }
    if (s != status::ok) break;
    from += local_part.bytes, at += local_part.bytes, bytes -= local_part.bytes;
  }
  if (wait_here) settle(local);
  return s;
}

// The shortest way: the source is free again when this returns.
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
  wr.wr.rdma.rkey = p.segment_rkey;
  transfer_record r;
  r.counter = &c;
  return push(p, wr, r);
}

status transfers::get(void* dest, rank_id from, const void* src, std::size_t bytes,
                      op_counter& c) noexcept {
  std::byte* here = nullptr;
  if (const status s = begin(from, src, bytes, here); s != status::ok || bytes == 0) return s;
  if (here != nullptr) {
    std::memmove(dest, here, bytes);
    return status::ok;
  }
  auto* to = static_cast<std::byte*>(dest);
  if (engine_.direct_) [[unlikely]]
    return copy_far(from, reinterpret_cast<std::uintptr_t>(src), to, bytes, false, c);
  peer& p = channel(from);
  auto at = reinterpret_cast<std::uintptr_t>(src);
  while (bytes != 0) {
    part local_part;
    status s = insist([&]() noexcept { return destination(to, bytes, local_part); });
    if (s == status::ok) s = move(p, IBV_WR_RDMA_READ, at, local_part, c);
    if (s == status::unsupported) {
      local_part.bytes = std::min<std::size_t>(bytes, max_medium);
      s = get_by_message(from, at, to, local_part.bytes, c);
    }
    if (s != status::ok) return s;
    to += local_part.bytes, at += local_part.bytes, bytes -= local_part.bytes;
  }
  return status::ok;
}

status transfers::set(rank_id to, void* dest, int value, std::size_t bytes,
                      op_counter& c) noexcept {
  std::byte* here = nullptr;
  if (const status s = begin(to, dest, bytes, here); s != status::ok || bytes == 0) return s;
  if (here != nullptr) {
    std::memset(here, value, bytes);
    return status::ok;
  }
  if (!everything_ && bytes <= engine_.sizes().chunk_bytes) {
    part filled;
    status s = insist([&]() noexcept { return chunk(bytes, filled); });
    if (s != status::ok) return s;
    std::memset(reinterpret_cast<void*>(filled.at), value, bytes);
    return move(channel(to), IBV_WR_RDMA_WRITE, reinterpret_cast<std::uintptr_t>(dest), filled, c);
  }
  std::uint32_t args[7];
  const std::uint64_t length = bytes;
  op_counter* const counter = &c;
  std::memcpy(args, &dest, 8);
  std::memcpy(args + 2, &length, 8);
  std::memcpy(args + 4, &counter, 8);
  args[6] = static_cast<unsigned char>(value);
  // relaxed: the message carries the order to whoever completes it
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
  if (here != nullptr && engine_.device_.shared_memory) {
    // The shared-memory device uses the processor's atomics itself.
    std::atomic_ref word(*reinterpret_cast<std::uint64_t*>(here));
    if (op == device_atomic::fetch_add)
      a = word.fetch_add(a, std::memory_order_acq_rel);
    else
      (void)word.compare_exchange_strong(a, b, std::memory_order_acq_rel,
                                         std::memory_order_acquire);
    if (old != nullptr) *old = a;
    return status::ok;
  }
  transfer_record r;
  const status s = insist([&]() noexcept {
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
  wr.wr.atomic.rkey = engine_.peers_[to].segment_rkey;
  wr.wr.atomic.compare_add = a;
  wr.wr.atomic.swap = b;
  return push(channel(to), wr, r);
}

// ---- the local side of a piece ----

// As much of [from, from+bytes) as one registration, chunk or work request takes.
status transfers::source(const std::byte* from, std::size_t bytes, reuse r, part& out) noexcept {
  if (bytes <= max_inline_) {
    out.at = reinterpret_cast<std::uintptr_t>(from);
    out.bytes = bytes;
    out.inlined = true;
    return status::ok;
  }
  if (r == reuse::on_completion || bytes > put_bounce_)
    if (const std::uint32_t* key = own_key(from, out.bytes = bytes)) {
      out.at = reinterpret_cast<std::uintptr_t>(from);
      out.lkey = *key;
      return status::ok;
    }
  if (bytes > put_bounce_)
    if (const status s = registered(from, bytes, firehose::purpose::source, out);
        s != status::unsupported)
      return s;
  const status s = chunk(std::min<std::size_t>(bytes, engine_.sizes().chunk_bytes), out);
  if (s == status::ok) std::memcpy(reinterpret_cast<void*>(out.at), from, out.bytes);
  return s;
}

status transfers::destination(std::byte* to, std::size_t bytes, part& out) noexcept {
  if (const std::uint32_t* key = own_key(to, out.bytes = bytes)) {
    out.at = reinterpret_cast<std::uintptr_t>(to);
    out.lkey = *key;
    return status::ok;
  }
  out.hold.copy_to = nullptr;
  if (bytes > slot_bytes && bytes > get_bounce_)
    if (const status s = registered(to, bytes, firehose::purpose::destination, out);
        s != status::unsupported)
      return s;
  if (bytes <= slot_bytes) {
    const auto slot = slots_->take();
    if (!slot) return status::no_chunk;
    out.hold.slot = static_cast<std::uint16_t>(*slot);
    out.at = reinterpret_cast<std::uintptr_t>(slots_->at(*slot));
    out.lkey = slots_->keys().lkey;
    out.bytes = bytes;
  } else if (const status s = chunk(std::min<std::size_t>(bytes, engine_.sizes().chunk_bytes), out);
             s != status::ok) {
    return s;
  }
  out.hold.copy_to = to;
  out.hold.copy_bytes = static_cast<std::uint32_t>(out.bytes);
  return status::ok;
}

// The key of memory that is registered for good: the segment's, or a heap's. Null: it is neither.
// bytes: what of it has this key; as much as was asked for, but in the program's heap.
const std::uint32_t* transfers::own_key(const void* at, std::size_t& bytes) const noexcept {
  if (engine_.segment_ && engine_.segment_->contains(at, bytes))
    return &engine_.segment_->keys().lkey;
  // H2 heap  acquire heap_seen_  <- H1
  const memreg::lasting_heap* const h = heap_seen_.load(std::memory_order_acquire);
  if (h == nullptr || !h->contains(at)) {
    const memreg::registration* const r = program_heap_ ? program_heap_->find(at, bytes) : nullptr;
    return r != nullptr ? &r->lkey : nullptr;
  }
  const memreg::registration& first = h->keys_of(at);
  const auto* const last = static_cast<const std::byte*>(at) + bytes - 1;
  return first.handle != nullptr && h->contains(last) && h->keys_of(last).handle == first.handle
             ? &first.lkey
             : nullptr;
}

// A heap for the program, made when it first asks.
result<memreg::lasting_heap*> transfers::heap(memreg::heap_maker make) {
  const std::lock_guard guard(heap_lock_);
  if (!heap_) {
    auto made = make(*engine_.registrar_);
    if (!made) return made.error();
    heap_ = std::move(*made);
    // H1 heap  release heap_seen_  -> H2
    heap_seen_.store(heap_.get(), std::memory_order_release);
  }
  return heap_.get();
}

// Through firehose or a temporary registration; unsupported: it takes a chunk.
status transfers::registered(const void* at, std::size_t bytes, firehose::purpose use,
                             part& out) noexcept {
  status s;
  out.at = reinterpret_cast<std::uintptr_t>(at);
  if (pool_) {
    s = pool_->acquire(at, bytes, use, out.hold.lease);
    if (s == status::ok) {
      out.lkey = out.hold.lease.lkey();
      out.bytes = out.hold.lease.bytes();
    }
  } else {
    const unsigned access =
        use == firehose::purpose::source ? memreg::access::local_read : memreg::access::local_write;
    s = temporaries_->try_register(const_cast<void*>(at), bytes, access, out.hold.registration);
    if (s == status::ok) {
      out.lkey = out.hold.registration.lkey();
      out.bytes = bytes;
    }
  }
  // Nothing more can be pinned, or not this memory, or not now: copying is always possible.
  return s == status::ok ? s : status::unsupported;
}

status transfers::chunk(std::size_t bytes, part& out) noexcept {
  const auto c = chunks().take();
  if (!c) return status::no_chunk;
  out.hold.chunk = static_cast<std::uint16_t>(*c);
  out.at = reinterpret_cast<std::uintptr_t>(chunks().at(*c));
  out.lkey = chunks().keys().lkey;
  out.bytes = bytes;
  return status::ok;
}

// ---- the queue ----

// Sends the piece in as many work requests as the device's longest message makes necessary; the
// last one holds what it needs. On a failure all is given back once nothing is in flight.
status transfers::move(peer& p, ibv_wr_opcode opcode, std::uint64_t remote, part& local,
                       op_counter& c) noexcept {
  std::uint32_t rkey = p.segment_rkey;
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
    if (const status s = push(p, wr, r); s != status::ok) {
      while (p.transfers && !p.transfers->empty()) (void)reap(*p.home);
      release(local.hold);
      return s;
    }
  }
  return status::ok;
}

// ---- large sets, at the target and back ----

void transfers::on_set(void* self, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  auto& e = static_cast<transfers*>(self)->engine_;
  const auto at = address_pair<std::byte>(args, 0);
  const auto bytes = word_pair(args, 2);
  const bool own = e.segment_ && e.segment_->contains(at, bytes);
  if (!own && !e.transfers_.everything_) [[unlikely]]
    fatal(1, "rank %u asks for bytes outside this segment to be set", running->source());
  std::memset(at, static_cast<int>(args[6]), bytes);
  if (const status s =
          e.reply(*running,
                  {.handler = rma_done, .flags = wire::flag_system, .nargs = 2, .args = args + 4});
      s != status::ok)
    fatal(1, "the answer to a set: %s", describe(s));
}

void transfers::on_done(void*, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  // R1 complete  release counter  -> P1
  address_pair<op_counter>(args, 0)->fetch_sub(1, std::memory_order_release);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
