// Where messages go that find no room in a ring (nic/shm/overflow.hpp): the file itself, and when a
// sender takes this way.
#include "nic/shm/overflow.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <random>

#include "lib/base/cross_process.hpp"
#include "nic/shm/message.hpp"
#include "nic/shm/qp.hpp"
#include "test/nic/rig.hpp"

using namespace rig;
using penstock::nic::shm::overflow;
namespace shm = penstock::nic::shm;

#ifndef PENSTOCK_TSAN  // which orders what threads do by the calls that it intercepts itself
namespace {

/// What the peer does, once, as soon as a thread has asked its device for `awaited`, before that
/// thread goes on.
std::function<void()> when_asked;
constexpr int nothing = -1;
std::atomic<int> awaited{nothing};

bool is_awaited(const msghdr& m) {
  if (m.msg_iov->iov_len != sizeof(shm::request)) return false;
  int kind = static_cast<int>(static_cast<const shm::request*>(m.msg_iov->iov_base)->kind);
  return awaited.compare_exchange_strong(kind, nothing);
}

}  // namespace

/// In place of the C library's, for the device, too.
extern "C" ssize_t sendmsg(int socket, const msghdr* m, int flags) {
  const ssize_t n = ::syscall(SYS_sendmsg, socket, m, flags);
  if (is_awaited(*m)) when_asked();
  return n;
}
#endif

namespace {

struct file_ends {
  std::unique_ptr<overflow> put = overflow::make(), taken;
  file_ends() {
    REQUIRE(put != nullptr);
    taken = overflow::of(put->fd());
    REQUIRE(taken != nullptr);
  }
};

std::byte byte_of(std::uint64_t number, std::uint64_t at) {
  return static_cast<std::byte>(number * 131 + at * 7);
}

/// Holds up everything that would take messages in for a side, as where its process has no core.
class held_up {
 public:
  explicit held_up(const side& s) : queue_(shm::of(s.recv_cq)) { queue_.poll.lock(); }
  ~held_up() { queue_.poll.unlock(); }
  held_up(const held_up&) = delete;
  held_up& operator=(const held_up&) = delete;

 private:
  shm::completion_queue& queue_;
};

}  // namespace

TEST_CASE("pieces come out of the file as they were put, again and again, in little memory") {
  file_ends file;
  std::mt19937 random(7);
  struct piece {
    std::uint64_t number;
    std::uint32_t length;
  };
  std::deque<piece> waiting;
  constexpr std::uint32_t longest = 262'144;
  std::uint64_t number = 0, waits = 0, most = 0;
  const auto take = [&] {
    const auto in = file.taken->front();
    const piece p = waiting.front();
    waiting.pop_front();
    REQUIRE(in);
    CHECK(in.op == p.number % 200);
    CHECK(in.slot->header == p.number);
    REQUIRE(in.data_bytes == p.length);
    std::uint64_t wrong = 0;
    for (std::uint32_t i = 0; i < p.length; i += 61)
      wrong += in.data[i] != byte_of(p.number, i) ? 1u : 0u;
    CHECK(wrong == 0);
    waits -= p.length;
    file.taken->pop(in);
  };
  for (int round = 0; round < 400; ++round) {
    for (auto n = random() % 8; n != 0; --n) {
      const auto length = static_cast<std::uint32_t>(random() % (n == 1 ? longest : 2000));
      REQUIRE(file.put->has_room(1));
      file.put->put(number, static_cast<std::uint8_t>(number % 200), length, [&](std::byte* to) {
        for (std::uint32_t i = 0; i < length; ++i) to[i] = byte_of(number, i);
      });
      waiting.push_back({number++, length});
      most = std::max(most, waits += length);
    }
    CHECK(file.put->all_taken() == waiting.empty());
    for (auto n = random() % 10; n != 0 && !waiting.empty(); --n) take();
  }
  while (!waiting.empty()) take();
  CHECK(file.taken->empty());
  CHECK(file.put->all_taken());
  CHECK(number > 1000);
  // Of a block at least two thirds are used, and two are begun: a receiver's and a sender's.
  CHECK(file.put->extent() <= most + most / 2 + (4u << 20));
}

TEST_CASE("a file has room for the longest message, and for more when that has been taken") {
  file_ends file;
  constexpr std::uint64_t gigabyte = (1u << 30) / overflow::piece_bytes;
  CHECK(file.put->has_room(gigabyte));
  CHECK_FALSE(file.put->has_room(2 * gigabyte));
  // Pieces that are too long for one block, of which few length are written: no memory to speak of.
  std::uint64_t pieces = 0;
  for (; file.put->has_room(1); ++pieces)
    file.put->put(pieces, 1, overflow::piece_bytes, [](std::byte*) {});
  CHECK(pieces >= gigabyte);
  CHECK_FALSE(file.put->all_taken());
  const auto take = [&](std::uint64_t n) {
    for (; n != 0; --n) {
      const auto in = file.taken->front();
      REQUIRE(in.data_bytes == overflow::piece_bytes);
      file.taken->pop(in);
    }
  };
  take(6);
  CHECK(file.put->has_room(1));
  CHECK_FALSE(file.put->has_room(100));
  take(pieces - 6);
  CHECK(file.put->all_taken());
  CHECK(file.put->has_room(gigabyte));
}

TEST_CASE("a file that holds rubbish yields a broken message, and no byte from elsewhere") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    file_ends file;
    REQUIRE(file.put->has_room(1));
    file.put->put(1, 1, 64, [](std::byte* to) { std::memset(to, 1, 64); });
    // The counters are the file's first words; a record begins at 64.
    std::uint64_t word = random();
    if (round % 3 == 0) word = random() % 200;
    if (round % 3 == 1) word = 254;
    const off_t where = static_cast<off_t>(random() % 11) * 8;
    REQUIRE(::pwrite(file.put->fd(), &word, 8, where) == 8);
    for (int i = 0; i < 20; ++i) {
      const auto in = file.taken->front();
      if (!in || in.op == 255) break;
      CHECK(in.data_bytes < 1u << 20);
      if (in.data_bytes != 0) CHECK(in.data[in.data_bytes - 1] != std::byte{0xee});
      file.taken->pop(in);
    }
    (void)file.put->has_room(1000);  // what the receiver says is not believed either
  }
}

TEST_CASE("a long message waits for few turns of a receiver that has a core now and then") {
  constexpr std::uint64_t turn_ns = 5'000'000;
  constexpr std::size_t length = 8u << 20;  // more than a hundred rings: a turn each, if it waited
  options o;
  o.memory = length;
  pair p(o);
  for (std::size_t i = 0; i < length; ++i) p.a.memory[i] = byte_of(1, i);
  REQUIRE(p.b.receive(1, 0, length) == 0);
  int turns = 0;
  ibv_wc sent{}, received{};
  int done = 0, got = 0;
  {
    const held_up b(p.b);
    REQUIRE(p.a.send(1, 0, length) == 0);
  }
  for (; done == 0 && turns < 1000; ++turns) {
    {
      const held_up b(p.b);
      const std::uint64_t until = penstock::now_ns() + turn_ns;
      do {
        done = ibv_poll_cq(p.a.send_cq, 1, &sent);
      } while (done == 0 && penstock::now_ns() < until);
      if (done == 0) done = ibv_poll_cq(p.a.send_cq, 1, &sent);
    }
    if (got == 0) got = ibv_poll_cq(p.b.recv_cq, 1, &received);
  }
  CHECK(turns <= 33);  // 3 by a sender that has a core all the time
  CHECK(sent.status == IBV_WC_SUCCESS);
  if (got == 0) received = p.b.received();
  CHECK(received.status == IBV_WC_SUCCESS);
  CHECK(received.byte_len == length);
  CHECK(std::equal(p.a.memory.begin(), p.a.memory.end(), p.b.memory.begin()));
}

TEST_CASE("a file that was emptied serves the next time, and a large one is given back") {
  constexpr std::size_t length = 4u << 20;
  options o;
  o.memory = length;
  pair p(o);
  const auto overflow_once = [&](int messages) {
    const held_up b(p.b);
    for (int i = 0; i < messages; ++i) REQUIRE(p.b.receive(1, 0, length) == 0);
    for (int i = 0; i < messages; ++i) REQUIRE(p.a.send(1, 0, length) == 0);
    for (int i = 0; i < messages; ++i) CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  };
  const auto take = [&](int messages) {
    for (int i = 0; i < messages; ++i) CHECK(p.b.received().byte_len == length);
  };
  const auto file = [&] {
    struct stat s {};
    REQUIRE(shm::of(p.a.qp).to.aside != nullptr);
    REQUIRE(::fstat(shm::of(p.a.qp).to.aside->fd(), &s) == 0);
    return s.st_ino;
  };
  overflow_once(1);
  const auto first = file();
  for (int i = 0; i < 10; ++i) {
    take(1);
    overflow_once(1);
    CHECK(file() == first);
  }
  take(1);
  overflow_once(8);
  take(8);
  // The next message goes by the ring, when the sender has seen that all were taken.
  REQUIRE(p.b.receive(1, 0, 8) == 0);
  REQUIRE(p.a.send(1, 0, 8) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  CHECK(p.b.received().byte_len == 8);
  CHECK(shm::of(p.a.qp).to.aside == nullptr);
}

TEST_CASE(
    "a message is done without its receiver, though that one has had smaller receives before") {
  pair p;
  constexpr std::uint64_t depth = 8;
  std::uint64_t posted = 0;
  const auto post = [&](std::size_t length) { REQUIRE(p.b.receive(posted++, 0, length) == 0); };
  for (std::uint64_t i = 0; i < depth; ++i) post(2);
  // As a program does that goes through all sizes: the queue is never empty.
  for (std::size_t length = 2; length <= 4096; length *= 2) {
    for (std::uint64_t i = 0; i < 3 * depth; ++i) {
      REQUIRE(p.a.send(i, 0, 2) == 0);
      CHECK(p.b.received().status == IBV_WC_SUCCESS);
      post(length);
      CHECK(p.a.sent().status == IBV_WC_SUCCESS);
    }
    {
      const held_up b(p.b);
      REQUIRE(p.a.send(1, 0, length) == 0);
      CHECK(p.a.sent().status == IBV_WC_SUCCESS);
    }
    CHECK(p.b.received().status == IBV_WC_SUCCESS);
    post(length);
  }
}

TEST_CASE("a message that is too long for its receive is an error, though later ones are longer") {
  pair p;
  for (int i = 0; i < 20; ++i) REQUIRE(p.b.receive(1, 0, 4000) == 0);
  REQUIRE(p.b.receive(2, 0, 100) == 0);
  for (int i = 0; i < 20; ++i) REQUIRE(p.b.receive(3, 0, 4000) == 0);
  for (int i = 0; i < 20; ++i) {
    REQUIRE(p.a.send(1, 0, 4000) == 0);
    CHECK(p.b.received().byte_len == 4000);
    CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  }
  REQUIRE(p.a.send(2, 0, 101) == 0);
  CHECK(p.b.received().status == IBV_WC_LOC_LEN_ERR);
  CHECK(p.a.sent().status == IBV_WC_REM_INV_REQ_ERR);
}

#ifndef PENSTOCK_TSAN
TEST_CASE("a message that was received is done, though its receiver goes before the sender looks") {
  constexpr std::size_t length = 8u << 20;
  struct way {
    const char* name;
    std::size_t bytes;
    ibv_wr_opcode op;
    bool shared;
  };
  for (const way& w :
       {way{"a slot", 8, IBV_WR_SEND, false}, way{"a slot, SRQ", 8, IBV_WR_SEND, true},
        way{"an immediate", 8, IBV_WR_RDMA_WRITE_WITH_IMM, false},
        way{"data of the ring", 3000, IBV_WR_SEND, false},
        way{"data of the ring, SRQ", 3000, IBV_WR_SEND_WITH_IMM, true},
        way{"a file", length, IBV_WR_SEND, false}, way{"a file, SRQ", length, IBV_WR_SEND, true}}) {
    CAPTURE(w.name);
    options oa, ob;
    oa.memory = ob.memory = length;
    ob.channel = true;
    ob.srq_wr = w.shared ? 4 : 0;
    pair p(oa, ob);
    const bool by_file = w.bytes == length;
    REQUIRE(p.b.receive(1, 0, length) == 0);
    if (!by_file) REQUIRE(ibv_req_notify_cq(p.b.recv_cq, 0) == 0);  // it is told of each message
    ibv_wc received{}, sent{};
    std::unique_ptr<held_up> held;
    if (by_file) held = std::make_unique<held_up>(p.b);
    std::atomic<bool> was_reset{false};
    when_asked = [&] {
      held.reset();
      received = p.b.received();
      was_reset = p.b.set_state(IBV_QPS_RESET) == 0;
    };
    awaited = static_cast<int>(by_file ? shm::request_kind::overflow : shm::request_kind::kick);
    REQUIRE(p.a.post(7, w.op, 0, w.bytes, IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
      wr.wr.rdma = {reinterpret_cast<std::uint64_t>(p.b.memory.data()), p.b.mr->rkey};
    }) == 0);
    sent = p.a.sent();
    CHECK(wait_for([&] { return was_reset.load(); }));
    CHECK(received.status == IBV_WC_SUCCESS);
    CHECK(received.byte_len == w.bytes);
    CHECK(sent.status == IBV_WC_SUCCESS);
  }
}
#endif
