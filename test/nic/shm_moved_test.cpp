// Memory that is moved in place onto a file that peers can map, while it is registered.
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <thread>

#include "nic/shm/context.hpp"
#include "nic/shm/memory_map.hpp"
#include "nic/shm/moved_memory.hpp"
#include "nic/shm/own_threads.hpp"
#include "test/nic/child.hpp"
#include "test/nic/rig.hpp"

namespace shm = penstock::nic::shm;

namespace {

// TSan has a thread of its own.
#if defined(__SANITIZE_THREAD__)
constexpr bool can_move = false;
#elif defined(__has_feature)
constexpr bool can_move = !__has_feature(thread_sanitizer);
#else
constexpr bool can_move = true;
#endif

constexpr int all_rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

std::uint64_t at(const void* p) { return reinterpret_cast<std::uint64_t>(p); }

/// Whether every page of it maps a file that others can map.
bool moved(const void* p, std::size_t bytes) {
  const auto pieces = shm::pieces_of(at(p), at(p) + bytes);
  bool all = !pieces.empty();
  for (const auto& m : pieces) all = all && m.shared && m.inode != 0;
  return all;
}

/// Bytes that the file holds.
std::int64_t held() {
  struct stat s {};
  REQUIRE(::fstat(shm::moved_memory::file(), &s) == 0);
  return s.st_blocks * 512;
}

struct pages {
  std::size_t bytes;
  std::byte* base;
  explicit pages(std::size_t n) : bytes(n) {
    base = static_cast<std::byte*>(
        ::mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(base != MAP_FAILED);
  }
  ~pages() { ::munmap(base, bytes); }
};

ibv_wc_status write_to(rig::side& from, std::size_t offset, std::size_t n, const void* to,
                       std::uint32_t key) {
  REQUIRE(from.post(1, IBV_WR_RDMA_WRITE, offset, n, IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
    wr.wr.rdma = {at(to), key};
  }) == 0);
  return from.sent().status;
}

volatile std::uint64_t* counted = nullptr;  // in memory that is moved
volatile std::uint64_t timer_ticks = 0;

void on_tick(int /*signal*/) {
  *counted = *counted + 1;
  timer_ticks = timer_ticks + 1;
}

}  // namespace

TEST_CASE("memory from malloc is mapped by peers while it is registered, and private afterwards") {
  rig::pair p(rig::moving());
  REQUIRE(moved(p.b.memory.data(), p.b.memory.size()) == can_move);
  for (std::size_t n : {1u, 8u, 4096u, 100'000u}) {
    std::memset(p.a.memory.data(), static_cast<int>(n % 251), n);
    CHECK(write_to(p.a, 0, n, p.b.memory.data() + 4097, p.b.mr->rkey) == IBV_WC_SUCCESS);
    CHECK(std::memcmp(p.a.memory.data(), p.b.memory.data() + 4097, n) == 0);
  }
  const bool mapped =
      shm::map_remote(p.a.qp, at(p.b.memory.data()), p.b.memory.size(), p.b.mr->rkey) != nullptr;
  CHECK(mapped == can_move);
  const std::vector<std::byte> before = p.b.memory;
  REQUIRE(p.b.v.dereg_mr(p.b.mr) == 0);
  p.b.mr = nullptr;
  // Not its first page, which malloc may have shared with memory that is still registered.
  CHECK_FALSE(moved(p.b.memory.data() + 2 * 4096, 1));
  CHECK(p.b.memory == before);
}

TEST_CASE("registrations that overlap share moved pages until the last of them ends") {
  rig::pair p(rig::moving());
  pages m(64 * 4096);
  for (std::size_t i = 0; i < m.bytes; ++i) m.base[i] = static_cast<std::byte>(i * 7 % 253);
  const std::vector<std::byte> before(m.base, m.base + m.bytes);
  const auto reg = [&](std::size_t offset, std::size_t n) {
    ibv_mr* mr = p.b.v.reg_mr(p.b.pd, m.base + offset, n, all_rights);
    REQUIRE(mr != nullptr);
    return mr;
  };
  ibv_mr* a = reg(100, 5 * 4096);
  ibv_mr* b = reg(4 * 4096, 20 * 4096);
  ibv_mr* c = reg(0, m.bytes);
  CHECK(moved(m.base, m.bytes) == can_move);
  REQUIRE(p.b.v.dereg_mr(a) == 0);
  REQUIRE(p.b.v.dereg_mr(c) == 0);
  CHECK(moved(m.base + 4 * 4096, 20 * 4096) == can_move);
  CHECK_FALSE(moved(m.base, 4 * 4096));
  CHECK_FALSE(moved(m.base + 24 * 4096, 4096));
  CHECK(std::memcmp(m.base, before.data(), m.bytes) == 0);
  CHECK(write_to(p.a, 0, 64, m.base + 5 * 4096, b->rkey) == IBV_WC_SUCCESS);
  REQUIRE(p.b.v.dereg_mr(b) == 0);
  CHECK_FALSE(moved(m.base, m.bytes));
  CHECK(std::memcmp(m.base, p.a.memory.data(), 0) == 0);
  CHECK(std::memcmp(m.base + 5 * 4096, p.a.memory.data(), 64) == 0);
}

TEST_CASE("a stack stays where it is, and is written all the same") {
  rig::pair p(rig::moving());
  // Not an array: AddressSanitizer keeps those elsewhere, to find their use after return.
  constexpr std::size_t bytes = 256;
  auto* here = static_cast<std::byte*>(__builtin_alloca(bytes));
  std::memset(here, 0, bytes);
  ibv_mr* mr = p.b.v.reg_mr(p.b.pd, here, bytes, all_rights);
  REQUIRE(mr != nullptr);
  CHECK_FALSE(moved(here, bytes));
  std::memset(p.a.memory.data(), 9, bytes);
  CHECK(write_to(p.a, 0, bytes, here, mr->rkey) == IBV_WC_SUCCESS);
  CHECK(std::memcmp(here, p.a.memory.data(), bytes) == 0);
  REQUIRE(p.b.v.dereg_mr(mr) == 0);
}

TEST_CASE("nothing is moved, either way, while the program has a second thread") {
  rig::pair p(rig::moving());
  pages first(16 * 4096), second(16 * 4096);
  ibv_mr* a = p.b.v.reg_mr(p.b.pd, first.base, first.bytes, all_rights);
  CHECK(moved(first.base, first.bytes) == can_move);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop.load()) ::usleep(1000);
  });
  ibv_mr* b = p.b.v.reg_mr(p.b.pd, second.base, second.bytes, all_rights);
  CHECK_FALSE(moved(second.base, second.bytes));
  CHECK(write_to(p.a, 0, 64, second.base, b->rkey) == IBV_WC_SUCCESS);
  REQUIRE(p.b.v.dereg_mr(a) == 0);
  CHECK(moved(first.base, first.bytes) == can_move);  // nobody may see it go
  stop.store(true);
  other.join();
  REQUIRE(p.b.v.dereg_mr(b) == 0);  // what was left is looked at again
  CHECK_FALSE(moved(first.base, first.bytes));
}

TEST_CASE("a thread that has just been joined is no reason to leave memory where it is") {
  rig::side s(rig::moving());
  pages m(4096);
  int left = 0;
  for (int i = 0; i < 300; ++i) {
    std::thread([] {}).join();
    ibv_mr* mr = s.v.reg_mr(s.pd, m.base, m.bytes, all_rights);
    REQUIRE(mr != nullptr);
    left += moved(m.base, m.bytes) != can_move;
    REQUIRE(s.v.dereg_mr(mr) == 0);
  }
  CHECK(left == 0);
}

TEST_CASE("nothing is moved while another thread opens and closes devices") {
  rig::side s(rig::moving());
  pages m(4096);
  std::atomic<int> opened{0};
  std::thread other([&] {
    for (; opened.load() < 60; ++opened) const rig::side one(rig::moving());
  });
  int moves = 0;
  while (opened.load() < 60) {
    ibv_mr* mr = s.v.reg_mr(s.pd, m.base, m.bytes, all_rights);
    REQUIRE(mr != nullptr);
    moves += opened.load() < 60 && moved(m.base, m.bytes);
    REQUIRE(s.v.dereg_mr(mr) == 0);
  }
  other.join();
  CHECK(moves == 0);
}

TEST_CASE("a registration beside a thread that is busy on the same core does not wait for it") {
  cpu_set_t before, one;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  CPU_ZERO(&one);
  CPU_SET(::sched_getcpu(), &one);
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  rig::side s(rig::moving());
  constexpr int each = 40;
  pages m(each * 8192);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop.load()) {
    }
  });
  const auto switches = [] {
    rusage u{};
    REQUIRE(::getrusage(RUSAGE_THREAD, &u) == 0);
    return u.ru_nivcsw;
  };
  const long first = switches();
  for (int i = 0; i < each; ++i) {
    ibv_mr* mr = s.v.reg_mr(s.pd, m.base + i * 8192, 64, all_rights);
    REQUIRE(mr != nullptr);
    REQUIRE(s.v.dereg_mr(mr) == 0);
  }
  CHECK(switches() - first < 10 * each);  // a hundred for each, if it gave way until it was alone
  stop.store(true);
  other.join();
  REQUIRE(::sched_setaffinity(0, sizeof before, &before) == 0);
}

TEST_CASE("memory that the program has unmapped leaves nothing in the file") {
  rig::pair p(rig::moving());
  if (shm::moved_memory::file() < 0) return;
  const std::int64_t before = held();
  auto m = std::make_unique<pages>(64 * 4096);
  std::memset(m->base, 1, m->bytes);
  ibv_mr* mr = p.b.v.reg_mr(p.b.pd, m->base, m->bytes, all_rights);
  CHECK(held() - before == (can_move ? 64 * 4096 : 0));
  const void* was = m->base;
  const std::size_t n = m->bytes;
  SUBCASE("before it is deregistered") {
    m.reset();
    REQUIRE(p.b.v.dereg_mr(mr) == 0);
  }
  SUBCASE("after that") {
    REQUIRE(p.b.v.dereg_mr(mr) == 0);
    m.reset();
  }
  CHECK(held() == before);
  CHECK(shm::pieces_of(at(was), at(was) + n).empty());
}

TEST_CASE("pages that were never touched cost nothing when they are registered") {
  rig::pair p(rig::moving());
  pages m(std::size_t{1} << 30);
  m.base[123 * 4096] = std::byte{5};
  ibv_mr* mr = p.b.v.reg_mr(p.b.pd, m.base, m.bytes, all_rights);
  REQUIRE(mr != nullptr);
  if (can_move) CHECK(held() < 64 << 20);
  CHECK(m.base[123 * 4096] == std::byte{5});
  CHECK(m.base[99 * 4096] == std::byte{0});
  REQUIRE(p.b.v.dereg_mr(mr) == 0);
  CHECK(m.base[123 * 4096] == std::byte{5});
}

TEST_CASE("memory that its program has protected meanwhile comes back as it was") {
  for (const int rights : {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE | PROT_EXEC}) {
    CAPTURE(rights);
    rig::side s(rig::moving());
    pages m(8 * 4096);
    std::memset(m.base, 9, m.bytes);
    ibv_mr* mr = s.v.reg_mr(s.pd, m.base, m.bytes, all_rights);
    REQUIRE(mr != nullptr);
    if (can_move) REQUIRE(moved(m.base, m.bytes));
    REQUIRE(::mprotect(m.base + 4096, 2 * 4096, rights) == 0);
    REQUIRE(s.v.dereg_mr(mr) == 0);
    const auto back = shm::pieces_of(at(m.base + 4096), at(m.base + 3 * 4096));
    REQUIRE(back.size() == 1);
    CHECK(back[0].rights == rights);
    CHECK_FALSE(moved(m.base, m.bytes));
    REQUIRE(::mprotect(m.base, m.bytes, PROT_READ) == 0);
    CHECK(std::count(m.base, m.base + m.bytes, std::byte{9}) == 8 * 4096);
  }
}

TEST_CASE("memory that may be executed stays where it is") {
  rig::pair p(rig::moving());
  pages m(2 * 4096);
  REQUIRE(::mprotect(m.base, m.bytes, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
  ibv_mr* mr = p.b.v.reg_mr(p.b.pd, m.base, m.bytes, all_rights);
  REQUIRE(mr != nullptr);
  CHECK_FALSE(moved(m.base, m.bytes));
  CHECK(write_to(p.a, 0, 8, m.base + 4096, mr->rkey) == IBV_WC_SUCCESS);
  REQUIRE(p.b.v.dereg_mr(mr) == 0);
}

TEST_CASE("the first access to a stopped peer's memory waits for nobody") {
  rig::child c("mapped_victim");
  rig::side s(rig::moving());
  const rig::card theirs = rig::exchange(c.socket, rig::card_of(s));
  rig::connect(s, theirs);
  rig::meet(c.socket);
  REQUIRE(::kill(c.pid, SIGSTOP) == 0);
  const auto done_soon = [&](ibv_wr_opcode opcode) {
    const std::uint64_t begin = penstock::now_ns();
    REQUIRE(s.post(1, opcode, 0, 8, IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
      if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        wr.wr.atomic = {theirs.address + 4096, 1, 0, theirs.rkey};
      else
        wr.wr.rdma = {theirs.address + 4096, theirs.rkey};
    }) == 0);
    CHECK(s.sent().status == IBV_WC_SUCCESS);
    return penstock::now_ns() - begin < 5'000'000'000;
  };
  // Where nothing can be moved the peer is asked, and answers when it goes on.
  if (can_move)
    for (const auto opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD})
      CHECK(done_soon(opcode));
  REQUIRE(::kill(c.pid, SIGCONT) == 0);
  CHECK(done_soon(IBV_WR_RDMA_WRITE));
}

TEST_CASE("a registration costs the same however many others lie elsewhere") {
  utsname kernel{};
  REQUIRE(::uname(&kernel) == 0);
  int major = 0, minor = 0;
  REQUIRE(std::sscanf(kernel.release, "%d.%d", &major, &minor) == 2);
  // Older kernels do not say where one address lies; there the text of all mappings is read. Where
  // nothing can be moved, each registration waits a while for other threads to end.
  const std::size_t each = can_move && (major > 6 || (major == 6 && minor >= 11)) ? 4'000 : 200;
  rig::side b(rig::moving());
  pages m(3 * each * 8192);
  std::vector<ibv_mr*> all;
  const auto add = [&](std::size_t first) {
    const std::clock_t begin = std::clock();
    for (std::size_t i = first; i < first + each; ++i)
      all.push_back(b.v.reg_mr(b.pd, m.base + i * 8192, 64, all_rights));
    return std::clock() - begin;
  };
  const std::clock_t early = add(0);
  add(each);
  const std::clock_t late = add(2 * each);
  CHECK(std::count(all.begin(), all.end(), nullptr) == 0);
  CHECK(late < 3 * early);  // five times as much if each one reads of all others
  if (can_move) CHECK(moved(m.base + 2 * each * 8192, 4096));
  for (ibv_mr* mr : all) CHECK(b.v.dereg_mr(mr) == 0);
  CHECK_FALSE(moved(m.base, 4096));
}

TEST_CASE("a child of fork has a copy, whatever its parent writes later") {
  rig::pair p(rig::moving());
  auto* word = reinterpret_cast<std::uint64_t*>(p.b.memory.data() + 8192);
  *word = 41;
  int go[2];
  REQUIRE(::pipe(go) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char c;
    const bool heard = ::read(go[0], &c, 1) == 1;
    const bool own = *word == 41;
    *word = 43;
    ::_exit(heard && own && *word == 43 && !moved(word, 8) ? 0 : 1);
  }
  *word = 42;
  REQUIRE(::write(go[1], "x", 1) == 1);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(*word == 42);
  ::close(go[0]);
  ::close(go[1]);
  *reinterpret_cast<std::uint64_t*>(p.a.memory.data()) = 77;
  CHECK(write_to(p.a, 0, 8, word, p.b.mr->rkey) == IBV_WC_SUCCESS);
  CHECK(*word == 77);
}

TEST_CASE(
    "a child of a bare clone(2) has a copy from its first touch on, and its parent none of it") {
  if (!can_move) return;
  rig::pair p(rig::moving());
  auto* words = reinterpret_cast<std::uint64_t*>(p.b.memory.data() + 8192);
  words[0] = 41, words[1] = 51;
  int go[2], back[2];
  REQUIRE(::pipe(go) == 0);
  REQUIRE(::pipe(back) == 0);
  const auto child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) {
    words[0] = 43;
    char c = 'x';
    if (::write(back[1], &c, 1) != 1 || ::read(go[0], &c, 1) != 1) ::_exit(2);
    ::_exit(words[0] == 43 && words[1] == 51 && p.b.memory[100'000] == std::byte{0} ? 0 : 1);
  }
  ::close(back[1]);
  char c;
  REQUIRE(::read(back[0], &c, 1) == 1);
  CHECK(words[0] == 41);
  *reinterpret_cast<std::uint64_t*>(p.a.memory.data()) = 77;
  CHECK(write_to(p.a, 0, 8, words, p.b.mr->rkey) == IBV_WC_SUCCESS);
  words[1] = 52;
  REQUIRE(::write(go[1], "x", 1) == 1);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(words[0] == 77);
  for (const int fd : {go[0], go[1], back[0]}) ::close(fd);
}

TEST_CASE("a child of fork has moved memory of one moment, though the device writes to it") {
  if (!can_move) return;
  rig::pair p(rig::moving());
  // Two words, on pages of which one is moved: the device's threads write both in one turn.
  pages all(64 * 4096);
  auto* first = reinterpret_cast<std::atomic<std::uint64_t>*>(all.base);
  auto* second = reinterpret_cast<std::atomic<std::uint64_t>*>(all.base + all.bytes - 4096);
  ibv_mr* mr = p.b.v.reg_mr(p.b.pd, all.base, all.bytes / 2, all_rights);
  REQUIRE(mr != nullptr);
  REQUIRE(moved(all.base, all.bytes / 2));
  std::atomic<bool> over{false};
  shm::count_own_thread(1);
  std::thread writer([&] {
    while (!over.load()) {
      const shm::working_time w = shm::begin_more_work();
      for (int i = 0; i < 1000; ++i) {
        first->fetch_add(1);
        second->fetch_add(1);
      }
    }
  });
  int torn = 0;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(first->load() == second->load() ? 0 : 1);
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    torn += status != 0;
  }
  over.store(true);
  writer.join();
  shm::count_own_thread(-1);
  CHECK(torn == 0);
  CHECK(p.b.v.dereg_mr(mr) == 0);
}

TEST_CASE("the program's allocator goes on working around registered pieces of its heap") {
  rig::pair p(rig::moving());
  std::vector<std::unique_ptr<char[]>> blocks;
  std::vector<ibv_mr*> keys;
  for (int i = 0; i < 200; ++i) {
    const std::size_t n = 16 + static_cast<std::size_t>(i) * 37;
    blocks.push_back(std::make_unique<char[]>(n));
    std::memset(blocks.back().get(), i, n);
    if (i % 3 == 0) keys.push_back(p.b.v.reg_mr(p.b.pd, blocks.back().get(), n, all_rights));
    if (i % 7 == 6) {
      REQUIRE(keys.back() != nullptr);
      REQUIRE(p.b.v.dereg_mr(keys.back()) == 0);
      keys.pop_back();
    }
  }
  for (int i = 0; i < 200; ++i) {
    const std::size_t n = 16 + static_cast<std::size_t>(i) * 37;
    for (std::size_t k = 0; k < n; ++k)
      REQUIRE(blocks[static_cast<std::size_t>(i)][k] == static_cast<char>(i));
  }
  for (ibv_mr* mr : keys) REQUIRE(p.b.v.dereg_mr(mr) == 0);
}

TEST_CASE("what a signal's handler writes while memory is moved is kept") {
  rig::pair p(rig::moving());
  const pages memory(std::size_t{16} << 20);
  std::memset(memory.base, 1, memory.bytes);
  counted = reinterpret_cast<std::uint64_t*>(memory.base + 4096);
  *counted = 0;
  timer_ticks = 0;
  struct sigaction handler {
  }, before{};
  handler.sa_handler = on_tick;
  handler.sa_flags = SA_RESTART;
  REQUIRE(::sigaction(SIGALRM, &handler, &before) == 0);
  const itimerval often{{0, 100}, {0, 100}}, never{};
  REQUIRE(::setitimer(ITIMER_REAL, &often, nullptr) == 0);
  int made = 0;
  for (int i = 0; i < 20; ++i)
    if (ibv_mr* mr = p.a.v.reg_mr(p.a.pd, memory.base, memory.bytes, all_rights)) {
      ++made;
      p.a.v.dereg_mr(mr);
    }
  REQUIRE(::setitimer(ITIMER_REAL, &never, nullptr) == 0);
  REQUIRE(::sigaction(SIGALRM, &before, nullptr) == 0);
  CHECK(made == 20);
  CHECK(timer_ticks > 0);
  CHECK(*counted == timer_ticks);
}
