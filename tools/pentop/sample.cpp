#include "tools/pentop/sample.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <fstream>

#include "lib/base/clock.hpp"
#include "lib/base/counters_socket.hpp"

namespace pentop {
namespace {

using nlohmann::json;

constexpr std::size_t longest_answer = std::size_t{256} << 20;

template <class T>
bool number(const std::string& text, T& out) {
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, out);
  return !text.empty() && error == std::errc() && stopped == end;
}

std::uint64_t count(const json& j, const char* name) {
  const auto at = j.find(name);
  return at != j.end() && at->is_number_unsigned() ? at->get<std::uint64_t>() : 0;
}

// The text is shown on a terminal, so only printable characters are kept.
std::string word(const json& j, const char* name) {
  const auto at = j.find(name);
  if (at == j.end() || !at->is_string()) return {};
  std::string text = at->get<std::string>().substr(0, 64);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

std::uint64_t sent_messages(const json& p, const char* direction, std::uint64_t& bytes) {
  const auto at = p.find(direction);
  if (at == p.end() || !at->is_object()) return 0;
  bytes += count(*at, "medium_bytes") + count(*at, "long_bytes");
  return count(*at, "shorts") + count(*at, "mediums") + count(*at, "longs") + count(*at, "own");
}

pair_figures read_pair(const json& p) {
  pair_figures f;
  f.path = word(p, "path");
  f.waits_for = word(p, "waits_for");
  f.waits_handler = word(p, "waits_handler");
  f.messages = sent_messages(p, "requests_sent", f.bytes);
  f.messages += sent_messages(p, "replies_sent", f.bytes);
  f.bytes += count(p, "put_bytes") + count(p, "get_bytes");
  f.stalls = count(p, "stalls"), f.waits = count(p, "waits");
  f.waiting_ns = count(p, "waiting_ns");
  f.waited_ns = count(p, "wait_ns") + f.waiting_ns;
  f.loan = count(p, "loan"), f.holds = count(p, "holds");
  f.lent = count(p, "credits_lent"), f.revoked = count(p, "credits_revoked");
  return f;
}

// Reads until the other end closes, or the time is over.
bool read_all(int fd, std::uint64_t until_ns, std::string& text) {
  char part[65536];
  for (;;) {
    const std::uint64_t now = penstock::now_ns();
    if (now >= until_ns || text.size() > longest_answer) return false;
    pollfd p{fd, POLLIN, 0};
    if (::poll(&p, 1, static_cast<int>((until_ns - now) / 1'000'000) + 1) < 1) continue;
    const ssize_t n = ::recv(fd, part, sizeof part, MSG_DONTWAIT);
    if (n == 0) return true;
    if (n < 0) return false;
    text.append(part, static_cast<std::size_t>(n));
  }
}

bool may_be_asked(int fd) {
  ucred peer{};
  socklen_t n = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
         (peer.uid == ::geteuid() || ::geteuid() == 0);
}

}  // namespace

bool read_place(const std::string& line, place& out) {
  const std::string mark = std::string("@") + penstock::counters_socket;
  const std::size_t at = line.find(mark);
  if (at == std::string::npos) return false;
  out.socket = line.substr(at + 1);
  if (out.socket.size() + 1 > sizeof sockaddr_un{}.sun_path) return false;
  std::vector<std::string> parts(1);
  for (const char c : out.socket.substr(mark.size() - 1))
    if (c == '/')
      parts.emplace_back();
    else
      parts.back() += c;
  if (parts.size() != 4 || parts[1].empty() || parts[1].size() > 16) return false;
  for (const char c : parts[1])
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) return false;
  out.job = parts[1];
  return number(parts[0], out.user) && number(parts[2], out.rank) && number(parts[3], out.endpoint);
}

std::vector<place> find(const std::string& table) {
  std::vector<place> all;
  std::ifstream file(table);
  place p;
  for (std::string line; std::getline(file, line);)
    if (read_place(line, p) && (p.user == ::geteuid() || ::geteuid() == 0)) all.push_back(p);
  const auto key = [](const place& x) { return std::tuple(x.user, x.job, x.endpoint, x.rank); };
  std::sort(all.begin(), all.end(),
            [&](const place& a, const place& b) { return key(a) < key(b); });
  // A socket to which a program is connected is listed more than once.
  all.erase(std::unique(all.begin(), all.end(),
                        [&](const place& a, const place& b) { return key(a) == key(b); }),
            all.end());
  return all;
}

bool read_answer(const std::string& text, process& out) {
  json j = json::parse(text, nullptr, false);
  if (j.is_discarded() || !j.is_object() || count(j, "format") != 1) return false;
  const auto peers = j.find("peers");
  if (peers == j.end() || !peers->is_array()) return false;
  out.ranks = static_cast<std::uint32_t>(std::min<std::uint64_t>(count(j, "ranks"), ~0u));
  out.rank = static_cast<std::uint32_t>(std::min<std::uint64_t>(count(j, "rank"), ~0u));
  if (out.rank >= out.ranks) return false;
  out.pid = count(j, "pid"), out.polls = count(j, "polls");
  out.bank = count(j, "bank"), out.credits = count(j, "credits");
  out.program = word(j, "program"), out.host = word(j, "host"), out.device = word(j, "device");
  for (const json& p : *peers) {
    if (!p.is_object() || count(p, "peer") >= out.ranks) return false;
    out.with[static_cast<std::uint32_t>(count(p, "peer"))] = read_pair(p);
  }
  out.whole = std::move(j);
  return true;
}

bool ask(const place& at, int ms, process& out) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path + 1, at.socket.data(), at.socket.size());
  const auto n = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + at.socket.size());
  std::string text;
  const bool said =
      ::connect(fd, reinterpret_cast<sockaddr*>(&to), n) == 0 && may_be_asked(fd) &&
      ::send(fd, penstock::ask_for_counters, std::strlen(penstock::ask_for_counters),
             MSG_NOSIGNAL) > 0 &&
      read_all(fd, penstock::now_ns() + static_cast<std::uint64_t>(ms) * 1'000'000, text);
  ::close(fd);
  return said && read_answer(text, out) && out.rank == at.rank;
}

sample take(const std::vector<place>& of_job, int ms) {
  sample s;
  s.at_ns = penstock::now_ns();
  for (const place& p : of_job) {
    process one;
    if (ask(p, ms, one))
      s.processes.emplace(p.rank, std::move(one));
    else
      s.silent.push_back(p.rank);
  }
  return s;
}

}  // namespace pentop
