// What the service thread answers to a peer's requests. Whatever a request asks for is checked
// against our own tables: the QP it names must be connected to the QP it comes from.
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "nic/shm/context.hpp"
#include "nic/shm/fence.hpp"
#include "nic/shm/page_guard.hpp"
#include "nic/shm/peer.hpp"
#include "nic/shm/qp.hpp"
#include "nic/shm/service.hpp"

namespace penstock::nic::shm {
namespace {

/// The domain that a peer's requests through this QP reach. A request through XRC names no queue
/// here; programs give all their queues one domain.
std::uint32_t reached_pd(const queue_pair& qp) noexcept {
  return qp.domain != nullptr ? qp.domain->pd_number.load(std::memory_order_relaxed) : qp.pd_number;
}

/// A window of type 2 is open to one QP.
bool open_to(context& c, std::uint32_t rkey, const queue_pair& qp) noexcept {
  const std::uint32_t qpn =
      c.regions.at(region_table::index_of(rkey)).qpn.load(std::memory_order_relaxed);
  return qpn == 0 || qpn == qp.qp_num;
}

}  // namespace

void service_thread::answer(int socket, const visitor& v, const request& q,
                            std::size_t bytes) noexcept {
  switch (q.kind) {
    case request_kind::access_error: {
      const std::lock_guard guard(context_.objects);
      queue_pair* qp = connected_qp(context_, v.from, q.qpn, q.src_qpn);
      if (qp == nullptr || state_of(*qp) == IBV_QPS_ERR) return;
      enter_error(*qp);
      raise_qp(*qp, IBV_EVENT_QP_ACCESS_ERR);
      return;
    }
    case request_kind::memory_file:
      return hand_file(socket, v, q);
    case request_kind::moved_file: {
      reply a;
      a.serial = q.serial;
      return say(socket, a, nullptr, 0,
                 context_.moves_memory.load(std::memory_order_relaxed) ? moved_memory::file() : -1);
    }
    case request_kind::overflow:
      return;  // its file is all that it has to say
    default:
      return help(socket, v, q, bytes);
  }
}

void service_thread::say_hello(int socket, visitor& v, const request& q) noexcept {
  v.from = q.from;
  v.greeted = true;
  reply a;
  a.serial = q.serial;
  a.name = context_.name;
  a.barrier = join_barriers() ? 1 : 0;
  a.value = reinterpret_cast<std::uint64_t>(&context_.proof);
  a.proof = context_.proof;
  say(socket, a, nullptr, 0, context_.memory.fd());
}

void service_thread::hand_file(int socket, const visitor& v, const request& q) noexcept {
  reply a;
  a.serial = q.serial;
  a.error = EACCES;
  const std::lock_guard guard(context_.objects);
  const auto& r = context_.regions.at(region_table::index_of(q.rkey));
  const queue_pair* qp = connected_qp(context_, v.from, q.qpn, q.src_qpn);
  const std::uint64_t address = r.address.load(std::memory_order_relaxed);
  const std::uint64_t length = r.length.load(std::memory_order_relaxed);
  std::optional<shared_part> part;
  if (qp != nullptr && context_.regions.allows(q.rkey, reached_pd(*qp), address, length, 0) &&
      open_to(context_, q.rkey, *qp))
    part = r.moved.load(std::memory_order_relaxed)
               ? shared_part{address, length, address, moved_memory::file()}
               : find_shared(address, length);
  if (part) {
    a.error = 0;
    a.value = part->offset + (address - part->address);
    a.length = length;
    a.proof.high = address;
  }
  say(socket, a, nullptr, 0, part ? part->fd : -1);
}

void service_thread::take_overflow(const visitor& v, const request& q, int fd) noexcept {
  auto file = overflow::of(fd);
  const std::lock_guard guard(context_.objects);
  queue_pair* qp = file ? connected_qp(context_, v.from, q.qpn, q.src_qpn) : nullptr;
  if (qp == nullptr) return;
  // A sender gives the next file when this one has been emptied, so no earlier one is lost.
  // acq_rel: with the file goes what is behind the pointer
  delete qp->aside_given.exchange(file.release(), std::memory_order_acq_rel);
  // V1 given  release has_aside  -> V2: also what the peer had pushed into the ring before
  qp->has_aside.store(true, std::memory_order_release);
  of(qp->recv_cq).attention.raise();
  context_.asides = true;
  context_.pusher.kick();
}

void service_thread::help(int socket, const visitor& v, const request& q,
                          std::size_t bytes) noexcept {
  reply a;
  a.serial = q.serial;
  std::size_t out = 0;
  {
    const std::lock_guard guard(context_.objects);
    serving_.store(q.rkey, std::memory_order_relaxed);
    light_fence();  // T1, as a peer's touching: a thread that closes a window waits for this
    queue_pair* qp = connected_qp(context_, v.from, q.qpn, q.src_qpn);
    const bool read = q.kind == request_kind::copy_out, write = q.kind == request_kind::copy_in;
    const std::uint32_t need = read    ? IBV_ACCESS_REMOTE_READ
                               : write ? IBV_ACCESS_REMOTE_WRITE
                                       : IBV_ACCESS_REMOTE_ATOMIC;
    const bool known =
        read || write || q.kind == request_kind::fetch_add || q.kind == request_kind::compare_swap;
    const std::uint32_t length = read || write ? q.length : 8;
    auto* at = reinterpret_cast<std::byte*>(q.address);
    if (!known || length > wire_payload || (write && bytes != length) ||
        (!read && !write && q.address % 8 != 0)) {
      a.error = EINVAL;
    } else if (!read && !write && qp != nullptr && q.atomic != 0 &&
               qp->last_atomic.number == q.atomic && qp->last_atomic.from == v.from) {
      a.value = qp->last_atomic.old;  // its answer came too late, and the peer asks again
    } else if (qp == nullptr ||
               !context_.regions.allows(q.rkey, reached_pd(*qp), q.address, length, need) ||
               !open_to(context_, q.rkey, *qp)) {
      a.error = EACCES;
    } else if (context_.regions.allows(q.rkey, reached_pd(*qp), q.address, length,
                                       IBV_ACCESS_ON_DEMAND) &&
               check_mapped(q.address, length, !read) != 0) {
      a.error = EIO;  // EFAULT would be about the memory of the peer that asks
    } else if (read) {
      out = length;
      if (!guarded_copy(payload_.get(), at, length)) a.error = EIO, out = 0;
    } else if (write) {
      if (!guarded_copy(at, payload_.get(), length)) a.error = EIO;
    } else {
      std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(at));
      a.value = q.operand;
      const bool there = guarded([&] {
        // acq_rel: programs may order their own bytes by an atomic, as by a lock's
        if (q.kind == request_kind::fetch_add)
          a.value = word.fetch_add(q.operand, std::memory_order_acq_rel);
        else
          word.compare_exchange_strong(a.value, q.swap, std::memory_order_acq_rel,
                                       std::memory_order_acquire);
      });
      if (there)
        qp->last_atomic = {v.from, q.atomic, a.value};
      else
        a.error = EIO;
    }
    serving_.store(0, std::memory_order_release);  // release: the bytes are copied (serves())
  }
  say(socket, a, payload_.get(), out, -1);
}

}  // namespace penstock::nic::shm
