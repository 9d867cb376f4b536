// The roles of the child process in the tests of shm0 with two processes.
#include <sys/prctl.h>

#include <map>

#include "nic/shm/moved_memory.hpp"
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

/// The same, with a child of its own that inherits every descriptor and outlives it for a while.
int parent_of_heir() {
  side s;
  card theirs;
  if (const int e = join(s, &theirs)) return e;
  if (::fork() == 0) {
    ::sleep(3);
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

}  // namespace

int play(const std::string& role) {
  static const std::map<std::string, int (*)()> roles = {{"echo", echo},
                                                         {"victim", victim},
                                                         {"mapped_victim", mapped_victim},
                                                         {"parent_of_heir", parent_of_heir},
                                                         {"flooder", flooder},
                                                         {"memory", memory},
                                                         {"closed_memory", closed_memory}};
  const auto r = roles.find(role);
  return r == roles.end() ? 126 : r->second();
}

}  // namespace rig
