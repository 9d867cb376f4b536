// pentop's reading and its pictures: answers of processes, and of sockets that say anything else.
#include <doctest/doctest.h>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "lib/base/clock.hpp"
#include "lib/base/counters_socket.hpp"
#include "tools/pentop/layout.hpp"
#include "tools/pentop/view.hpp"

using namespace pentop;

namespace {

/// As a process of ours says it: rank `rank` of 4 has sent and waited towards rank 0.
std::string answer(std::uint32_t rank, std::uint64_t shorts, std::uint64_t wait_ns) {
  return fmt::format(
      R"({{"format":1,"rank":{},"ranks":4,"pid":{},"job":"abcd","program":"p","host":"h",)"
      R"("device":"shm0","polls":{},"credits":100,"bank":7,"peers":[{{"peer":0,"path":"rings",)"
      R"("waits_for":"credits","waits_handler":"3 on_hit","requests_sent":{{"shorts":{},"mediums":2,"longs":1,)"
      R"("medium_bytes":30,"long_bytes":70,"own":5}},"put_bytes":900,"stalls":3,"waits":4,)"
      R"("wait_ns":{},"waiting_ns":0,"loan":12,"holds":9}}]}})"
      "\n",
      rank, 1000 + rank, shorts, shorts, wait_ns);
}

sample sample_at(std::uint64_t ns, std::uint64_t shorts, std::uint64_t wait_ns) {
  sample s;
  s.at_ns = ns;
  for (std::uint32_t r = 1; r < 4; ++r) {
    process p;
    REQUIRE(read_answer(answer(r, shorts, wait_ns * r), p));
    s.processes.emplace(r, p);
  }
  return s;
}

/// A socket that says what it is told to say to the first who comes, and closes.
class liar {
 public:
  liar(const std::string& name, std::string text) : text_(std::move(text)) {
    fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path + 1, name.data(), name.size());
    REQUIRE(::bind(fd_, reinterpret_cast<sockaddr*>(&at),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) == 0);
    REQUIRE(::listen(fd_, 4) == 0);
    thread_ = std::thread([this] {
      const int to = ::accept(fd_, nullptr, nullptr);
      char word[64];
      (void)!::recv(to, word, sizeof word, 0);
      (void)!::send(to, text_.data(), text_.size(), MSG_NOSIGNAL);
      ::close(to);
    });
  }
  ~liar() {
    thread_.join();
    ::close(fd_);
  }
  liar(const liar&) = delete;
  liar& operator=(const liar&) = delete;

 private:
  std::string text_;
  int fd_ = -1;
  std::thread thread_;
};

}  // namespace

TEST_CASE("A line of /proc/net/unix is one of ours only if its name is whole") {
  place p;
  CHECK(read_place("0: 2 0 10000 1 1 9 @penstock-counters/1000/abcd1234/7/0", p));
  CHECK(p.user == 1000);
  CHECK(p.job == "abcd1234");
  CHECK(p.rank == 7);
  CHECK(p.endpoint == 0);
  CHECK(p.socket == "penstock-counters/1000/abcd1234/7/0");
  for (const char* bad :
       {"", "@", "0: 2 0 10000 1 1 9 /run/systemd/private", "@penstock-counters/",
        "@penstock-counters/1/a/2", "@penstock-counters/1/a/2/3/4", "@penstock-counters/x/a/2/3",
        "@penstock-counters/1//2/3", "@penstock-counters/1/a/-2/3",
        "@penstock-counters/1/a/99999999999/3", "@penstock-counters/1/\x1b[2J/2/3",
        "@penstock-counters/1/aaaaaaaaaaaaaaaaaaaaaaaa/2/3"}) {
    CAPTURE(bad);
    CHECK_FALSE(read_place(bad, p));
  }
  CHECK_FALSE(read_place("@penstock-counters/1/a/2/" + std::string(200, '3'), p));
}

TEST_CASE("An answer is read whole, or not at all") {
  process p;
  REQUIRE(read_answer(answer(2, 40, 500), p));
  CHECK(p.rank == 2);
  CHECK(p.ranks == 4);
  CHECK(p.bank == 7);
  CHECK(p.with.at(0).messages == 48);
  CHECK(p.with.at(0).bytes == 1000);
  CHECK(p.with.at(0).waited_ns == 500);
  CHECK(p.with.at(0).waits_handler == "3 on_hit");
  const std::string whole = answer(1, 3, 4);
  for (std::size_t n = 0; n + 2 < whole.size(); ++n) {
    process part;
    CHECK_FALSE(read_answer(whole.substr(0, n), part));
  }
  for (const char* bad :
       {"null", "[]", "{}", R"({"format":2,"rank":0,"ranks":1,"peers":[]})",
        R"({"format":1,"rank":4,"ranks":4,"peers":[]})", R"({"format":1,"rank":0,"ranks":1})",
        R"({"format":1,"rank":0,"ranks":1,"peers":{}})",
        R"({"format":1,"rank":0,"ranks":1,"peers":[7]})",
        R"({"format":1,"rank":0,"ranks":1,"peers":[{"peer":1}]})"}) {
    CAPTURE(bad);
    process none;
    CHECK_FALSE(read_answer(bad, none));
  }
}

TEST_CASE("Answers with any bytes changed do no harm, and what is shown stays printable") {
  std::minstd_rand dice(20);
  const std::string whole = answer(1, 123456, 789);
  unsigned read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = whole;
    for (auto n = 1 + dice() % 4; n != 0; --n)
      text[dice() % text.size()] = static_cast<char>(dice() % 256);
    process p;
    if (!read_answer(text, p)) continue;
    ++read;
    sample s;
    s.at_ns = 1;
    s.processes.emplace(p.rank, p);
    const picture seen = compare("j", sample{}, s);
    for (const char c : as_text(seen, 10)) REQUIRE((c == '\n' || (c >= ' ' && c <= '~')));
    (void)as_json(seen).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  CHECK(read > 100);
  // Brackets that never close, numbers without end.
  process p;
  CHECK_FALSE(read_answer(std::string(1 << 20, '['), p));
  CHECK_FALSE(read_answer("{\"format\":" + std::string(1 << 20, '9'), p));
}

TEST_CASE("Rates, waits and who is waited for come from two samples") {
  const picture p = compare("j", sample_at(1'000'000'000, 100, 10'000'000),
                            sample_at(3'000'000'000, 2100, 210'000'000));
  CHECK(p.seconds == doctest::Approx(2));
  CHECK(p.target == 0);
  REQUIRE(p.waits.size() == 3);
  CHECK(p.waits[0].from == 3);  // waits longest
  CHECK(p.waits[0].waited == doctest::Approx(0.3));
  REQUIRE(p.flows.size() == 3);
  CHECK(p.flows[0].messages == doctest::Approx(1000));
  CHECK(p.polls.at(2) == doctest::Approx(1000));
  const nlohmann::json j = as_json(p);
  CHECK(j["target"] == 0);
  CHECK(j["waits"].size() == 3);
  CHECK(j["processes"].size() == 3);
}

TEST_CASE("Nobody waits: there is no target") {
  const picture p = compare("j", sample_at(1'000'000'000, 1, 5), sample_at(2'000'000'000, 2, 5));
  CHECK(p.target == picture::no_target);
  CHECK(as_json(p)["target"].is_null());
  CHECK(as_json(compare("j", {}, {}))["processes"].empty());
  CHECK(as_text(compare("j", {}, {}), 5) == "job j: no process answers\n");
}

TEST_CASE("A socket that says rubbish, nothing, or another rank's words is no answer") {
  const std::string before =
      fmt::format("{}{}/t{}/", penstock::counters_socket, ::geteuid(), ::getpid() % 10000);
  int n = 0;
  for (const std::string& said : {std::string(), std::string("{"), std::string("\0\xff", 2),
                                  answer(2, 1, 1), answer(1, 1, 1).substr(0, 100)}) {
    place at;
    REQUIRE(read_place(fmt::format("@{}1/{}", before, n++), at));
    const liar one(at.socket, said);
    process p;
    CHECK_FALSE(ask(at, 2000, p));
  }
  place honest;
  REQUIRE(read_place(fmt::format("@{}1/{}", before, n), honest));
  const liar one(honest.socket, answer(1, 9, 9));
  process p;
  CHECK(ask(honest, 2000, p));
  CHECK(p.with.at(0).messages == 17);
}

TEST_CASE("Who listens and does not answer is waited for no longer than was said") {
  place at;
  REQUIRE(read_place(
      fmt::format("@{}{}/s{}/0/0", penstock::counters_socket, ::geteuid(), ::getpid() % 10000),
      at));
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path + 1, at.socket.data(), at.socket.size());
  REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&to),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + at.socket.size())) ==
          0);
  REQUIRE(::listen(fd, 4) == 0);
  const std::uint64_t before = penstock::now_ns();
  CHECK(take({at}, 200).silent == std::vector<std::uint32_t>{0});
  const std::uint64_t took = penstock::now_ns() - before;
  CHECK(took >= 190'000'000);
  CHECK(took < 5'000'000'000);
  ::close(fd);
}

namespace {

// Ranks 0 to n - 1, each with more messages and less waiting than the one before it.
picture many(std::uint32_t n) {
  picture p;
  p.job = "abcd";
  p.seconds = 1;
  for (std::uint32_t r = 0; r < n; ++r) {
    process one;
    one.rank = r, one.ranks = n, one.pid = 100 + r, one.program = "p", one.device = "shm0";
    p.now.processes.emplace(r, one);
    p.polls[r] = r;
    flow f{.from = r, .to = (r + 1) % n, .now = {}};
    f.messages = 10 * r, f.bytes = 1e6 - r, f.waited = 0.9 - 0.01 * r;
    f.now.waits_for = "credits", f.now.path = "rings";
    p.waits.push_back(f);
    p.flows.push_back(f);
  }
  p.target = 0;
  return p;
}

// The ranks that the upper table shows, in order.
std::vector<std::uint32_t> shown(const std::vector<std::string>& lines) {
  std::vector<std::uint32_t> ranks;
  for (std::size_t i = 3; i < lines.size() && !lines[i].empty(); ++i)
    ranks.push_back(static_cast<std::uint32_t>(std::strtoul(lines[i].c_str(), nullptr, 10)));
  return ranks;
}

}  // namespace

TEST_CASE("The screen has exactly the terminal's lines, and none is longer than it is wide") {
  for (const std::uint32_t ranks : {1u, 4u, 12u, 500u})
    for (std::size_t rows = 0; rows < 60; ++rows)
      for (const std::size_t columns : {0u, 1u, 20u, 80u, 100u, 300u})
        for (const bool help : {false, true}) {
          choices c;
          c.help = help;
          const auto lines = lay_out(many(ranks), c, rows, columns);
          REQUIRE(lines.size() == rows);
          for (const std::string& line : lines) REQUIRE(line.size() <= columns);
        }
}

TEST_CASE("The job, both headings and the keys are there however many ranks there are") {
  for (const std::uint32_t ranks : {2u, 12u, 500u}) {
    choices c;
    const auto lines = lay_out(many(ranks), c, 24, 120);
    CHECK(lines[0].starts_with("job abcd: p,"));
    CHECK(lines[1] == "The others wait for rank 0 most.");
    CHECK(lines[2].find("rank") != std::string::npos);
    CHECK(std::ranges::count_if(lines, [](const auto& l) { return l.find(" from ") != l.npos; }) ==
          1);
    CHECK(lines.back().starts_with("q ends"));
  }
}

TEST_CASE("Keys sort the tables, and turn the order round") {
  const picture p = many(4);
  choices c;
  const auto order = [&](std::initializer_list<int> keys) {
    for (const int key : keys) CHECK(press(key, 40, c));
    return shown(lay_out(p, c, 40, 120));
  };
  using ranks = std::vector<std::uint32_t>;
  CHECK(order({}) == ranks{0, 1, 2, 3});
  CHECK(order({'m'}) == ranks{3, 2, 1, 0});
  CHECK(order({'b'}) == ranks{0, 1, 2, 3});
  CHECK(order({'R'}) == ranks{3, 2, 1, 0});
  CHECK(order({'w'}) == ranks{3, 2, 1, 0});
  CHECK(order({'R'}) == ranks{0, 1, 2, 3});
  CHECK(order({'r'}) == ranks{0, 1, 2, 3});
}

TEST_CASE("Keys move a table that does not fit, and stop at its ends") {
  const picture p = many(500);
  choices c;
  const auto first = [&](std::initializer_list<int> keys) {
    for (const int key : keys) CHECK(press(key, 24, c));
    return shown(lay_out(p, c, 24, 120)).front();
  };
  CHECK(first({}) == 0);
  CHECK(first({key_up, 'k', key_page_up}) == 0);
  CHECK(first({key_down, 'j'}) == 2);
  CHECK(first({key_page_down}) == 10);
  CHECK(first({key_end}) == 500 - shown(lay_out(p, c, 24, 120)).size());
  CHECK(shown(lay_out(p, c, 24, 120)).back() == 499);
  CHECK(first({key_down, key_page_down}) == 500 - shown(lay_out(p, c, 24, 120)).size());
  CHECK(first({key_home}) == 0);
  CHECK(first({'\t', key_page_down}) == 0);  // this moves the table of pairs
  CHECK(c.first[1] != 0);
}

TEST_CASE("q ends, and no other key does") {
  choices c;
  CHECK_FALSE(press('q', 24, c));
  for (int key = 0; key < 1010; ++key)
    if (key != 'q' && key != 'Q') CHECK(press(key, 24, c));
}
