// The exchange at start, in which all processes tell each other their addresses and settings, and
// check that they agree.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "lib/conduit/collective/host_page.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/introduction.hpp"
#include "lib/conduit/one_sided/rma.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr const char* credit_names[] = {"CRED_PER_NODE",   "BANKED_CREDITS",       "FLOW_CONTROL",
                                        "DYNAMIC_CREDITS", "MAX_CRED_PER_NODE",    "LENDER_LIMIT",
                                        "REVOKE_LIMIT",    "EPOCH_DURATION",       "NUM_SCAVENGE",
                                        "DECAY_LAST_CURR", "LENDER_COUNTS_REVOKED"};
static_assert(std::size(credit_names) == std::tuple_size_v<credit_numbers>);

credit_numbers numbers_of(const credit::config& c) noexcept {
  return {c.credits_per_peer,
          c.bank,
          c.flow_control ? 1u : 0u,
          c.dynamic ? 1u : 0u,
          c.max_per_peer,
          c.lender_limit,
          c.revoke_limit,
          c.epoch_requests,
          c.num_scavenge,
          c.fade == credit::decay::last_curr ? 1u : 0u,
          c.revoked == credit::revoked_at::lender ? 1u : 0u};
}

// The least room for credits that a rank's device has. None: they are all equal, or the ranks
// differ in more than their devices.
std::optional<credit::room> least_room(const std::vector<std::vector<std::byte>>& all) noexcept {
  std::optional<introduction> first;
  credit::room least;
  bool equal = true;
  for (const auto& bytes : all) {
    introduction his;
    if (bytes.size() != sizeof his) return {};
    std::memcpy(&his, bytes.data(), sizeof his);
    if (!first) first = his;
    if (his.version != first->version || his.direct != first->direct) return {};
    const credit::room room{his.credits_move != 0, his.room};
    if (room != credit::room{first->credits_move != 0, first->room}) equal = false;
    least = std::min(least, room);
  }
  if (equal) return {};
  return least;
}

std::uint32_t fingerprint(const handler_entry* table, unsigned n) noexcept {
  std::uint32_t h = 2166136261u;
  for (unsigned i = 0; i < n; ++i) {
    const std::uint32_t what =
        table[i].call == nullptr
            ? 0u
            : 1u + table[i].words * 4u + static_cast<std::uint32_t>(table[i].payload);
    h = (h ^ what) * 16777619u;
  }
  return h;
}

}  // namespace

// True if barriers are to be counted in a page of the host; rank 0 decides for all. Between two
// processes with a core each, dissemination is faster.
bool engine::counts_barriers() const noexcept {
  if (size_ != neighbours_.size() || size_ > counting_words::most_ranks) return false;
  return settings_.barrier == barrier_kind::counter ||
         (settings_.barrier == barrier_kind::automatic && settings_.barrier_shm && by_rings_ &&
          spins_before_yield_ == 1 && size_ > 1);
}

// Exchanges the introductions. The exchange ends when every process has posted the receives that
// messages to it need, so no message comes too early.
result<void> engine::introduce() {
  introduction mine;
  mine.address = device_.self;
  if (near_) mine.near_address = near_->device.self;
  mine.datagram_qp = datagram_port_->number();
  mine.handlers = fingerprint(handlers_.user, user_handlers);
  mine.credits = credit_config_.fingerprint();
  mine.each_credit = numbers_of(credit_config_);
  mine.credits_move = credit_room_.moves ? 1 : 0;
  mine.room = credit_room_.credits;
  mine.direct = settings_.direct && settings_.am_oust_limit == 0;
  mine.supernode_size = settings_.supernode_size;
  mine.leader = shares_memory_ ? neighbours_.front() : rank_;
  if (segment_) {
    mine.segment_base = reinterpret_cast<std::uintptr_t>(segment_->base());
    mine.segment_bytes = segment_->bytes();
    mine.segment_mapped = near_ || device_.shared_memory ? segment_->capacity() : segment_->bytes();
    mine.segment_rkey = mine.map_rkey = segment_->keys().rkey;
    if (near_) mine.map_rkey = near_->registration->rkey;
  }
  if (by_verbs_) mine.chunk_bytes = verbs_.sizes().chunk_bytes;
  mine.domains = domain_count_;
  mine.wakes = by_rings_ && channel_ != nullptr;
  mine.reads = transfers_->reads_here();
  mine.device_atomics = transfers_->device_atomics();
  mine.everything = transfers_->everything();
  if (rank_ == 0 && counts_barriers()) page_ = host_page::make();
  if (page_) mine.page = page_->offer();
  auto all = job_.exchange(std::as_bytes(std::span(&mine, 1)));
  if (!all) return all.error();
  if (const auto room = least_room(*all)) {
    // All ranks see this, make their queues again for the least room, and tell each other so.
    verbs_.close();
    if (auto r = plan_credits(*room); !r) return r;
    if (auto r = verbs_.open(channel_); !r) return r;
    return introduce();
  }
  host_page::ticket page;
  known_.open(size_, neighbours_);
  for (std::uint32_t r = 0; r < size_; ++r) {
    introduction his;
    const auto disagree = [r](const char* what, std::uint64_t here, std::uint64_t there) {
      return failure{std::string(what) + " differs: " + std::to_string(here) + " here, " +
                         std::to_string(there) + " at rank " + std::to_string(r),
                     0, "start all processes with the same program and settings"};
    };
    if ((*all)[r].size() != sizeof his)
      return disagree("the library", sizeof his, (*all)[r].size());
    std::memcpy(&his, (*all)[r].data(), sizeof his);
    if (r == 0) page = his.page;
    if (his.version != mine.version) return disagree("the wire version", mine.version, his.version);
    if (his.max_eager_bytes != max_eager)
      return disagree("PENSTOCK_MAX_MEDIUM of the build", max_eager, his.max_eager_bytes);
    if (his.handlers != mine.handlers)
      return disagree("the table of handlers (fingerprint)", mine.handlers, his.handlers);
    if (his.direct != mine.direct) return disagree("PENSTOCK_DIRECT", mine.direct, his.direct);
    for (std::size_t i = 0; i < std::size(credit_names); ++i)
      if (his.each_credit[i] != mine.each_credit[i])
        return disagree((std::string("PENSTOCK_") + credit_names[i]).c_str(), mine.each_credit[i],
                        his.each_credit[i]);
    if (his.credits != mine.credits)
      return disagree("the credit settings (fingerprint)", mine.credits, his.credits);
    if (his.supernode_size != mine.supernode_size)
      return disagree("PENSTOCK_SUPERNODE_MAXSIZE", mine.supernode_size, his.supernode_size);
    if (his.everything != mine.everything)
      return disagree("segment everything", mine.everything, his.everything);
    if (his.chunk_bytes != mine.chunk_bytes)
      return disagree("the size of send chunks", mine.chunk_bytes, his.chunk_bytes);
    if (his.domains != mine.domains)
      return disagree("PENSTOCK_DOMAIN_COUNT", mine.domains, his.domains);
    if (his.leader == r) leaders_.push_back(r);
    known_.add(r, {.address = his.address,
                   .near_address = his.near_address,
                   .datagram_qp = his.datagram_qp,
                   .segment_base = reinterpret_cast<std::byte*>(his.segment_base),
                   .segment_bytes = his.segment_bytes,
                   .segment_mapped = his.segment_mapped,
                   .segment_rkey = his.segment_rkey,
                   .map_rkey = his.map_rkey,
                   .wakes = his.wakes != 0,
                   .reads = static_cast<std::uint8_t>(std::clamp(his.reads, 1u, 255u))});
    transfers_->agree(his.device_atomics != 0);
  }
  known_.shut();
  all->clear();
  if (leaders_.size() == 1 || leaders_.size() == size_) leaders_ = {};
  // Messages to this process itself, and its own segment, need no connection. By the first peer of
  // a domain its threads know the domain (my_domain).
  for (std::uint32_t i = 0; i < domain_count_; ++i) {
    begun(domains_[i].peers[0]);
    peer& self = begun(domains_[i].peers[rank_]);
    if (segment_) self.segment_here.store(segment_->base(), std::memory_order_relaxed);
  }
  transfers_->know_segments();
  if (page.proof == 0) return {};
  auto shared = host_page::share(job_, page, std::move(page_));
  if (!shared) return shared.error();
  page_ = std::move(*shared);
  if (!page_ && rank_ == 0)
    log(log_level::info, "barriers go by messages: not all processes can map a page of rank 0");
  return {};
}

}  // namespace penstock::conduit::PENSTOCK_ABI
