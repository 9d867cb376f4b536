#include "lib/conduit/peer/large_buffers.hpp"

#include "lib/base/assert.hpp"
#include "lib/base/cross_process.hpp"
#include "lib/base/log.hpp"
#include "lib/conduit/peer/core.hpp"
#include "nic/registrar.hpp"
#include "nic/shm/direct.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

large_buffers::large_buffers(core& c) noexcept : c_(c) {}

large_buffers::~large_buffers() {
  for (auto& b : blocks_)
    if (b.known.load(std::memory_order_relaxed)) c_.account().messages().dereg(b.keys);
  if (mapped_ != nullptr) nic::deregister_memory(c_.ring_device(), static_cast<ibv_mr*>(mapped_));
  if (memory_.base() != nullptr) nic::shm::forget_shared(memory_.base());
}

// Notes that there is no memory, and logs why, for the first time as an error.
void large_buffers::refuse(const char* what, const failure& why) noexcept {
  const bool known = refused_.exchange(true, std::memory_order_relaxed);
  log(known ? log_level::debug : log_level::error, "%s memory for Mediums by rendezvous: %s", what,
      why.message().c_str());
}

// Makes the memory at the first use: a file without pages, which ranks that share memory may map.
bool large_buffers::make() noexcept {
  const std::lock_guard hold(making_);
  if (made_.load(std::memory_order_relaxed)) return true;
  memreg::segment_options o;
  o.bytes = bytes();
  o.reserve = o.bytes;
  o.commit = memreg::commit_policy::lazy;
  o.huge_pages = false;
  o.name = "penstock-large";
  auto m = memreg::segment::create(o);
  if (!m) {
    refuse("making", m.error());
    return false;
  }
  memory_ = std::move(*m);
  if (c_.ring_device().shared_memory) {
    nic::shm::declare_shared(memory_.base(), memory_.capacity(), memory_.fd(), 0);
    auto r = nic::register_memory(c_.ring_device(), c_.near() ? c_.near()->pd : c_.pd(),
                                  memory_.base(), memory_.capacity(), memreg::access::all);
    if (!r) {
      refuse("sharing", r.error());
      return false;
    }
    map_key_ = r->rkey;
    mapped_ = r->mr;
  }
  // B3 made  release made_  -> take(): the memory is there
  made_.store(true, std::memory_order_release);
  return true;
}

void large_buffers::ready_offers(std::byte* base) noexcept {
  (void)nic::shm::take_pages(base + offset(offers), base + offset(offers + ready_ahead));
}

void large_buffers::prepare(bool verbs) noexcept {
  if (!make()) return;
  ready_offers(memory_.base());
  if (!verbs) return;
  for (const use u : {use::offer, use::fetched_offer})
    if (keys_of(numbers_of(u).first / a_block) == nullptr) return;
}

void large_buffers::where(std::uint64_t& base, std::uint32_t& key) const noexcept {
  // B3 made  acquire made_  <- make()
  if (!made_.load(std::memory_order_acquire)) return;
  base = reinterpret_cast<std::uintptr_t>(memory_.base());
  key = map_key_;
}

// The keys of a block with the engine's device; registers the block when they are first asked for.
// Any thread.
const memreg::registration* large_buffers::keys_of(unsigned block) noexcept {
  block_keys& b = blocks_[block];
  // B4 keys  acquire known  <- B4 (below)
  if (b.known.load(std::memory_order_acquire)) [[likely]]
    return &b.keys;
  const std::lock_guard hold(making_);
  if (b.known.load(std::memory_order_relaxed)) return &b.keys;
  const std::size_t first = block * a_block;
  auto r = c_.account().messages().reg(
      memory_.base() + offset(first), offset(first + a_block) - offset(first), memreg::access::all);
  if (!r) {
    refuse("registering", r.error());
    return nullptr;
  }
  b.keys = *r;
  // B4 keys  release known  -> B4 (above)
  b.known.store(true, std::memory_order_release);
  return &b.keys;
}

// True if the use that s describes has ended: the target has said so, or its process has ended.
bool large_buffers::is_done(unsigned i, std::uint64_t s) noexcept {
  const buffer_use::end e = use_[i].look(s, word(i));
  if (e.what == buffer_use::end::told) {
    tsan_hear_peer(at(static_cast<std::uint16_t>(i)));  // <- describe (large.cpp)
    return true;
  }
  const rank_id rank = buffer_use::rank_of(s);
  if (e.what == buffer_use::end::wrong) [[unlikely]]
    c_.peer_failed(c_.begun(c_.peers()[rank]), core::malformed);
  // What no message has told of is still its holder's, who gives it back.
  if (!buffer_use::was_sent(s) || !c_.is_gone(rank)) return false;
  buffer_use::tell_for_target(s, e.word, word(i));
  return true;
}

// True if rank `with` has fewer of these buffers than are free; in a job of two ranks, if any is
// free. As long as it has clearly fewer,
// this process's own words say so; then the targets' words are read, too, since what they have
// given back is free. Replies have a rule of their own (may_reply).
bool large_buffers::has_share_left(use u, rank_id with) noexcept {
  if (u == use::reply) return true;
  const numbers n = numbers_of(u);
  const bool alone = c_.size() <= 2;
  const auto fewer = [&](auto&& in_use) {
    unsigned of_rank = 0, free = 0;
    for (unsigned i = n.first; i < n.end; ++i) {
      const std::uint64_t s = use_[i].state();
      if (!buffer_use::is_out(s) || !in_use(i, s))
        ++free;
      else if (!alone && buffer_use::rank_of(s) == with)
        ++of_rank;
    }
    return of_rank < free;
  };
  return fewer([](unsigned, std::uint64_t) { return true; }) ||
         (told(u) && fewer([&](unsigned i, std::uint64_t s) { return !is_done(i, s); }));
}

std::uint16_t large_buffers::take(use u, rank_id with) noexcept {
  // B3 made  acquire made_  <- make()
  if (!made_.load(std::memory_order_acquire) && !make()) [[unlikely]]
    return none;
  if (!has_share_left(u, with)) return none;
  const bool by_word = told(u);
  const numbers n = numbers_of(u);
  for (unsigned i = n.first; i < n.end; ++i) {
    const std::uint64_t s = use_[i].state();
    const bool was_out = buffer_use::is_out(s);
    if ((was_out && !(by_word && is_done(i, s))) || !use_[i].try_begin(s, with)) continue;
    if (u == use::reply && !was_out) replies_out_.fetch_add(1, std::memory_order_relaxed);
    PENSTOCK_ASSERT(buffer_use::rank_of(use_[i].state_hint()), ==, with);
    return static_cast<std::uint16_t>(i);
  }
  return none;
}

bool large_buffers::has_offer(rank_id to) noexcept {
  if (!may_offer()) return false;
  // B3 made  acquire made_  <- make()
  return !made_.load(std::memory_order_acquire) || has_share_left(use::offer, to);
}

void large_buffers::sent(std::uint16_t i, std::uint16_t number) noexcept {
  PENSTOCK_ASSERT(i, <, use_.size());  // whether it is out is its target's matter by now
  use_[i].sent(number);
}

void large_buffers::give(std::uint16_t i) noexcept {
  PENSTOCK_ASSERT(buffer_use::is_out(use_[i].state_hint()), ==, true);  // it was taken
  const auto is = [i](use u) { return i >= numbers_of(u).first && i < numbers_of(u).end; };
  if (is(use::request) || is(use::reply) || is(use::offer))
    use_[i].give(word(i));
  else
    use_[i].give();
}

bool large_buffers::name(std::uint16_t i, bool mapped, wire::large_block& out) noexcept {
  PENSTOCK_ASSERT(buffer_use::is_out(use_[i].state_hint()), ==, true);
  out.number = static_cast<std::uint16_t>(buffer_use::number_of(use_[i].state_hint()));
  out.buffer = i;
  if (mapped) {
    out.base = reinterpret_cast<std::uintptr_t>(memory_.base());
    out.key = map_key_;
    return true;
  }
  const memreg::registration* const k = keys_of(i / a_block);
  if (k == nullptr) return false;
  out.base = reinterpret_cast<std::uintptr_t>(memory_.base());
  out.key = k->rkey;
  return true;
}

std::uint32_t large_buffers::local_key(std::uint16_t i) noexcept {
  const memreg::registration* const k = keys_of(i / a_block);
  return k != nullptr ? k->lkey : 0;
}

void large_buffers::lost(rank_id of) noexcept {
  if (lost_of_.exchange(of, std::memory_order_relaxed) != of)
    log(log_level::warning, "rank %u has left before its large Mediums were read: they are lost",
        of);
}

// Looks for replies that their targets have taken. True: a further reply may be sent.
bool large_buffers::fewer_replies() noexcept {
  const numbers n = numbers_of(use::reply);
  for (unsigned i = n.first; i < n.end; ++i) {
    const std::uint64_t s = use_[i].state();
    if (!buffer_use::is_out(s) || !is_done(i, s) || !use_[i].try_end(s)) continue;
    [[maybe_unused]] const auto out = replies_out_.fetch_sub(1, std::memory_order_relaxed);
    PENSTOCK_ASSERT(out, !=, 0u);
  }
  return replies_out() < most_replies;
}

bool large_buffers::may_reply() noexcept { return replies_out() < most_replies || fewer_replies(); }

bool large_buffers::may_reply(rank_id to) noexcept {
  if (replies_out() == 0) return true;
  if (!fewer_replies()) return false;
  const numbers n = numbers_of(use::reply);
  unsigned out = 0;
  for (unsigned i = n.first; i < n.end; ++i) {
    const std::uint64_t s = use_[i].state_hint();
    out += buffer_use::is_out(s) && buffer_use::rank_of(s) == to;
  }
  return out < most_replies_to_one;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
