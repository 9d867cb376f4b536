// Remote firehoses between processes that are objects here. They are joined by a channel that loses
// nothing, keeps the order, and is short of room as often as it is told to be.
#include "firehose/remote.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include "firehose/interpose.hpp"
#include "memreg/host_memory.hpp"
#include "test/firehose/splice_device.hpp"

using namespace penstock;
using namespace penstock::firehose;

namespace {

constexpr std::size_t page = 4096;

struct network {
  struct packet {
    unsigned from, to;
    std::vector<std::byte> bytes;
  };
  std::deque<packet> wire;
  unsigned short_every = 0;  // every n-th send is refused
  unsigned sends = 0;
};

struct channel {
  network* net;
  unsigned self;
  status send(unsigned peer, std::span<const std::byte> bytes) {
    if (net->short_every != 0 && ++net->sends % net->short_every == 0) return status::no_ticket;
    net->wire.push_back({self, peer, {bytes.begin(), bytes.end()}});
    return status::ok;
  }
};
static_assert(control_channel<channel>);

struct job {
  explicit job(unsigned n, std::uint64_t m = 64 << 20, std::uint32_t r = 0,
               protection how = protection::automatic) {
    offer_interposing();
    for (unsigned i = 0; i < n; ++i) {
      pool_settings s;
      s.access_bits = memreg::access::all;
      s.protect = how;
      auto p = pool::create(device, s);
      REQUIRE(p);
      pools.push_back(std::move(*p));
      channels.push_back({&net, i});
    }
    for (unsigned i = 0; i < n; ++i) {
      remote_settings s;
      s.self = i;
      s.processes = n;
      s.max_bytes = m;
      s.max_regions = r;
      nodes.push_back(std::make_unique<remote_firehoses>(channels[i], *pools[i], s));
    }
  }
  ~job() { run(); }

  // Delivers everything and lets everybody make progress, until it is quiet.
  void run() {
    for (int quiet = 0; quiet < 3; ++quiet) {
      for (const auto& p : pools)
        while (p->changes_pending()) std::this_thread::yield();
      for (auto& n : nodes)
        if (n) n->progress();
      while (!net.wire.empty()) {
        network::packet p = std::move(net.wire.front());
        net.wire.pop_front();
        quiet = 0;
        if (nodes[p.to]) CHECK(nodes[p.to]->on_message(p.from, p.bytes));
      }
    }
  }
  status acquire(unsigned from, unsigned at, const void* addr, std::size_t n, purpose use,
                 lease& l) {
    const auto a = reinterpret_cast<std::uint64_t>(addr);
    status s = nodes[from]->try_acquire(at, a, n, use, l);
    for (int i = 0; i < 10 && s == status::pending; ++i) {
      run();
      s = nodes[from]->try_acquire(at, a, n, use, l);
    }
    return s;
  }
  // True if the bytes that the key reaches are those at the address.
  bool right(const lease& l, const void* addr) {
    std::vector<std::byte> got(l.bytes());
    return device.read(l.rkey(), addr, got.size(), got.data()) &&
           std::memcmp(got.data(), addr, got.size()) == 0;
  }

  splice_device device;
  network net;
  std::vector<std::unique_ptr<pool>> pools;
  std::vector<channel> channels;
  std::vector<std::unique_ptr<remote_firehoses>> nodes;
};

struct memory {
  explicit memory(std::size_t n) : bytes(n) {
    room = mmap(nullptr, n + (1 << 20), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    base = reinterpret_cast<unsigned char*>(
        memreg::round_up(reinterpret_cast<std::uint64_t>(room), 1 << 20));
    renew();
  }
  ~memory() { munmap(room, bytes + (1 << 20)); }
  // Other pages at the same address.
  void renew() {
    REQUIRE(mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                 0) == base);
    for (std::size_t i = 0; i < bytes; i += 8) base[i] = static_cast<unsigned char>(i + ++salt);
  }
  std::size_t bytes;
  void* room;
  unsigned char* base;
  unsigned salt = 0;
};

}  // namespace

TEST_CASE("the share of a peer follows from the settings alone, and is at least one region") {
  remote_settings s;
  s.processes = 5;
  s.max_bytes = 4 << 20;
  CHECK(share_of(s).bytes == 1 << 20);
  CHECK(share_of(s).regions == 8);
  CHECK(share_of(s).region_bytes == 128 << 10);
  s.processes = 1001;
  s.max_bytes = 10'000'000;  // 10,000 bytes each
  CHECK(share_of(s).bytes == 8192);
  CHECK(share_of(s).region_bytes == 8192);
  CHECK(share_of(s).regions == 1);
  s.max_bytes = 1'000'000;
  CHECK(share_of(s).bytes == 0);
  s.processes = 1;
  s.max_bytes = 1 << 20;
  CHECK(share_of(s).bytes == 1 << 20);
}

TEST_CASE("a key is asked for once and then found without a message") {
  job j(2);
  memory m(1 << 20);
  lease l;
  REQUIRE(j.acquire(0, 1, m.base + 100, 5000, purpose::destination, l) == status::ok);
  CHECK(l.bytes() == 5000);
  CHECK(j.right(l, m.base + 100));
  j.net.sends = 0;
  for (int i = 0; i < 10; ++i) {
    lease again;
    REQUIRE(j.nodes[0]->try_acquire(1, reinterpret_cast<std::uint64_t>(m.base + 200), 64,
                                    purpose::source, again) == status::ok);
    CHECK(again.rkey() == l.rkey());
  }
  CHECK(j.net.wire.empty());
  CHECK(j.nodes[0]->statistics().asks == 1);
  CHECK(j.nodes[1]->statistics().bytes_granted == 2 * page);
}

TEST_CASE("while an answer is on its way nobody asks again") {
  job j(2);
  memory m(1 << 20);
  lease l;
  const auto a = reinterpret_cast<std::uint64_t>(m.base);
  for (int i = 0; i < 5; ++i)
    CHECK(j.nodes[0]->try_acquire(1, a, 10, purpose::source, l) == status::pending);
  CHECK(j.net.wire.size() == 1);
  j.run();
  CHECK(j.nodes[0]->try_acquire(1, a, 10, purpose::source, l) == status::ok);
}

TEST_CASE("who walks through memory does not ask for every page") {
  job j(2);
  memory m(1 << 20);
  for (std::size_t i = 0; i < 32; ++i) {
    lease l;
    REQUIRE(j.acquire(0, 1, m.base + i * page, page, purpose::source, l) == status::ok);
    CHECK(j.right(l, m.base + i * page));
  }
  CHECK(j.nodes[0]->statistics().asks <= 8);
}

TEST_CASE("a share is kept to: idle regions go back in the same message, leased ones stay") {
  job j(2, 4 * (128 << 10));
  memory m(4 << 20);
  lease held[4], l;
  for (std::size_t i = 0; i < 4; ++i)
    REQUIRE(j.acquire(0, 1, m.base + i * (128 << 10), 128 << 10, purpose::source, held[i]) ==
            status::ok);
  CHECK(j.acquire(0, 1, m.base + (1 << 20), 100, purpose::source, l) == status::no_ticket);
  held[1].reset();
  REQUIRE(j.acquire(0, 1, m.base + (1 << 20), 100, purpose::source, l) == status::ok);
  CHECK(j.nodes[1]->statistics().bytes_granted <= 4 * (128 << 10));
  for (std::size_t i : {0u, 2u, 3u}) CHECK(j.right(held[i], m.base + i * (128 << 10)));
}

TEST_CASE("a requester that exceeds its share is refused by the owner") {
  job owner(3, 2 * 2 * (128 << 10));
  memory m(4 << 20);
  // A requester with other settings believes its share to be larger.
  remote_settings greedy;
  greedy.processes = 3;
  greedy.max_bytes = 64 << 20;
  owner.nodes[0] = std::make_unique<remote_firehoses>(owner.channels[0], *owner.pools[0], greedy);
  lease l;
  int refused = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    lease one;
    if (owner.acquire(0, 1, m.base + i * (128 << 10), 128 << 10, purpose::source, one) !=
        status::ok)
      ++refused;
  }
  CHECK(refused == 4);
  CHECK(owner.nodes[1]->statistics().bytes_granted == 2 * (128 << 10));
}

TEST_CASE("memory that is not there is refused, and asking again asks the peer again") {
  job j(2);
  memory m(1 << 20);
  munmap(m.base, m.bytes);
  lease l;
  CHECK(j.acquire(0, 1, m.base, 100, purpose::source, l) == status::device_error);
  m.renew();
  CHECK(j.acquire(0, 1, m.base, 100, purpose::source, l) == status::ok);
}

TEST_CASE("the end of mapped memory does not stand in the way of what lies before it") {
  job j(2);
  memory m(4 * page);
  munmap(m.base + 2 * page, 2 * page);
  for (std::size_t i = 0; i < 2; ++i) {
    lease l;
    CHECK(j.acquire(0, 1, m.base + i * page, 100, purpose::source, l) == status::ok);
  }
}

TEST_CASE("read-only memory may be read, not written") {
  job j(2);
  memory m(16 * page);
  mprotect(m.base, m.bytes, PROT_READ);
  lease l;
  CHECK(j.acquire(0, 1, m.base, 100, purpose::source, l) == status::ok);
  CHECK(j.acquire(0, 1, m.base, 100, purpose::destination, l) == status::device_error);
}

TEST_CASE("memory that changes is taken back before its owner says anything else") {
  job j(3);
  memory m(1 << 20);
  {
    lease a, b;
    REQUIRE(j.acquire(0, 2, m.base, 5000, purpose::source, a) == status::ok);
    REQUIRE(j.acquire(1, 2, m.base, 5000, purpose::source, b) == status::ok);
  }
  CHECK_FALSE(j.nodes[2]->must_settle());
  m.renew();
  CHECK(j.nodes[2]->must_settle());
  j.run();
  CHECK_FALSE(j.nodes[2]->must_settle());
  CHECK(j.nodes[2]->statistics().revoked == 2);
  CHECK(j.nodes[2]->statistics().bytes_granted == 0);
  for (unsigned from : {0u, 1u}) {
    lease l;
    REQUIRE(j.acquire(from, 2, m.base, 5000, purpose::source, l) == status::ok);
    CHECK(j.right(l, m.base));
  }
}

TEST_CASE("a change that the kernel has reported is settled although it is not counted yet") {
  job j(2, 64 << 20, 0, protection::events);
  if (std::string(j.pools[1]->protection_text()) != "kernel events") return;
  memory m(1 << 20);
  {
    lease l;
    REQUIRE(j.acquire(0, 1, m.base, 100, purpose::source, l) == status::ok);
  }
  bool settles = false;
  {
    // Under this lock the thread that has read the event cannot count the change. Nothing here may
    // call libc's mapping functions, which take it, too.
    const std::lock_guard held(changes::lock());
    syscall(SYS_munmap, m.base, page);
    settles = j.nodes[1]->must_settle();
  }
  CHECK(settles);
  j.run();
  CHECK_FALSE(j.nodes[1]->must_settle());
  CHECK(j.nodes[1]->statistics().revoked == 1);
}

TEST_CASE("settling waits for a holder whose transfer is not complete") {
  job j(2);
  memory m(1 << 20);
  lease l;
  REQUIRE(j.acquire(0, 1, m.base, 100, purpose::source, l) == status::ok);
  m.renew();
  j.run();
  CHECK(j.nodes[1]->must_settle());
  lease none;
  // Revoked: a new transfer does not get the old key.
  CHECK(j.nodes[0]->try_acquire(1, reinterpret_cast<std::uint64_t>(m.base), 1, purpose::source,
                                none) == status::pending);
  l.reset();
  j.run();
  CHECK_FALSE(j.nodes[1]->must_settle());
}

TEST_CASE("a region given back while it is revoked ends once") {
  job j(2, 1 * (128 << 10));
  memory m(1 << 20);
  {
    lease l;
    REQUIRE(j.acquire(0, 1, m.base, 100, purpose::source, l) == status::ok);
  }
  m.renew();
  // The ask that gives the region back crosses the revocation on the wire.
  lease l;
  CHECK(j.nodes[0]->try_acquire(1, reinterpret_cast<std::uint64_t>(m.base) + (512 << 10), 128 << 10,
                                purpose::source, l) == status::pending);
  j.run();
  CHECK_FALSE(j.nodes[1]->must_settle());
  CHECK(j.acquire(0, 1, m.base + (512 << 10), 128 << 10, purpose::source, l) == status::ok);
}

TEST_CASE("malformed and impossible messages do nothing") {
  job j(2);
  std::byte rubbish[56] = {};
  CHECK_FALSE(j.nodes[0]->on_message(1, std::span(rubbish, 10)));
  CHECK_FALSE(j.nodes[0]->on_message(7, rubbish));
  CHECK_FALSE(j.nodes[0]->on_message(1, rubbish));  // no such kind
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) {
    for (std::byte& b : rubbish) b = static_cast<std::byte>(random() % 4 == 0 ? random() : 0);
    rubbish[0] = static_cast<std::byte>(random() % 7);
    rubbish[1] = rubbish[2] = rubbish[3] = std::byte{0};
    (void)j.nodes[0]->on_message(1, rubbish);
  }
  j.net.wire.clear();
  CHECK(j.nodes[0]->statistics().bytes_granted == 0);
  memory m(1 << 20);
  lease l;
  CHECK(j.acquire(1, 0, m.base, 100, purpose::source, l) == status::ok);
}

TEST_CASE("what a dead peer held is returned, and what we held there is gone") {
  job j(2);
  memory m(1 << 20);
  {
    lease l;
    REQUIRE(j.acquire(0, 1, m.base, 100, purpose::source, l) == status::ok);
    REQUIRE(j.acquire(1, 0, m.base, 100, purpose::source, l) == status::ok);
  }
  j.nodes[1]->peer_gone(0);
  CHECK(j.nodes[1]->statistics().bytes_granted == 0);
  lease l;
  CHECK_FALSE(j.nodes[1]->try_acquire(0, reinterpret_cast<std::uint64_t>(m.base), 1,
                                      purpose::source, l) == status::ok);
}

TEST_CASE("a channel that is often short of room delays, and changes nothing else") {
  for (const unsigned every : {2u, 3u, 5u}) {
    job j(3, 8 * (128 << 10));
    j.net.short_every = every;
    memory m(4 << 20);
    std::mt19937 random(every);
    int wrong = 0, good = 0;
    for (int i = 0; i < 600; ++i) {
      const unsigned from = random() % 2;
      auto* at = m.base + random() % (m.bytes - 70'000);
      lease l;
      const status s = j.acquire(from, 2, at, 1 + random() % 70'000, purpose::source, l);
      if (s == status::ok && j.right(l, at)) ++good;
      if (s == status::ok && !j.right(l, at)) ++wrong;
      l.reset();
      if (random() % 20 == 0) {
        m.renew();
        for (int k = 0; k < 100 && j.nodes[2]->must_settle(); ++k) j.run();
        CHECK_FALSE(j.nodes[2]->must_settle());
      }
    }
    CHECK(wrong == 0);
    CHECK(good > 500);
    CHECK(j.nodes[2]->statistics().revoked > 0);
    j.net.short_every = 0;
  }
}
