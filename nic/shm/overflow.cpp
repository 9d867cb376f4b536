#include "nic/shm/overflow.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "lib/base/clock.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/base/shortage.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/message.hpp"
#include "nic/shm/peer.hpp"
#include "nic/shm/qp.hpp"

namespace penstock::nic::shm {

bool overflow::map() noexcept {
  void* p = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0);
  if (p == MAP_FAILED) return false;
  ::madvise(p, room, MADV_DONTDUMP);
  data_ = static_cast<std::byte*>(p);
  shared_ = reinterpret_cast<shared*>(p);
  return true;
}

overflow::~overflow() {
  if (data_ != nullptr) ::munmap(data_, room);
  if (fd_ >= 0) ::close(fd_);
}

std::unique_ptr<overflow> overflow::make() noexcept {
  static_assert(begin_of(0) + pieces_a_block * length_of(piece_bytes) + length_of(0) <= end_of(0));
  std::unique_ptr<overflow> o(new (std::nothrow) overflow);
  if (!o || !file_may_have(room)) return nullptr;
  o->fd_ = above_stdio(::memfd_create("penstock-overflow", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (o->fd_ < 0 || ::ftruncate(o->fd_, static_cast<off_t>(room)) != 0 ||
      ::fcntl(o->fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 || !o->map())
    return nullptr;
  o->accounts_.reset(new (std::nothrow) accounts);
  if (!o->accounts_) return nullptr;
  accounts& a = *o->accounts_;
  a.free_count = blocks - 1;  // all but the first, the next one on top
  for (std::uint32_t i = 0; i < a.free_count; ++i)
    a.free[i] = static_cast<std::uint16_t>(blocks - 1 - i);
  a.oldest = a.used_count = 0;
  return o;  // its counters are 0, as all of a new file
}

std::unique_ptr<overflow> overflow::of(int fd) noexcept {
  struct stat st {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(fd, &st) != 0 ||
      static_cast<std::uint64_t>(st.st_size) != room)
    return nullptr;
  std::unique_ptr<overflow> o(new (std::nothrow) overflow);
  if (!o) return nullptr;
  o->fd_ = above_stdio(::dup(fd));
  return o->fd_ >= 0 && o->map() ? std::move(o) : nullptr;
}

bool overflow::has_room(std::uint64_t pieces) noexcept {
  accounts& a = *accounts_;
  const std::uint64_t need = pieces / pieces_a_block + 1;
  const std::uint64_t gone = taken();
  for (; a.used_count != 0 && a.used[a.oldest].left_at <= gone; --a.used_count) {
    a.free[a.free_count++] = a.used[a.oldest].block;
    a.oldest = (a.oldest + 1) % blocks;
  }
  PENSTOCK_ASSERT(a.free_count + a.used_count, ==, blocks - 1);  // and the one that is filled
  return a.free_count >= need;
}

void overflow::next_block() noexcept {
  accounts& a = *accounts_;
  PENSTOCK_ASSERT(a.free_count, >, 0u);
  const std::uint32_t next = a.free[--a.free_count];
  PENSTOCK_ASSERT(next, !=, block_);
  *reinterpret_cast<record*>(data_ + at_) = {next, 0, op_turn};
  pass(length_of(0));
  PENSTOCK_ASSERT(at_, <=, end_of(block_));
  a.used[(a.oldest + a.used_count++) % blocks] = {sum_, static_cast<std::uint16_t>(block_)};
  block_ = next;
  at_ = begin_of(next);
  if (next >= most_) most_ = next + 1;
}

ring_rx::message overflow::front() noexcept {
  for (;;) {
    // O2 look  acquire shared.filled  <- O1
    const std::uint64_t filled = shared_->filled.load(std::memory_order_acquire);
    if (filled == sum_) return {};
    const ring_rx::message rubbish{&front_, 0, 255, nullptr};
    const std::uint64_t here = std::min(filled - sum_, end_of(block_) - at_);
    if (here < sizeof(record)) return rubbish;
    const record r = *reinterpret_cast<const record*>(data_ + at_);
    if (length_of(r.bytes) > here) return rubbish;
    front_.header = r.header;
    if (r.op != op_turn) return {&front_, r.bytes, r.op, data_ + at_ + sizeof(record)};
    if (at_ == begin_of(block_) || r.bytes != 0 || r.header >= blocks) return rubbish;
    pop({nullptr, 0, r.op, nullptr});
    block_ = static_cast<std::uint32_t>(r.header);
    at_ = begin_of(block_);
  }
}

bool follows_aside(queue_pair& qp) noexcept {
  if (!qp.to.aside->all_taken()) return true;
  qp.to.diverted = false;
  if (qp.to.aside->extent() > overflow_kept_bytes) qp.to.aside.reset();
  return false;
}

bool stands_still(queue_pair& qp, std::uint64_t position, std::uint64_t for_ns) noexcept {
  link& l = qp.to;
  const std::uint64_t now = now_ns();
  if (l.stuck_since == 0 || l.stuck_at != position) l.stuck_at = position, l.stuck_since = now;
  return now - l.stuck_since >= for_ns;
}

bool put_aside(queue_pair& qp, send_work& w, std::uint8_t op) noexcept {
  auto& aside = qp.to.aside;
  const bool fresh = aside == nullptr;
  const bool no_bytes = (op & kind_mask) == kind_write_imm;
  const std::uint32_t begun = w.offset, left = no_bytes ? 0 : w.bytes - begun;
  if (fresh && (aside = overflow::make()) == nullptr) return false;
  if (!fresh && aside->waiting() != 0 && aside->waiting() + left > overflow_enough_bytes &&
      !stands_still(qp, aside->taken(), stopped_after_ns))
    return false;
  if (!aside->has_room(left / overflow::piece_bytes + 1)) return false;
  const std::uint64_t header = message_header(w.bytes, w.imm);
  bool more;
  do {
    const std::uint32_t rest = no_bytes ? 0 : w.bytes - w.offset;
    const std::uint32_t piece = rest < overflow::piece_bytes ? rest : overflow::piece_bytes;
    more = piece < rest;
    aside->put(header, static_cast<std::uint8_t>(more ? op | flag_more : op), piece,
               [&](std::byte* to) { gather(w, w.offset, to, piece); });
    w.offset += piece;
  } while (more);
  request q = qp.remote->make(fresh ? request_kind::overflow : request_kind::take_in, peer_qpn(qp),
                              qp.qp_num);
  if (!fresh) {
    qp.remote->tell(q);
  } else if (send_packet(qp.remote->socket, &q, sizeof q, nullptr, 0, aside->fd()) != 0) {
    aside.reset();  // its socket is full: tried again
    w.offset = begun;
    return false;
  }
  qp.to.diverted = true;
  qp.to.claimed_at = ~std::uint64_t{0};  // the claim is the file's message's now (return_claim)
  return true;
}

}  // namespace penstock::nic::shm
