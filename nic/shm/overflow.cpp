#include "nic/shm/overflow.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <new>

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
  std::unique_ptr<overflow> o(new (std::nothrow) overflow);
  if (!o || !file_may_have(room)) return nullptr;
  o->fd_ = above_stdio(::memfd_create("penstock-overflow", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (o->fd_ < 0 || ::ftruncate(o->fd_, static_cast<off_t>(room)) != 0 ||
      ::fcntl(o->fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 || !o->map())
    return nullptr;
  o->shared_->filled.store(begin, std::memory_order_relaxed);
  o->shared_->taken.store(begin, std::memory_order_relaxed);
  return o;
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

ring_rx::message overflow::front() noexcept {
  // O2 look  acquire shared.filled  <- O1
  const std::uint64_t filled = shared_->filled.load(std::memory_order_acquire);
  if (filled == at_) return {};
  if (filled > room || filled < at_ + sizeof(record)) return {&front_, 0, 255, nullptr};
  const record r = *reinterpret_cast<const record*>(data_ + at_);
  if (filled - at_ < length_of(r.bytes)) return {&front_, 0, 255, nullptr};
  front_.header = r.header;
  return {&front_, r.bytes, r.op, data_ + at_ + sizeof(record)};
}

bool follows_aside(queue_pair& qp) noexcept {
  if (!qp.to.aside->all_taken()) return true;
  qp.to.aside.reset();
  return false;
}

bool put_aside(queue_pair& qp, send_work& w, std::uint8_t op) noexcept {
  constexpr std::uint32_t piece_bytes = 1u << 20;
  auto& aside = qp.to.aside;
  const bool fresh = aside == nullptr;
  const bool no_bytes = (op & kind_mask) == kind_write_imm;
  const std::uint32_t begun = w.offset, left = no_bytes ? 0 : w.bytes - begun;
  if (fresh && (aside = overflow::make()) == nullptr) return false;
  if (!aside->has_room(std::uint64_t{left} + (left / piece_bytes + 1) * 64)) return false;
  const std::uint64_t header = message_header(w.bytes, w.imm);
  bool more;
  do {
    const std::uint32_t rest = no_bytes ? 0 : w.bytes - w.offset;
    const std::uint32_t piece = rest < piece_bytes ? rest : piece_bytes;
    more = piece < rest;
    [[maybe_unused]] const bool put =
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
  qp.to.claimed_at = ~std::uint64_t{0};  // the claim is the file's message's now (return_claim)
  return true;
}

}  // namespace penstock::nic::shm
