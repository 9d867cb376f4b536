// The pieces of large transfers on side rails: cutting, posting, completions. See rails.hpp.
#include "lib/conduit/one_sided/rails.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "lib/base/assert.hpp"
#include "lib/base/clock.hpp"
#include "lib/conduit/one_sided/rails_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr std::size_t longest = std::size_t{1} << 30;  // of a piece
constexpr std::size_t whole_lines = 4096;  // pieces begin as far apart as pages, for the copies
constexpr unsigned looks_between_events = 64;

}  // namespace

// Called by the thread that begins the transfer, or by the one that has seen a piece complete.
void rails::note_work() noexcept {
  std::size_t n = asks_;
  for (const auto& r : rails_) n += r->under_way + r->again.size();
  // W1 work  release work_  -> W2 (rails.hpp)
  work_.store(n, std::memory_order_release);
}

std::size_t rails::cut(const piece& whole) noexcept {
  const std::lock_guard inside(lock_);
  use_.clear();  // open() has made room for all rails
  for (const auto& r : rails_)
    if (link* const l = link_to(*r, whole)) use_.emplace_back(r.get(), l);
  std::size_t left = whole.bytes;
  const std::size_t even = left / (use_.size() + 1) & ~(whole_lines - 1);
  for (const auto& [r, l] : use_) {
    const std::size_t n = std::min({even, longest, std::size_t{r->device.max_message()}});
    left -= n;
    piece part = whole;
    part.remote += left, part.local += left, part.bytes = n;
    post(*r, *l, part);
  }
  note_work();
  return left;
}

// The link to a rank, which is made if there is none; null: there is no memory for it.
rails::link* rails::link_of(rail& r, rank_id rank) noexcept {
  try {
    return &r.links[rank];
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// For a piece, and for a rest of its transfer.
bool rails::has_room(const rail& r, const link& l) noexcept {
  return l.pieces.size() < r.depth && r.under_way < r.entries && r.spare.size() > 1;
}

// The link for a transfer, or null; asks for one that is missing.
rails::link* rails::link_to(rail& r, const piece& whole) noexcept {
  if (r.down) hear_events(r);
  if (r.down || r.gone) return nullptr;
  link* const found = link_of(r, whole.to->rank);
  if (found == nullptr) return nullptr;
  link& l = *found;
  if (l.at == link::stage::none && now_ns() >= l.not_before_ns) ask(r, l);
  const std::uint64_t offset = whole.remote - l.there.base;
  const bool reaches = offset <= l.there.bytes && whole.bytes <= l.there.bytes - offset;
  const std::uint64_t here =
      reinterpret_cast<std::uintptr_t>(whole.local) - reinterpret_cast<std::uintptr_t>(r.base);
  const bool has_key = r.cache || (here <= r.bytes && whole.bytes <= r.bytes - here);
  return l.at == link::stage::ready && reaches && has_key && has_room(r, l) ? &l : nullptr;
}

// The key of as much of the piece's memory as one registration covers. False: there is none now.
bool rails::key_of(rail& r, const piece& p, firehose::lease& lease, std::size_t& bytes,
                   std::uint32_t& lkey) noexcept {
  const std::uint64_t here =
      reinterpret_cast<std::uintptr_t>(p.local) - reinterpret_cast<std::uintptr_t>(r.base);
  bytes = p.bytes, lkey = r.segment.lkey;
  if (here <= r.bytes && p.bytes <= r.bytes - here) return true;
  const auto use =
      p.opcode == IBV_WR_RDMA_WRITE ? firehose::purpose::source : firehose::purpose::destination;
  if (r.cache->acquire(p.local, p.bytes, use, lease) != status::ok) return false;
  bytes = lease.bytes(), lkey = lease.lkey();
  return true;
}

// Posts the piece, or as much of it as finds room and keys; the rest goes by the first rail.
void rails::post(rail& r, link& l, piece p) noexcept {
  while (p.bytes != 0) {
    piece one = p;
    firehose::lease lease;
    std::uint32_t lkey = 0;
    if (!has_room(r, l) || !key_of(r, p, lease, one.bytes, lkey)) break;
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(one.local), static_cast<std::uint32_t>(one.bytes),
                lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = std::uint64_t{p.to->rank} << 32 | l.generation;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = p.opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = one.remote;
    wr.wr.rdma.rkey = l.there.rkey;
    if (const int e = ibv_post_send(l.qp, &wr, &bad); e != 0) {
      fail(r, p.to->rank, l, std::strerror(e));
      break;
    }
    // relaxed: completions are looked for inside lock_
    one.counter->fetch_add(1, std::memory_order_relaxed);
    ++r.under_way, ++r.pieces, r.carried += one.bytes;
    p.remote += one.bytes, p.local += one.bytes, p.bytes -= one.bytes;
    r.spare.front() = {one, std::move(lease)};
    l.pieces.splice(l.pieces.end(), r.spare, r.spare.begin());
  }
  if (p.bytes == 0) return;
  PENSTOCK_ASSERT(r.spare.size(), !=, 0u);
  p.counter->fetch_add(1, std::memory_order_relaxed);  // relaxed: as above
  r.spare.front().what = p;
  r.again.splice(r.again.end(), r.spare, r.spare.begin());
}

unsigned rails::reap_slow() noexcept {
  std::unique_lock inside(lock_, std::try_to_lock);
  if (!inside) return 0;
  unsigned n = 0;
  for (const auto& r : rails_) {
    n += reap(*r);
    if (r->looks++ % looks_between_events == 0) hear_events(*r);
    send_again(*r);
  }
  if (asks_ != 0 && running == nullptr) send_asks(inside);
  note_work();
  return n;
}

unsigned rails::reap(rail& r) noexcept {
  constexpr int batch = 16;
  ibv_wc wc[batch];
  const int n = ibv_poll_cq(r.cq, batch, wc);
  if (n < 0 && !r.gone) {
    r.gone = true;
    leave_out(r, "its completions cannot be polled");
  }
  for (int i = 0; i < n; ++i) {
    const auto rank = static_cast<rank_id>(wc[i].wr_id >> 32);
    const auto found = r.links.find(rank);
    if (found == r.links.end() || found->second.qp == nullptr ||
        found->second.generation != static_cast<std::uint32_t>(wc[i].wr_id))
      continue;
    link& l = found->second;
    if (wc[i].status != IBV_WC_SUCCESS) {
      fail(r, rank, l, r.device.verbs->wc_status_str(wc[i].status));
    } else if (l.at == link::stage::tried) {
      ready(r, rank, l);
    } else {
      op_counter* const counter = l.pieces.front().what.counter;
      l.pieces.front().lease.reset();
      r.spare.splice(r.spare.end(), l.pieces, l.pieces.begin());
      --r.under_way;
      // R1 complete  release counter  -> P1 (rma.hpp)
      counter->fetch_sub(1, std::memory_order_release);
    }
  }
  return n > 0 ? static_cast<unsigned>(n) : 0;
}

// Sends by the first rail what has been left over, as far as it finds room. What can go no more
// keeps nobody behind it waiting: the wait for it tells of its peer.
void rails::send_again(rail& r) noexcept {
  while (!r.again.empty()) {
    piece& p = r.again.front().what;
    std::size_t n = 0;
    const status s = transfers_.try_piece(p, n);
    const bool ends = (s != status::ok && !is_short(s)) || core_.is_gone(p.to->rank);
    if (is_short(s) && !ends) return;
    p.remote += n, p.local += n, p.bytes -= n;
    if (p.bytes != 0 && !ends) continue;
    // The work requests by which it went count for themselves, so this is not the last.
    // R1 complete  release counter  -> P1 (rma.hpp)
    p.counter->fetch_sub(1, std::memory_order_release);
    r.spare.splice(r.spare.end(), r.again, r.again.begin());
  }
}

}  // namespace penstock::conduit::PENSTOCK_ABI
