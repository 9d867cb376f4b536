// Opens and closes what one-sided operations use: queues, slots and the registration cache of an
// endpoint. See rma.hpp.
#include <algorithm>
#include <cerrno>

#include "firehose/firehose.hpp"
#include "lib/base/shortage.hpp"
#include "lib/conduit/one_sided/rma_everything.hpp"
#include "lib/conduit/one_sided/rma_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

// The number of slots, and so of small gets and atomics in flight.
constexpr std::uint32_t slot_count = 512;
// Most registrations that Longs under way hold; the payloads of further Longs are copied.
constexpr std::uint32_t most_held = 256;
// Most reads in flight on one queue pair; more would only cost the target's device memory.
constexpr std::uint32_t most_reads = 16;

}  // namespace

transfers::transfers(engine& e, core& c, connections& l) noexcept
    : engine_(e), core_(c), connections_(l), rails_(e, c, *this) {
  using takes = handler_entry::takes;
  e.add_system_handler(rma_set, {&transfers::on_set, this, 7, takes::nothing});
  add_atomic_handlers(e);
  e.add_system_handler(rma_done, {&transfers::on_done, this, 2, takes::nothing});
  e.add_system_handler(rma_put, {&transfers::on_put, this, 4, takes::payload});
  e.add_system_handler(rma_get, {&transfers::on_get, this, 8, takes::nothing});
  e.add_system_handler(rma_got, {&transfers::on_got, this, 4, takes::payload});
}
transfers::~transfers() = default;

void transfers::know_segments() { windows_ = zero_array<detail::window>(core_.size()); }

void transfers::note_mapped(rank_id r, std::byte* base) noexcept {
  if (core_.options().checks) return;  // each call is looked at
  detail::window& w = windows_[r];
  if (w.bytes.load(std::memory_order_relaxed) != 0) return;
  const std::span<std::byte> mapped = engine_.segment_of(r);
  // relaxed: threads that map it at a time write the same; W1 carries both
  w.base.store(reinterpret_cast<std::uintptr_t>(mapped.data()), std::memory_order_relaxed);
  w.here.store(base, std::memory_order_relaxed);
  // W1 window  release bytes  -> W2 (penstock/rma.hpp): base and here are there
  w.bytes.store(mapped.size(), std::memory_order_release);
}

void transfers::forget_mapped() noexcept {
  for (const peer& p : core_.all_begun())
    if (!windows_.empty()) windows_[p.rank].bytes.store(0, std::memory_order_relaxed);
}

void transfers::close() noexcept {
  // Transfers that were in flight when the job ended give their leases back first.
  for (peer& p : core_.all_begun()) p.transfers.reset();
  rails_.close();
  remote_ = nullptr;
  everywhere_.reset();
  slots_.reset();
  memory_.reset();
  held_.reset();
  pool_.reset();
  temporaries_.reset();
  heap_seen_.store(nullptr, std::memory_order_relaxed);
  heap_.reset();
  program_heap_.reset();
  for (std::uint32_t i = 0; i < core_.domain_count(); ++i)
    if (ibv_cq*& cq = core_.domains()[i].transfers; cq != nullptr)
      core_.device().verbs->destroy_cq(std::exchange(cq, nullptr));
}

// Called where there are queue pairs, after the segment was attached.
result<void> transfers::open(ibv_comp_channel* channel) {
  const ibv_device_attr& limits = core_.device().limits;
  const auto asked =
      static_cast<int>(core_.options().rd_atom != 0 ? core_.options().rd_atom : most_reads);
  reads_ = static_cast<std::uint8_t>(
      std::clamp(std::min(limits.max_qp_rd_atom, limits.max_qp_init_rd_atom), 1, asked));
  if (core_.rank() == 0)
    log(log_level::info, "up to %u reads and atomics are in flight to a peer", reads_);
  // Words outside segments have no key that lasts: their atomics travel as messages.
  device_atomics_ = limits.atomic_cap != IBV_ATOMIC_NONE && !everything_;
  max_inline_ = core_.max_inline();
  max_piece_ = std::min<std::size_t>(core_.device().max_message(), std::size_t{1} << 30);
  const std::size_t chunk_bytes = core_.queue_sizes().chunk_bytes;
  put_bounce_ = std::min<std::size_t>(core_.options().put_bounce_limit, chunk_bytes);
  get_bounce_ = std::min<std::size_t>(core_.options().get_bounce_limit, chunk_bytes);

  // A domain has one completion queue. Where that has fewer entries than all its queue pairs
  // together, the queue pairs share the entries as tickets.
  const std::uint32_t limit = std::max(core_.options().msg_limit / core_.domain_count(), 1u);
  depth_ =
      std::min({core_.options().op_oust_pp, limit, static_cast<std::uint32_t>(limits.max_qp_wr)});
  const std::uint64_t together = std::uint64_t{depth_} * core_.size();
  const auto entries = static_cast<std::uint32_t>(std::min(
      {together, std::uint64_t{limit}, std::uint64_t{static_cast<std::uint32_t>(limits.max_cqe)}}));
  shares_tickets_ = together > entries;
  for (std::uint32_t i = 0; i < core_.domain_count(); ++i) {
    ibv_cq*& cq = core_.domains()[i].transfers;
    cq = core_.device().verbs->create_cq(core_.device().context, static_cast<int>(entries), nullptr,
                                         channel, 0);
    core_.domains()[i].transfer_room.open(entries);
    if (cq == nullptr)
      return failure{
          "ibv_create_cq of " + std::to_string(entries) + " entries on " + core_.device().name,
          errno, what_to_raise(errno, "PENSTOCK_OP_OUST_PP")};
  }

  memreg::arena_options o;
  o.name = "penstock-slots";
  o.block_bytes = std::size_t{slot_count} * slot_bytes;
  memory_ = std::make_unique<memreg::arena>(&core_.account().messages(), o);
  auto slots = queues::chunk_pool::open(*memory_, slot_count, slot_bytes);
  if (!slots) return slots.error();
  slots_ = std::move(*slots);

  program_heap_ = memreg::program_heap::create(core_.account().caches());
  temporaries_ = std::make_unique<memreg::temporary_pool>(core_.account().caches(),
                                                          core_.options().tmpmd_limit);
  held_ = std::make_unique<held_source[]>(most_held);
  held_free_ = std::make_unique<index_pool<build_mode>>(most_held);
  if (core_.options().use_firehose) {
    firehose::pool_settings f;
    f.max_bytes = core_.options().firehose_maxvictim_m;
    f.max_regions = core_.options().firehose_maxvictim_r;
    f.max_region_bytes = core_.options().firehose_maxregion_size;
    if (f.max_bytes == 0) f.max_bytes = std::uint64_t{f.max_regions} * f.max_region_bytes;
    // A quarter of what is left is for temporaries and heaps.
    const std::uint64_t left = core_.account().left_to_caches();
    f.max_bytes = std::min(f.max_bytes, everything_ ? left / 4 : left - left / 4);
    if (everything_) make_room_for_peers(f);
    constexpr std::uint64_t least_regions = 16;
    const std::uint64_t most_regions = core_.options().pinned_regions.of_each(
        static_cast<std::uint64_t>(limits.max_mr), std::max(core_.membership().host_size(), 1u));
    f.max_regions = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(f.max_regions, std::max(most_regions, least_regions)));
    // shm0 and tcp0 reach memory by its address, not by pages held: no registration can be stale.
    if (!core_.device().pins)
      f.protect = firehose::protection::none;
    else
      firehose::offer_interposing();
    auto pool = firehose::pool::create(core_.account().caches(), f);
    if (!pool) return pool.error();
    pool_ = std::move(*pool);
    log(log_level::info, "firehose: %s", pool_->protection_text());
  }
  if (auto r = rails_.open(pool_ ? &pool_->settings() : nullptr); !r) return r;
  if (everything_ && pool_) return open_everything();
  return {};
}

// These queue pairs receive nothing but control messages of remote firehoses.
void transfers::describe_queue(const peer& p, ibv_qp_init_attr& init) noexcept {
  init.send_cq = init.recv_cq = p.home->transfers;
  init.cap.max_send_wr = depth_;
  init.cap.max_recv_wr = 1;
  init.cap.max_recv_sge = 1;
  init.cap.max_inline_data = max_inline_;
  if (everywhere_ && p.home->index == 0) everywhere_->describe_queue(p, init);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
