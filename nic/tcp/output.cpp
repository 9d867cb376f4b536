#include "nic/tcp/output.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "lib/base/assert.hpp"
#include "nic/shm/page_guard.hpp"
#include "nic/tcp/peer_memory.hpp"

namespace penstock::nic::tcp {
namespace {
constexpr std::size_t block_bytes = 32 * 1024;
constexpr std::size_t most_spare = 8;
constexpr std::size_t most_owned = 1 << 20;    // of one reference that is copied
constexpr std::size_t most_at_once = 1 << 20;  // then others have a turn, and the thread its way
}  // namespace

void output::append(const void* from, std::size_t n) noexcept try {
  bytes_ += n;
  const auto* at = static_cast<const std::byte*>(from);
  while (n != 0) {
    if (pieces_.empty() || pieces_.back().room == 0) {
      piece& p = pieces_.emplace_back();
      if (spare_.empty()) {
        spare_.reserve(most_spare);
        p.own.resize(block_bytes);
      } else {
        p.own = std::move(spare_.back());
        spare_.pop_back();
      }
      p.at = p.own.data();
      p.room = block_bytes;
    }
    piece& p = pieces_.back();
    const std::size_t now = std::min(n, p.room);
    std::memcpy(const_cast<std::byte*>(p.at) + p.bytes, at, now);
    p.bytes += now;
    p.room -= now;
    at += now;
    n -= now;
  }
} catch (const std::bad_alloc&) {
  lost_ = true;
}

void output::refer(const std::byte* from, std::size_t n, const shm::queue_pair* of,
                   std::uint32_t key) noexcept try {
  if (n == 0) return;
  bytes_ += n;
  piece& p = pieces_.emplace_back();
  p.at = from;
  p.bytes = n;
  p.of = of;
  p.key = key;
} catch (const std::bad_alloc&) {
  lost_ = true;
}

output::went output::send(int socket) noexcept {
  if (lost_) return went::failed;
  for (std::size_t sent = 0; !pieces_.empty();) {
    if (sent >= most_at_once) return went::some;
    constexpr int most = 64;
    iovec v[most];
    int count = 0;
    std::size_t total = 0;
    for (auto p = pieces_.begin(); p != pieces_.end() && count < most && total < most_at_once;
         ++p) {
      const std::size_t now = std::min(p->bytes, most_at_once - total);
      v[count++] = {const_cast<std::byte*>(p->at), now};
      total += now;
    }
    msghdr m{};
    m.msg_iov = v;
    m.msg_iovlen = static_cast<std::size_t>(count);
    const ssize_t n = peer_memory::send(socket, m);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)) return went::some;
    if (n < 0 && errno == EFAULT) {
      // The program has unmapped memory that it sends from; the peer gets zeros.
      const auto gone = std::find_if(pieces_.begin(), pieces_.end(),
                                     [](const piece& p) { return p.own.empty(); });
      if (gone == pieces_.end() || gone->bytes > most_owned || !own(*gone)) return went::failed;
      continue;
    }
    if (n < 0) return went::failed;
    auto left = static_cast<std::size_t>(n);
    PENSTOCK_ASSERT(left, <=, bytes_);
    bytes_ -= left;
    sent += left;
    while (!pieces_.empty() && left >= pieces_.front().bytes) {
      piece& p = pieces_.front();
      left -= p.bytes;
      const bool block = !p.own.empty() && p.key == 0;
      if (block && spare_.size() < most_spare) spare_.push_back(std::move(p.own));
      pieces_.pop_front();
    }
    if (left != 0) pieces_.front().at += left, pieces_.front().bytes -= left;
  }
  return went::all;
}

bool output::own(piece& p) noexcept try {
  bytes_of_ours copy(p.bytes);
  if (!shm::guarded_copy(copy.data(), p.at, p.bytes)) std::memset(copy.data(), 0, p.bytes);
  p.own = std::move(copy);
  p.at = p.own.data();
  p.of = nullptr;
  p.key = ~0u;  // not a block
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

bool output::let_go(const shm::queue_pair* of, std::uint32_t key) noexcept {
  for (piece& p : pieces_) {
    if (!p.own.empty() || (p.of != of && (key == 0 || p.key != key))) continue;
    if (p.bytes > most_owned || !own(p)) return false;
  }
  return true;
}

void output::clear() noexcept {
  pieces_.clear();
  bytes_ = 0;
  lost_ = false;
}

}  // namespace penstock::nic::tcp
