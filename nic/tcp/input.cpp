// What comes in: frames are cut out of the stream, and payloads go where they belong; long ones
// straight from the kernel.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/assert.hpp"
#include "nic/shm/page_guard.hpp"
#include "nic/tcp/network.hpp"
#include "nic/tcp/peer_memory.hpp"

namespace penstock::nic::tcp {
namespace {

using shm::queue_pair;
using goes = incoming::goes;

constexpr std::uint32_t direct_bytes = 8 * 1024;  // of a payload that is left: read into its place
// What is left is waited for, up to this length: so a datagram comes in one piece.
constexpr std::uint32_t whole_bytes = sizeof(shm::datagram_packet);
constexpr std::size_t most_direct = 512 * 1024;
constexpr int most_pieces = 16;
constexpr int looks_a_turn = 16;

}  // namespace

/// The memory of a list from `done` on, as far as its keys hold. Answers the number of pieces.
int pieces_of(const queue_pair& qp, const ibv_sge* list, std::uint32_t count, std::uint64_t done,
              std::uint32_t pd, iovec* v, int most) noexcept {
  int n = 0;
  for (std::uint32_t i = 0; i < count && n < most; ++i) {
    if (done >= list[i].length) {
      done -= list[i].length;
      continue;
    }
    const std::uint64_t at = list[i].addr + done, left = list[i].length - done;
    if (!qp.owner->regions.allows(list[i].lkey, pd, at, left, IBV_ACCESS_LOCAL_WRITE)) break;
    v[n++] = {reinterpret_cast<void*>(at), left};
    done = 0;
  }
  return n;
}

/// Reads what has come. False, with errno (0: it was closed): the connection is lost.
bool network::take_in(remote& r) noexcept {
  for (int i = 0; i < looks_a_turn; ++i) {
    ssize_t n;
    std::size_t asked_for = input_bytes - r.end;
    if (r.in.active && r.in.head.bytes - r.in.done >= direct_bytes) {
      n = receive_direct(r);
    } else {
      n = ::recv(r.socket, r.buffer.data() + r.end, asked_for, MSG_DONTWAIT);
      if (n > 0) r.end += static_cast<std::size_t>(n);
      if (n > 0 && static_cast<std::size_t>(n) < asked_for) i = looks_a_turn;  // that was all
    }
    moved_ = moved_ || n >= 0;
    if (n == 0) return errno = 0, false;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)) break;
    if (n < 0) return false;
    if (!parse(r)) return errno = EPROTO, false;
  }
  const std::lock_guard out(r.out.lock);
  if (r.owes_now && !r.blocked) send_out(r);
  return true;
}

/// Takes frames out of the buffer. False: what came makes no sense.
bool network::parse(remote& r) noexcept {
  for (;;) {
    if (!r.in.active) {
      if (r.end - r.begin < sizeof(frame_head)) break;
      frame_head& f = r.in.head;
      std::memcpy(&f, r.buffer.data() + r.begin, sizeof f);
      if (f.what == kind::none || f.what >= kind::count || f.bytes > shm::max_message_bytes)
        return false;
      const std::size_t more = more_head(f.what);
      if (r.end - r.begin < sizeof f + more) break;
      const std::byte* at = r.buffer.data() + r.begin + sizeof f;
      if (more != 0) std::memcpy(&r.in.place, at, sizeof r.in.place);
      if (is_atomic(f.what))
        std::memcpy(&r.in.operands, at + sizeof r.in.place, sizeof r.in.operands);
      r.begin += sizeof f + more;
      r.in.active = true;
      r.in.done = 0;
      r.in.qp = nullptr;
      r.in.where = goes::nowhere;
      r.in.counts = false;
      r.in.status = IBV_WC_SUCCESS;
      if (!begin(r)) return false;
    }
    const std::size_t left = r.in.head.bytes - r.in.done;
    const std::size_t here = std::min(left, r.end - r.begin);
    if (here < left && left <= whole_bytes) break;  // a word arrives whole
    if (here != 0) feed(r, r.buffer.data() + r.begin, here);
    r.begin += here;
    if (here < left) break;
    r.in.active = false;
    if (r.in.head.what == kind::answer) {
      result_ends(r);
    } else if (r.in.where == goes::datagram) {
      if (datagram_.head.version != shm::arena_version ||
          datagram_.head.bytes != r.in.head.bytes - sizeof(shm::datagram_head))
        return false;
      shm::take_datagram(*context_, datagram_);
    } else if (is_request(r.in.head.what)) {
      request_ends(r);
    }
  }
  if (r.begin == r.end) {
    r.begin = r.end = 0;
  } else if (r.begin != 0) {
    std::memmove(r.buffer.data(), r.buffer.data() + r.begin, r.end - r.begin);
    r.end -= r.begin;
    r.begin = 0;
  }
  return true;
}

bool network::begin(remote& r) noexcept {
  const frame_head& f = r.in.head;
  if (is_request(f.what)) return request_begins(r), true;
  switch (f.what) {
    case kind::answer:
      result_begins(r);
      return true;
    case kind::datagram:
      if (f.bytes < sizeof(shm::datagram_head) || f.bytes > sizeof datagram_) return false;
      r.in.where = goes::datagram;
      return true;
    case kind::bye:
      r.bye = true;
      return f.bytes == 0;
    default:
      heard(r, f);
      return f.bytes == 0;
  }
}

/// Puts n bytes of the payload where they belong.
void network::feed(remote& r, const std::byte* from, std::size_t n) noexcept {
  incoming& in = r.in;
  const auto bytes = static_cast<std::uint32_t>(n);
  switch (in.where) {
    case goes::receive: {
      const shm::hold guard(shm::of(in.qp->recv_cq).poll);
      const shm::assembly& m = in.qp->message;
      if (!m.active || in.status != IBV_WC_SUCCESS) break;
      in.status =
          shm::scatter(*in.qp, in.qp->pd_number, m.list, m.work.count, in.done, from, bytes);
      break;
    }
    case goes::memory: {
      if (in.status != IBV_WC_SUCCESS || (in.status = check(*in.qp, in)) != IBV_WC_SUCCESS) break;
      auto* to = reinterpret_cast<std::byte*>(in.place.address + in.done);
      if (!peer_memory::put(to, from, n)) in.status = IBV_WC_REM_OP_ERR;
      break;
    }
    case goes::result: {
      const shm::hold guard(in.qp->sending);
      iovec v[most_pieces];
      int k = result_pieces(*in.qp, in, v, most_pieces);
      std::size_t left = n;
      for (int i = 0; i < k && left != 0; ++i) {
        const std::size_t now = std::min(left, v[i].iov_len);
        if (!shm::guarded_copy(v[i].iov_base, from, now)) break;
        from += now, left -= now;
      }
      if (k != 0 && left != 0) in.status = IBV_WC_LOC_PROT_ERR;
      break;
    }
    case goes::datagram:
      PENSTOCK_ASSERT(n, ==, in.head.bytes);  // others' parts have no place
      std::memcpy(&datagram_, from, n);
      break;
    default:
      break;
  }
  in.done += bytes;
}

/// Reads into the payload's place, and what comes behind it into the buffer, which is empty.
ssize_t network::receive_direct(remote& r) noexcept {
  incoming& in = r.in;
  iovec v[most_pieces + 1];
  int k = 0;
  std::size_t room = std::min<std::size_t>(in.head.bytes - in.done, most_direct);
  const auto read = [&] {
    std::size_t sum = 0;
    for (int i = 0; i < k; ++i) {
      v[i].iov_len = std::min(v[i].iov_len, room - sum);
      sum += v[i].iov_len;
    }
    const bool all = k != 0 && sum == in.head.bytes - in.done;
    if (k == 0 || all) v[k++] = {r.buffer.data(), input_bytes};
    msghdr m{};
    m.msg_iov = v;
    m.msg_iovlen = static_cast<std::size_t>(k);
    const ssize_t n = peer_memory::receive(r.socket, m);
    if (n <= 0) return n;
    const std::size_t placed = std::min(static_cast<std::size_t>(n), sum);
    in.done += static_cast<std::uint32_t>(placed);
    r.begin = 0;
    r.end = static_cast<std::size_t>(n) - placed;
    return n;
  };
  ssize_t n = -1;
  errno = EFAULT;
  if (in.where == goes::receive && in.status == IBV_WC_SUCCESS) {
    const shm::hold guard(shm::of(in.qp->recv_cq).poll);
    const shm::assembly& m = in.qp->message;
    if (m.active)
      k = pieces_of(*in.qp, m.list, m.work.count, in.done, in.qp->pd_number, v, most_pieces);
    n = read();
  } else if (in.where == goes::memory && in.status == IBV_WC_SUCCESS) {
    in.status = check(*in.qp, in);
    if (in.status == IBV_WC_SUCCESS)
      v[k++] = {reinterpret_cast<void*>(in.place.address + in.done), in.head.bytes - in.done};
    n = read();
  } else if (in.where == goes::result && in.status == IBV_WC_SUCCESS) {
    const shm::hold guard(in.qp->sending);
    k = result_pieces(*in.qp, in, v, most_pieces);
    n = read();
  } else {
    n = read();
  }
  if (n < 0 && errno == EFAULT && in.status == IBV_WC_SUCCESS) {
    // The program has taken the memory away: the rest is read and dropped.
    in.status = in.where == goes::memory ? IBV_WC_REM_OP_ERR : IBV_WC_LOC_PROT_ERR;
    return errno = EINTR, -1;
  }
  return n;
}

}  // namespace penstock::nic::tcp
