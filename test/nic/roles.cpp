// The roles of the child process in the tests of shm0 with two processes.
#include <sys/mman.h>
#include <sys/prctl.h>

#include <map>

#include "nic/shm/moved_memory.hpp"
#include "nic/shm/page_guard.hpp"
#include "test/nic/child.hpp"

namespace rig {
namespace {

constexpr int parent = 3;

/// REQUIRE is the test runner's; here a failure is an exit code.
#define NEED(x)                          \
  do {                                   \
    if (!(x)) return __LINE__ % 200 + 1; \
  } while (0)

int join(side& s, card* theirs) {
  *theirs = exchange(parent, card_of(s));
  NEED(s.to_rtr(s.qp, theirs->gid, theirs->qpn) == 0);
  NEED(s.to_rts(s.qp) == 0);
  char c = 'x';
  NEED(::write(parent, &c, 1) == 1);
  NEED(::read(parent, &c, 1) == 1);
  return 0;
}

/// Sends back what it receives, until the parent closes the socket or 64 KB have come at once.
int echo() {
  side s;
  card theirs;
  for (std::uint64_t i = 0; i < 32; ++i) NEED(s.receive(i, i * 4096, 4096) == 0);
  if (const int e = join(s, &theirs)) return e;
  for (int n = 0; n < 10'000; ++n) {
    const ibv_wc r = s.received();
    NEED(r.status == IBV_WC_SUCCESS);
    NEED(s.send(r.wr_id, r.wr_id * 4096, r.byte_len) == 0);
    NEED(s.sent().status == IBV_WC_SUCCESS);
    NEED(s.receive(r.wr_id, r.wr_id * 4096, 4096) == 0);
  }
  char c;
  NEED(::read(parent, &c, 1) == 0);
  return 0;
}

/// Connected, with receives posted; then waits to be killed.
int victim() {
  side s;
  card theirs;
  for (std::uint64_t i = 0; i < 4; ++i) NEED(s.receive(i, i * 64, 64) == 0);
  if (const int e = join(s, &theirs)) return e;
  for (;;) ::pause();
}

/// The same, with memory from malloc that peers map.
int mapped_victim() {
  penstock::nic::shm::moved_memory::make_file();
  side s(moving());
  card theirs;
  if (const int e = join(s, &theirs)) return e;
  for (;;) ::pause();
}

/// The same, with a child of its own that inherits every descriptor, and outlives it until the test
/// closes its end of the socket. It says when it is there.
int parent_of_heir() {
  side s;
  card theirs;
  if (const int e = join(s, &theirs)) return e;
  if (::fork() == 0) {
    char c = 'h';
    NEED(::write(parent, &c, 1) == 1);
    NEED(::read(parent, &c, 1) == 0);
    ::_exit(0);
  }
  for (;;) ::pause();
}

/// Floods the parent until it is killed.
int flooder() {
  side s;
  card theirs;
  if (const int e = join(s, &theirs)) return e;
  for (;;) {
    if (s.send(1, 0, 40) == 0 && s.sent().status != IBV_WC_SUCCESS) return 0;
  }
}

/// Offers its memory; ends when the parent closes the socket.
int memory() {
  side s;
  card theirs;
  if (const int e = join(s, &theirs)) return e;
  char c;
  NEED(::read(parent, &c, 1) == 0);
  return s.memory[0] == std::byte{17} ? 0 : 1;
}

/// The same, by a process whose memory nobody may touch: its service thread must help.
int closed_memory() {
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  return memory();
}

/// Takes the messages of "a receiver that does not run …" (shm_process_test.cpp), and answers.
int taker() {
  options o;
  o.recv_wr = 256;
  o.cqe = 512;
  o.memory = card::many * card::most;
  side s(o);
  card theirs;
  for (std::uint64_t i = 0; i < card::many; ++i)
    NEED(s.receive(i, i * card::most, card::most) == 0);
  if (const int e = join(s, &theirs)) return e;
  for (std::uint64_t i = 0; i < card::many; ++i) {
    const ibv_wc r = s.received();
    NEED(r.status == IBV_WC_SUCCESS && r.wr_id == i && r.byte_len == card::size_of(i));
    const std::byte* at = s.memory.data() + i * card::most;
    NEED(std::memcmp(at, &i, sizeof i) == 0);
    NEED(std::memcmp(at + r.byte_len - sizeof i, &i, sizeof i) == 0);
  }
  // The ring is used again.
  for (std::uint64_t i = 0; i < 100; ++i) {
    NEED(s.receive(i, 0, card::most) == 0);
    NEED(s.send(i, 0, 8) == 0);
    NEED(s.sent().status == IBV_WC_SUCCESS);
    const ibv_wc r = s.received();
    NEED(r.status == IBV_WC_SUCCESS && r.wr_id == i && r.byte_len == card::size_of(i));
  }
  char c;
  NEED(::read(parent, &c, 1) == 0);
  return 0;
}

/// Offers memory that it has unmapped, or closed to itself; ends when the parent closes the socket.
int memory_that_goes(bool unmapped) {
  penstock::nic::shm::install_page_guard();
  side s;
  const std::size_t bytes = 1 << 16;
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ibv_mr* mr = s.v.reg_mr(s.pd, at, bytes,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                              IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
  NEED(mr != nullptr);
  card mine = card_of(s);
  mine.rkey = mr->rkey;
  mine.address = reinterpret_cast<std::uint64_t>(at);
  NEED((unmapped ? ::munmap(at, bytes) : ::mprotect(at, bytes, PROT_NONE)) == 0);
  const card theirs = exchange(parent, mine);
  NEED(s.to_rtr(s.qp, theirs.gid, theirs.qpn) == 0);
  NEED(s.to_rts(s.qp) == 0);
  char c = 'x';
  NEED(::write(parent, &c, 1) == 1);
  NEED(::read(parent, &c, 1) == 1);
  NEED(::read(parent, &c, 1) == 0);
  NEED(s.v.dereg_mr(mr) == 0);
  return 0;
}

int shrinking_memory() { return memory_that_goes(true); }

int closed_shrinking_memory() {
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  return memory_that_goes(true);
}

int closed_protected_memory() {
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  return memory_that_goes(false);
}

/// Its own fault: its handler ends it, or the signal does.
int faulty() {
  penstock::nic::shm::install_page_guard();
  side s;  // a device that works
  ::signal(SIGALRM, SIG_DFL);
  ::alarm(20);  // a fault that comes again and again
  *static_cast<volatile char*>(nullptr) = 1;
  return 1;
}
int faulty_with_handler() {
  ::signal(SIGSEGV, [](int) { ::_exit(5); });
  return faulty();
}

}  // namespace

int play(const std::string& role) {
  static const std::map<std::string, int (*)()> roles = {
      {"echo", echo},
      {"victim", victim},
      {"mapped_victim", mapped_victim},
      {"parent_of_heir", parent_of_heir},
      {"flooder", flooder},
      {"memory", memory},
      {"taker", taker},
      {"faulty", faulty},
      {"faulty_with_handler", faulty_with_handler},
      {"shrinking_memory", shrinking_memory},
      {"closed_shrinking_memory", closed_shrinking_memory},
      {"closed_protected_memory", closed_protected_memory},
      {"closed_memory", closed_memory}};
  const auto r = roles.find(role);
  return r == roles.end() ? 126 : r->second();
}

}  // namespace rig
