#include "nic/shm/peer.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "lib/base/clock.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/base/log.hpp"
#include "lib/base/mapped_memory.hpp"
#include "lib/base/shortage.hpp"
#include "nic/shm/boundary.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/page_guard.hpp"

namespace penstock::nic::shm {
namespace {

constexpr std::uint64_t shortage_ns = 2'000'000'000;  // of descriptors or memory: tried again
constexpr std::uint64_t silence_ns = 10'000'000'000;  // of a peer: told in a line

/// A connected socket to the context of that name, or -1 with errno.
int connect_to(const nonce& name, std::uint64_t until) noexcept {
  const int s =
      opened("socket", ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (s < 0) return -1;
  const socket_name at = name_of(name, "");
  const sockaddr_un address = address_of(at);
  while (asked("connect", ::connect(s, reinterpret_cast<const sockaddr*>(&address), at.length)) !=
         0) {
    if (meaning_of(errno) == meaning::later && now_ns() < until) {  // its backlog is full: wait
      ::poll(nullptr, 0, 1);
      continue;
    }
    const int e = errno == ECONNREFUSED ? EHOSTUNREACH : errno == EAGAIN ? ETIMEDOUT : errno;
    ::close(s);
    return errno = e, -1;
  }
  return s;
}

/// Maps the arena whose descriptor came with the answer, if it is a valid arena.
int map_arena(peer& p, int fd) noexcept {
  struct stat st {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (::fstat(fd, &st) != 0 || st.st_size != static_cast<off_t>(arena_bytes) || seals < 0 ||
      (seals & F_SEAL_SHRINK) == 0)
    return EPROTO;
  void* m = asked("mmap", ::mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_NORESERVE, fd, 0));
  if (m == MAP_FAILED) return errno;
  ::madvise(m, arena_bytes, MADV_DONTDUMP);
  p.base = static_cast<std::byte*>(m);
  note_mapped("shm0's rings at others", m, arena_bytes);
  const auto& h = *reinterpret_cast<const arena_header*>(p.base);
  return h.magic == arena_magic && h.version == arena_version && h.name == p.name ? 0 : EPROTO;
}

/// Says hello, and takes what the answer tells of the peer.
int hear_answer(peer& p, std::uint64_t until) noexcept {
  reply a;
  int fd = -1;
  int e = p.ask(p.make(request_kind::hello, 0, 0), a, &fd, until);
  if (e == 0) e = a.error;
  if (e == 0 && (fd < 0 || a.name != p.name)) e = EPROTO;
  if (e == 0) e = map_arena(p, fd);
  if (fd >= 0) ::close(fd);
  if (e != 0) return e;
  // The peer has just answered, so the process id is still its own.
  if (p.pid > 0)
    p.process = kept(above_stdio(static_cast<int>(::syscall(SYS_pidfd_open, p.pid, 0))));
  p.proof_address = a.value;
  p.proof = a.proof;
  if (a.barrier == 0) p.self.timed_bells.store(true, std::memory_order_relaxed);
  return 0;
}

/// Makes the peer's acquaintance. After ETIMEDOUT the next call goes on from there.
int greet(peer& p) noexcept {
  const std::uint64_t until = now_ns() + p.self.greeting_ns;
  if (p.socket < 0) {
    p.socket = kept(connect_to(p.name, until));
    if (p.socket < 0) return errno;
    // Any process can bind an abstract name: only a process of this user is believed.
    if (const int e = same_user(p.socket, &p.pid)) return e;
  }
  int e = p.base != nullptr ? 0 : hear_answer(p, until);
  // So a first access to its memory needs no answer: it may be stopped by then.
  reply moved;
  if (e == 0 && p.self.moves_memory.load(std::memory_order_relaxed))
    e = p.ask(p.make(request_kind::moved_file, 0, 0), moved, &p.moved_fd, until);
  return e;
}

}  // namespace

peer::mapping::~mapping() {
  forget_mapped(whole);
  if (whole != nullptr) ::munmap(whole, whole_bytes);
}

peer::~peer() {
  forget_mapped(base);
  if (base != nullptr) ::munmap(base, arena_bytes);
  if (memory_fd >= 0) ::close(memory_fd);
  if (moved_fd >= 0) ::close(moved_fd);
  for (const auto& [key, q] : questions_)
    if (q.fd >= 0) ::close(q.fd);
  close_kept(socket);
  close_kept(process);
}

request peer::make(request_kind kind, std::uint32_t qpn, std::uint32_t src_qpn) const noexcept {
  request q;
  q.kind = kind;
  q.from = self.name;
  q.qpn = qpn;
  q.src_qpn = src_qpn;
  return q;
}

void peer::tell(const request& q) noexcept {
  if (q.kind == request_kind::access_error) {
    // The peer's service thread always reads: a full socket soon has room again.
    for (int i = 0; i < 1000 && send_packet(socket, &q, sizeof q, nullptr, 0, -1) == EAGAIN; ++i)
      ::sched_yield();
    return;
  }
  const iovec part{const_cast<request*>(&q), sizeof q};
  const int tries = q.kind == request_kind::refused ? 1000 : 1;
  for (int i = 0; i < tries; ++i) {
    const int e = send_to(self.pusher.datagram_socket(), bell, &part, 1);
    if (e == 0 || meaning_of(e) != meaning::later) return;
    if (i + 1 < tries) ::sched_yield();
  }
}

int peer::ask(const request& q, reply& a, int* fd, std::uint64_t until) noexcept {
  for (;;) {
    const int e = ask_later(q, nullptr, 0, a, nullptr, 0, fd, &asked_);
    if (e == 0 || e == EMFILE || (e != EINPROGRESS && meaning_of(e) != meaning::later)) return e;
    // What this machine is short of is named; else the peer did not answer.
    // relaxed: it is what a line says; another thread's question is short of the same
    const int shortage = short_of_.load(std::memory_order_relaxed);
    if (now_ns() >= until) return shortage != 0 ? shortage : ETIMEDOUT;
    // A millisecond at most: another thread may take the answer for this one.
    if (e == EINPROGRESS)
      (void)wait_readable(socket, 1);
    else
      ::poll(nullptr, 0, 1);
  }
}

/// Reads what has come, to the questions that it answers. 0 or an errno.
int peer::take_answers() noexcept {
  for (;;) {
    reply a;
    int fd = -1;
    const ssize_t n = receive_packet(socket, &a, sizeof a, arriving_.data(), arriving_.size(), &fd);
    if (n < 0 && errno != EMFILE) return errno == EAGAIN ? 0 : errno;
    for (auto& [by, q] : questions_)
      if (q.serial == a.serial && !q.answered) {
        q.answered = true;
        q.error = n < 0 ? EMFILE : 0;
        q.answer = a;
        q.fd = std::exchange(fd, -1);
        if (n > 0) q.payload.assign(arriving_.begin(), arriving_.begin() + n);
      }
    if (fd >= 0) ::close(fd);  // of a question that nobody waits for any more
  }
}

int peer::ask_later(request q, const void* payload, std::size_t bytes, reply& a, void* into,
                    std::size_t room, int* fd, std::uint64_t* ticket) noexcept {
  // As many answers as a socket certainly holds. One that has not come for long is asked for again.
  constexpr std::size_t most_open = 4;
  const std::uint64_t long_ns = self.answer_ns;
  const std::unique_lock guard(talk_, std::try_to_lock);
  if (!guard) return EINPROGRESS;
  if (fd != nullptr) *fd = -1;
  if (dead.load(std::memory_order_relaxed)) return EPIPE;
  try {
    if (q.kind == request_kind::copy_out) arriving_.resize(wire_payload);
    const int ended = take_answers();  // what came before it counts
    // All queue pairs that want a region's file wait for one answer.
    const std::uint32_t about = q.kind == request_kind::memory_file ? q.rkey : q.src_qpn;
    const std::uint64_t key = std::uint64_t{about} << 8 | static_cast<std::uint8_t>(q.kind);
    question& mine = questions_[key];
    if (*ticket != 0 && mine.serial == *ticket && mine.answered) {
      *ticket = 0;
      const question got = std::move(mine);
      questions_.erase(key);
      a = got.answer;
      if (fd != nullptr)
        *fd = got.fd;
      else if (got.fd >= 0)
        ::close(got.fd);
      if (got.error != 0) return got.error;
      if (got.payload.size() > room) return EPROTO;
      return got.payload.empty() || guarded_copy(into, got.payload.data(), got.payload.size())
                 ? 0
                 : EFAULT;
    }
    if (ended != 0) return ended;
    const std::uint64_t now = now_ns();
    if (*ticket != 0 && mine.serial == *ticket && now - mine.asked_ns < long_ns) return EINPROGRESS;
    if (mine.fd >= 0) ::close(mine.fd);
    mine = {};
    *ticket = 0;
    // Nobody asks on whose queue pair has gone. Who comes that late asks anew.
    std::erase_if(questions_, [&](const auto& old) {
      if (old.first == key || now - old.second.asked_ns <= 2 * long_ns) return false;
      if (old.second.fd >= 0) ::close(old.second.fd);
      return true;
    });
    if (std::count_if(questions_.begin(), questions_.end(), [](const auto& o) {
          return o.second.serial != 0 && !o.second.answered;
        }) >= static_cast<std::ptrdiff_t>(most_open))
      return EINPROGRESS;
    q.serial = ++serial_;
    const int sent = send_packet(socket, &q, sizeof q, payload, bytes, -1);
    // relaxed: it is what a line says
    short_of_.store(sent == EAGAIN ? 0 : sent, std::memory_order_relaxed);
    if (sent != 0) return meaning_of(sent) == meaning::later ? EINPROGRESS : sent;
    mine.serial = *ticket = q.serial;
    mine.asked_ns = now;
    return EINPROGRESS;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
}

std::shared_ptr<peer> find_peer(context& c, const nonce& name) {
  const auto known = [&]() -> std::shared_ptr<peer> {
    for (const auto& p : c.peers)
      if (p->name == name && !p->dead.load(std::memory_order_relaxed)) return p;
    return nullptr;
  };
  std::shared_ptr<peer> p;
  {
    const std::lock_guard guard(c.objects);
    if (auto met = known()) return met;
    const auto silent =
        std::ranges::find_if(c.silent_peers, [&](const auto& s) { return s->name == name; });
    if (silent != c.silent_peers.end()) {
      p = std::move(*silent);
      c.silent_peers.erase(silent);
    }
  }
  // Two threads may both connect; the second one's peer is dropped below.
  int e = 0;
  const std::uint64_t begun = now_ns();
  do {
    if (e != 0 || !p) {
      p = std::make_shared<peer>(c);
      p->name = name;
      p->bell = name_of(name, "-bell");
      p->direct_bell = name_of(name, "-direct");
      p->silent_since_ns = begun;
    }
    e = greet(*p);
  } while (e != 0 && e != ETIMEDOUT && meaning_of(e) == meaning::later &&
           now_ns() - begun < shortage_ns && ::poll(nullptr, 0, 10) == 0);
  if (e != 0 && meaning_of(e) == meaning::gone) return errno = EHOSTUNREACH, nullptr;
  bool tell = e != 0;
  if (e == ETIMEDOUT) {
    tell = now_ns() - p->silent_since_ns >= silence_ns;
    if (tell) p->silent_since_ns = now_ns();
    const std::lock_guard guard(c.objects);
    make_room(c.silent_peers);
    c.silent_peers.push_back(p);
  }
  if (e != 0 && !tell) return errno = e, nullptr;
  if (e != 0) {
    const failure why{"shm0: a peer cannot be reached", e,
                      e == ETIMEDOUT ? "is it stopped?"
                      : e == EACCES  ? "it belongs to another user"
                                     : what_to_raise(e)};
    log(log_level::warning, "%s", why.message().c_str());
    return errno = e, nullptr;
  }
  const std::lock_guard guard(c.objects);
  if (auto other = known()) return other;
  static std::atomic<std::uint64_t> ids{0};
  p->id = ids.fetch_add(1, std::memory_order_relaxed) + 1;
  make_room(c.peers);
  e = c.pusher.add_peer(p);
  if (e != 0) return errno = e, nullptr;
  c.peers.push_back(p);
  return p;
}

}  // namespace penstock::nic::shm
