// tcp0 beside a peer that the test plays by hand, frame by frame: what must hold when frames come
// late, twice or not at all, and when connections end at the worst moment.
#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <utility>

#include "nic/shm/datagram.hpp"
#include "nic/tcp/hello.hpp"
#include "nic/tcp/network.hpp"
#include "test/nic/rig.hpp"

namespace tcp = penstock::nic::tcp;
namespace shm = penstock::nic::shm;
using tcp::kind;

namespace {

rig::options over_tcp(ibv_qp_type type = IBV_QPT_RC) {
  rig::options o;
  o.tcp = true;
  o.type = type;
  return o;
}

/// The other end of s's queue pair: a process that has a port, the secret, and no device.
class by_hand {
 public:
  explicit by_hand(rig::side& s)
      : s_(s), here_(static_cast<tcp::network&>(*shm::of(s.context).carrier).self()) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto first = static_cast<std::uint16_t>(here_.port - (s.qp->qp_num >> shm::own_bits));
    std::uint32_t block = 0;
    bool bound = false;
    for (; !bound && block < shm::most_contexts; block += bound ? 0 : 1) {
      here_.port = static_cast<std::uint16_t>(first + block);
      const sockaddr_in a = address(here_);
      bound = ::bind(listener_, reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0;
    }
    REQUIRE(bound);
    REQUIRE(::listen(listener_, 16) == 0);
    qpn = block << shm::own_bits | 5;
    REQUIRE(s.to_rtr(s.qp, s.gid, qpn) == 0);
    REQUIRE(s.to_rts(s.qp) == 0);
  }
  by_hand(const by_hand&) = delete;
  by_hand& operator=(const by_hand&) = delete;
  ~by_hand() {
    hang_up();
    ::close(listener_);
  }

  /// Waits until the device connects. With `greets` it is greeted, else hung up on.
  void be_visited(bool greets = true) {
    pollfd p{listener_, POLLIN, 0};
    REQUIRE(::poll(&p, 1, 10'000) == 1);
    socket_ = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    REQUIRE(socket_ >= 0);
    if (!greets) return hang_up();
    tcp::hello h;
    REQUIRE(read(&h, sizeof h));
    tcp::challenge c;
    c.instance = 77;
    c.shown = tcp::prove(key_, 1, h, c);
    tcp::proof theirs;
    REQUIRE(write(&c, sizeof c));
    REQUIRE(read(&theirs, sizeof theirs));
    REQUIRE(tcp::prove(key_, 2, h, c).same(theirs));
  }
  /// Resets the connection: what was under way is lost.
  void hang_up() {
    if (socket_ < 0) return;
    const linger now{1, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    ::close(std::exchange(socket_, -1));
  }

  bool write(const void* bytes, std::size_t n) const {
    return ::send(socket_, bytes, n, MSG_NOSIGNAL) == static_cast<ssize_t>(n);
  }
  bool read(void* bytes, std::size_t n) const {
    auto* at = static_cast<char*>(bytes);
    while (n != 0) {
      pollfd p{socket_, POLLIN, 0};
      if (::poll(&p, 1, 10'000) != 1) return false;
      const ssize_t got = ::recv(socket_, at, n, 0);
      if (got <= 0) return false;
      at += got, n -= static_cast<std::size_t>(got);
    }
    return true;
  }
  /// Segments with data that have come.
  std::uint32_t segments() const {
    tcp_info i{};
    socklen_t n = sizeof i;
    REQUIRE(::getsockopt(socket_, IPPROTO_TCP, TCP_INFO, &i, &n) == 0);
    return i.tcpi_data_segs_in;
  }
  /// Waits until the device hangs up. False: it is silent, or says something.
  bool is_left() const {
    pollfd p{socket_, POLLIN, 0};
    char c;
    return ::poll(&p, 1, 10'000) == 1 && ::recv(socket_, &c, 1, 0) <= 0;
  }
  /// The next frame but its payload.
  tcp::frame_head hear() const {
    tcp::frame_head f;
    REQUIRE(read(&f, sizeof f));
    std::byte more[tcp::longest_head];
    REQUIRE(read(more, tcp::more_head(f.what)));
    return f;
  }
  /// The next SEND, whose payload is dropped.
  tcp::frame_head hear_send() const {
    const tcp::frame_head f = hear();
    REQUIRE(f.what == kind::send);
    std::vector<std::byte> payload(f.bytes);
    REQUIRE(read(payload.data(), payload.size()));
    return f;
  }
  tcp::frame_head frame(kind what, std::uint32_t seq, std::uint32_t bytes = 0) const {
    return {.what = what, .bytes = bytes, .to = s_.qp->qp_num, .from = qpn, .seq = seq};
  }
  void say(kind what, std::uint32_t seq) const {
    const tcp::frame_head f = frame(what, seq);
    REQUIRE(write(&f, sizeof f));
  }
  /// A request that has a place, with its operand or payload behind it.
  void ask(const tcp::frame_head& f, std::uint64_t address, std::uint64_t operand) const {
    const tcp::frame_place place{address, s_.mr->rkey, 8};
    const tcp::frame_operands both{operand, 0};
    REQUIRE(write(&f, sizeof f));
    REQUIRE(write(&place, sizeof place));
    REQUIRE(write(&both, tcp::is_atomic(f.what) ? sizeof both : 8));
  }

  std::uint32_t qpn = 0;

 private:
  static sockaddr_in address(const tcp::endpoint& e) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = e.ip;
    a.sin_port = htons(e.port);
    return a;
  }
  rig::side& s_;
  tcp::endpoint here_;
  tcp::secret key_ = tcp::secret::of("");
  int listener_ = -1, socket_ = -1;
};

}  // namespace

TEST_CASE("a word of absence ends no request: all without an ack are sent again") {
  rig::side s(over_tcp());
  by_hand peer(s);
  peer.be_visited();
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE(s.send(i, 0, 8) == 0);
  for (std::uint32_t i = 0; i < 3; ++i) CHECK(peer.hear_send().seq == i);
  peer.say(kind::absent, 2);
  for (std::uint32_t i = 0; i < 3; ++i) CHECK(peer.hear_send().seq == i);
  CHECK(rig::side::empty(s.send_cq));
  // Once they are under way the timer for an absent peer has ended, whatever the answer takes.
  CHECK_FALSE(rig::wait_for([&] { return !rig::side::empty(s.send_cq); }, 0.4));
  peer.say(kind::ack, 2);
  for (std::uint64_t i = 0; i < 3; ++i) {
    const ibv_wc wc = s.sent();
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.wr_id == i);
  }
}

TEST_CASE("what is posted while a connection comes up goes out once, and in order") {
  rig::side s(over_tcp());
  by_hand peer(s);
  shm::queue_pair& qp = shm::of(s.qp);
  {
    // The device has to wait for this lock, when it is greeted, to send what has no answer.
    const shm::hold sending(qp.sending);
    peer.be_visited();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (std::uint64_t i = 0; i < 3; ++i) {
      ibv_send_wr wr{}, *bad = nullptr;
      wr.wr_id = i;
      wr.opcode = IBV_WR_SEND;
      wr.send_flags = IBV_SEND_SIGNALED;
      REQUIRE(qp.owner->post(qp, &wr, &bad) == 0);
    }
  }
  for (std::uint32_t i = 0; i < 3; ++i) CHECK(peer.hear_send().seq == i);
  peer.say(kind::ack, 2);
  for (std::uint64_t i = 0; i < 3; ++i) CHECK(s.sent().wr_id == i);
  REQUIRE(s.send(3, 0, 8) == 0);
  CHECK(peer.hear_send().seq == 3);
}

TEST_CASE("an ack is asked for at once where the target's program is told nothing, and else not") {
  rig::side s(over_tcp());
  by_hand peer(s);
  peer.be_visited();
  const auto asked = [&](ibv_wr_opcode op, std::size_t bytes, unsigned flags) {
    REQUIRE(s.post(1, op, 0, bytes, flags) == 0);
    const tcp::frame_head f = peer.hear();
    std::vector<std::byte> payload(f.bytes);
    REQUIRE(peer.read(payload.data(), payload.size()));
    return (f.flags & tcp::flag_answer_now) != 0;
  };
  CHECK(asked(IBV_WR_RDMA_WRITE, 8, IBV_SEND_SIGNALED));
  CHECK_FALSE(asked(IBV_WR_RDMA_WRITE, 8, 0));
  CHECK_FALSE(asked(IBV_WR_RDMA_WRITE_WITH_IMM, 8, IBV_SEND_SIGNALED));
  CHECK_FALSE(asked(IBV_WR_SEND, 8, IBV_SEND_SIGNALED));
  for (const ibv_wr_opcode op : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND})
    CHECK(asked(op, tcp::large_bytes, 0));
}

TEST_CASE("a WRITE of which no program is told goes with the next request") {
  rig::side s(over_tcp());
  by_hand peer(s);
  peer.be_visited();
  constexpr std::uint32_t pairs = 100;
  const std::uint32_t before = peer.segments();
  for (std::uint32_t i = 0; i < pairs; ++i) {
    REQUIRE(s.post(1, IBV_WR_RDMA_WRITE, 0, 0, 0) == 0);
    REQUIRE(s.send(2, 0, 8) == 0);
    CHECK(peer.hear().what == kind::write);
    peer.say(kind::ack, peer.hear_send().seq);
    CHECK(s.sent().wr_id == 2);
  }
  // The thread may lose its core between the two: then the pusher thread sends the first.
  CHECK(peer.segments() - before < pairs * 3 / 2);
}

TEST_CASE("acks that are owed go before a word of absence") {
  rig::side s(over_tcp());
  REQUIRE(s.receive(1, 0, 64) == 0);
  by_hand peer(s);
  peer.be_visited();
  tcp::frame_head both[2] = {peer.frame(kind::send, 0), peer.frame(kind::send, 0)};
  both[1].to += 1;  // nobody's
  REQUIRE(peer.write(both, sizeof both));
  CHECK(peer.hear().what == kind::ack);
  CHECK(peer.hear().what == kind::absent);
  CHECK(s.received().status == IBV_WC_SUCCESS);
}

TEST_CASE("atomics, as many as may be under way, are answered as before when asked for again") {
  rig::side s(over_tcp());
  std::uint64_t& word = *reinterpret_cast<std::uint64_t*>(s.memory.data());
  word = 0;
  const auto at = reinterpret_cast<std::uint64_t>(&word);
  by_hand peer(s);
  for (int times = 0; times < 2; ++times) {
    CAPTURE(times);
    peer.be_visited();
    for (std::uint32_t seq = 0; seq < 2 * shm::max_reads; ++seq) {
      const bool atomic = seq % 2 == 0;  // and writes between them
      peer.ask(peer.frame(atomic ? kind::fetch_add : kind::write, seq, atomic ? 0 : 8),
               atomic ? at : at + 64, atomic ? 1 : seq);
    }
    for (std::uint64_t answers = 0; answers < shm::max_reads;) {
      const tcp::frame_head f = peer.hear();
      if (f.what != kind::answer) continue;
      std::uint64_t old = 0;
      REQUIRE(peer.read(&old, 8));
      CHECK(f.seq == 2 * answers);
      CHECK(old == answers++);
    }
    peer.hang_up();
  }
  CHECK(word == shm::max_reads);
}

TEST_CASE("a visit that ends in the middle of its greeting is made again") {
  rig::side s(over_tcp());
  by_hand peer(s);
  REQUIRE(s.send(1, 0, 8) == 0);
  for (int i = 0; i < 2; ++i) peer.be_visited(false);
  peer.be_visited();
  CHECK(peer.hear_send().seq == 0);
  peer.say(kind::ack, 0);
  CHECK(s.sent().status == IBV_WC_SUCCESS);
}

TEST_CASE("a datagram whose length is not its frame's ends the connection") {
  rig::side s(over_tcp());
  by_hand peer(s);
  peer.be_visited();
  shm::datagram_head d{};
  d.version = shm::arena_version;
  d.to_qpn = s.qp->qp_num;
  d.bytes = 4000;
  std::byte body[16] = {};
  const tcp::frame_head f = peer.frame(kind::datagram, 0, sizeof d + sizeof body);
  REQUIRE(peer.write(&f, sizeof f));
  REQUIRE(peer.write(&d, sizeof d));
  REQUIRE(peer.write(body, sizeof body));
  CHECK(peer.is_left());
  CHECK(rig::side::empty(s.recv_cq));
  // It was the frame, not the datagram: one of its own length is let pass.
  peer.hang_up();
  peer.be_visited();
  d.bytes = sizeof body;
  REQUIRE(peer.write(&f, sizeof f));
  REQUIRE(peer.write(&d, sizeof d));
  REQUIRE(peer.write(body, sizeof body));
  const std::uint64_t at = reinterpret_cast<std::uint64_t>(s.memory.data());
  peer.ask(peer.frame(kind::fetch_add, 0), at, 1);
  CHECK(peer.hear().what == kind::answer);
}

TEST_CASE("without acknowledgements (UC) a gap is no error, and each request ends") {
  {
    rig::side s(over_tcp(IBV_QPT_UC));
    for (std::uint64_t i = 0; i < 3; ++i) REQUIRE(s.receive(i, 0, 64) == 0);
    by_hand peer(s);
    peer.be_visited();
    for (const std::uint32_t seq : {0u, 2u, 7u}) peer.say(kind::send, seq);
    for (std::uint64_t i = 0; i < 3; ++i) CHECK(s.received().wr_id == i);
  }
  rig::pair p(over_tcp(IBV_QPT_UC));
  const auto into = [&](std::uint32_t key) {
    return [&, key](ibv_send_wr& wr) {
      wr.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(p.b.memory.data());
      wr.wr.rdma.rkey = key;
    };
  };
  p.b.memory[0] = std::byte{1};
  REQUIRE(p.a.post(1, IBV_WR_RDMA_WRITE, 0, 8, IBV_SEND_SIGNALED, into(p.b.mr->rkey + 1)) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  CHECK(p.b.memory[0] == std::byte{1});
  REQUIRE(p.b.receive(7, 0, 8) == 0);
  REQUIRE(p.a.send(2, 0, 64) == 0);  // longer than the receive
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  CHECK(p.b.received().status == IBV_WC_LOC_LEN_ERR);
}

TEST_CASE("queue pairs that end with requests under way disturb no other") {
  rig::pair p(over_tcp());
  for (int i = 0; i < 100; ++i) {
    ibv_qp* ends[2] = {p.a.new_qp(), p.b.new_qp()};
    rig::side* sides[2] = {&p.a, &p.b};
    for (int k = 0; k < 2; ++k) {
      REQUIRE(sides[k]->to_init(ends[k]) == 0);
      REQUIRE(sides[k]->to_rtr(ends[k], sides[1 - k]->gid, ends[1 - k]->qp_num) == 0);
      REQUIRE(sides[k]->to_rts(ends[k]) == 0);
    }
    for (std::uint64_t n = 0; n < 8; ++n) {
      ibv_sge piece = p.a.piece(64 * n, 32);
      ibv_recv_wr r{}, *bad_r = nullptr;
      r.sg_list = &piece, r.num_sge = 1;
      ibv_send_wr w{}, *bad_w = nullptr;
      w.sg_list = &piece, w.num_sge = 1;
      w.opcode = n % 2 == 0 ? IBV_WR_SEND : IBV_WR_RDMA_READ;
      w.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(p.b.memory.data());
      w.wr.rdma.rkey = p.b.mr->rkey;
      ibv_sge there = p.b.piece(4096, 64);
      r.sg_list = &there;
      REQUIRE(ibv_post_recv(ends[1], &r, &bad_r) == 0);
      REQUIRE(ibv_post_send(ends[0], &w, &bad_w) == 0);
    }
    REQUIRE(p.a.v.destroy_qp(ends[i % 2]) == 0);
    REQUIRE(p.a.v.destroy_qp(ends[1 - i % 2]) == 0);
    REQUIRE(p.b.receive(1, 0, 64) == 0);
    REQUIRE(p.a.send(1, 0, 64) == 0);
    REQUIRE(p.a.sent().status == IBV_WC_SUCCESS);
    REQUIRE(p.b.received().wr_id == 1);
  }
}
