// What is refused at the port of tcp0: strangers, wrong secrets, greetings that were heard before.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>

#include "nic/tcp/hello.hpp"
#include "nic/tcp/network.hpp"
#include "test/nic/rig.hpp"

namespace tcp = penstock::nic::tcp;

namespace {

/// The secret of contexts of this process that no setting names one for.
const tcp::secret& own_secret() {
  static const tcp::secret s = tcp::secret::of("");
  return s;
}

struct visit {
  int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  tcp::endpoint at;
  explicit visit(const rig::side& s)
      : at(static_cast<tcp::network&>(*penstock::nic::shm::of(s.context).carrier).self()) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = at.ip;
    a.sin_port = htons(at.port);
    REQUIRE(::connect(socket, reinterpret_cast<sockaddr*>(&a), sizeof a) == 0);
  }
  visit(const visit&) = delete;
  visit& operator=(const visit&) = delete;
  ~visit() { ::close(socket); }
  bool say(const void* bytes, std::size_t n) const {
    return ::send(socket, bytes, n, MSG_NOSIGNAL) == static_cast<ssize_t>(n);
  }
  bool hear(void* bytes, std::size_t n) const {
    return ::recv(socket, bytes, n, MSG_WAITALL) == static_cast<ssize_t>(n);
  }
  /// Whether the other end hangs up within ten seconds.
  bool hung_up() const {
    for (;;) {
      pollfd p{socket, POLLIN, 0};
      if (::poll(&p, 1, 10'000) <= 0) return false;
      char rest[256];
      if (::recv(socket, rest, sizeof rest, 0) <= 0) return true;
    }
  }
  [[nodiscard]] tcp::hello hello(std::uint64_t number) const {
    tcp::hello h;
    h.from_ip = at.ip, h.from_port = 9;  // nobody's
    h.to_ip = at.ip, h.to_port = at.port;
    h.instance = 77;
    h.number[0] = number;
    return h;
  }
};

rig::options over_tcp() {
  rig::options o;
  o.tcp = true;
  return o;
}

/// What this process says on its standard error meanwhile.
class said {
 public:
  said() : kept_(::dup(2)) {
    REQUIRE(file_ != nullptr);
    REQUIRE(::dup2(::fileno(file_), 2) == 2);
  }
  said(const said&) = delete;
  said& operator=(const said&) = delete;
  ~said() {
    ::dup2(kept_, 2);
    ::close(kept_);
    std::fclose(file_);
  }
  [[nodiscard]] std::string text() const {
    std::string all(64 * 1024, '\0');
    all.resize(static_cast<std::size_t>(
        std::max<ssize_t>(0, ::pread(::fileno(file_), all.data(), all.size(), 0))));
    return all;
  }

 private:
  int kept_;
  std::FILE* file_ = std::tmpfile();
};

void still_works(rig::pair& p) {
  REQUIRE(p.b.receive(1, 0, 64) == 0);
  REQUIRE(p.a.send(1, 0, 64) == 0);
  CHECK(p.b.received().status == IBV_WC_SUCCESS);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
}

}  // namespace

TEST_CASE("300,000 random bytes are refused with one line, however often, and nothing slows") {
  rig::pair p(over_tcp());
  const said lines;
  still_works(p);
  std::mt19937_64 random(42);
  std::vector<std::uint64_t> bytes(300'000 / 8);
  for (auto& b : bytes) b = random();
  for (int i = 0; i < 100; ++i) {
    const visit v(p.b);
    v.say(bytes.data() + i * 100, (bytes.size() - static_cast<std::size_t>(i) * 100) * 8);
    CHECK(v.hung_up());
    still_works(p);
  }
  const std::string all = lines.text();
  CHECK(std::ranges::count(all, '\n') == 1);
  CHECK(all.find("refuses a connection that does not speak its language") != all.npos);
}

TEST_CASE("half a greeting holds up nobody") {
  rig::pair p(over_tcp());
  const visit v(p.b);
  const tcp::hello h = v.hello(1);
  CHECK(v.say(&h, 20));
  still_works(p);
}

TEST_CASE("who does not know the secret is refused") {
  rig::pair p(over_tcp());
  const visit v(p.b);
  const tcp::hello h = v.hello(1);
  REQUIRE(v.say(&h, sizeof h));
  tcp::challenge c;
  REQUIRE(v.hear(&c, sizeof c));
  const tcp::secret wrong = tcp::secret::of("wrong");
  CHECK_FALSE(tcp::prove(wrong, 1, h, c).same(c.shown));
  const tcp::proof mine = tcp::prove(wrong, 2, h, c);
  REQUIRE(v.say(&mine, sizeof mine));
  CHECK(v.hung_up());
  still_works(p);
}

TEST_CASE("a greeting that was heard before is refused") {
  rig::pair p(over_tcp());
  tcp::hello h;
  tcp::proof mine;
  {
    const visit v(p.b);
    h = v.hello(1);
    REQUIRE(v.say(&h, sizeof h));
    tcp::challenge c;
    REQUIRE(v.hear(&c, sizeof c));
    CHECK(tcp::prove(own_secret(), 1, h, c).same(c.shown));
    mine = tcp::prove(own_secret(), 2, h, c);
    REQUIRE(v.say(&mine, sizeof mine));
    // It is let in, and what makes no sense then ends it.
    const std::uint64_t rubbish[8] = {~0ull, ~0ull, ~0ull, ~0ull};
    REQUIRE(v.say(rubbish, sizeof rubbish));
    CHECK(v.hung_up());
  }
  const visit again(p.b);
  REQUIRE(again.say(&h, sizeof h));
  tcp::challenge c;
  REQUIRE(again.hear(&c, sizeof c));
  REQUIRE(again.say(&mine, sizeof mine));
  CHECK(again.hung_up());
  still_works(p);
}
