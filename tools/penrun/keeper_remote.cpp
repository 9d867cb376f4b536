// The keeper's part for other hosts: messages of their agents take the place of sockets, pipes and
// wait statuses.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "tools/penrun/keeper_loop.hpp"

namespace penrun {
namespace {

constexpr std::uint64_t leave_ns = 5'000'000'000;
constexpr std::uint64_t between_asks_ns = 10'000'000'000, silent_ns = 60'000'000'000;
// Standard input that may be on its way to rank 0.
constexpr std::uint64_t input_window = 256 << 10;

std::string_view text_of(std::span<const std::byte> body) {
  return {reinterpret_cast<const char*>(body.data()), body.size()};
}

}  // namespace

bool keeper::start_remotes() {
  away_.assign(options_.processes, true);
  remotes_.reserve(options_.hosts.size());  // the members' speakers refer to them
  for (const host& h : options_.hosts) {
    auto r = start_remote(options_, h, shared_.name);
    if (!r) {
      std::fprintf(stderr, "penrun: host %s: %s\n", h.name.c_str(), r.error().message().c_str());
      code_ = code_of(r.error().code);
      return false;
    }
    remotes_.push_back(std::move(*r));
    remote_host& at = remotes_.back();
    for (std::uint32_t rank = h.first; rank < h.first + h.count; ++rank)
      add(rank, {0, -1, -1, -1}, member([link = at.link.get(), rank](auto frame) {
            link->send(relay_kind::said, rank, frame);
          }));
  }
  input_open_ = true;
  return true;
}

void keeper::hear(remote_host& r) {
  const bool more = r.link->receive([&](relay_kind kind, std::uint32_t rank, auto body) {
    r.asked_ns = 0;
    if (r.has(rank)) heard(r, kind, rank, body);
  });
  if (more) return;
  r.open = false;
  lose(r, r.link->greeted() ? "the connection has ended" : "penrun could not be started there", 1);
}

void keeper::heard(remote_host& r, relay_kind kind, std::uint32_t rank,
                   std::span<const std::byte> body) {
  switch (kind) {
    case relay_kind::said:
      if (service_.take(rank, body)) return;
      std::fprintf(stderr, "penrun: rank %u %s\n", rank, members_[rank].fault());
      return end_job({static_cast<int>(rank), 1}, 1);
    case relay_kind::out:
      return streams_[2 * rank].take(text_of(body));
    case relay_kind::err:
      return streams_[2 * rank + 1].take(text_of(body));
    case relay_kind::exited:
      if (!away_[rank]) return;
      away_[rank] = false;
      return ended_.push_back({rank, relay_value<std::int32_t>(body)});
    case relay_kind::failed: {
      const int error = relay_value<std::int32_t>(body);
      const std::string why(text_of(body.subspan(std::min(sizeof error, body.size()))));
      return lose(r, why.c_str(), code_of(error));
    }
    case relay_kind::input:
      input_on_its_way_ -= std::min(input_on_its_way_, relay_value<std::uint64_t>(body));
      return;
    case relay_kind::start:
    case relay_kind::signal:
    case relay_kind::over:
    case relay_kind::left:
    case relay_kind::where:
    case relay_kind::kill:
    case relay_kind::quit:
    case relay_kind::there:
      return;
  }
}

// A host that is cut off or has stopped sends no end of its connection, and its processes may be
// missed by nobody who would say so.
void keeper::ask_remotes(std::uint64_t now) {
  if (remotes_.empty() || over_ || now < ask_ns_) return;
  ask_ns_ = now + between_asks_ns;
  for (auto& r : remotes_) {
    if (!r.open || !r.link->greeted()) continue;
    if (r.asked_ns == 0)
      r.asked_ns = now, r.link->send(relay_kind::there, 0);
    else if (now - r.asked_ns >= silent_ns)
      lose(r, "has not answered for a minute; is it cut off, or stopped?", 1);
  }
}

// The messages that it passed on before its end are read first.
void keeper::shell_ended(remote_host& r) {
  if (!r.open) return;
  hear(r);
  if (!r.open) return;
  r.open = false;
  lose(r, "the remote shell has ended", 1);
}

// No message of its processes can arrive any more.
void keeper::lose(remote_host& r, const char* why, int code) {
  bool first = true;
  for (std::uint32_t rank = r.where.first; rank < r.where.first + r.where.count; ++rank) {
    if (!away_[rank]) continue;
    if (first) std::fprintf(stderr, "penrun: host %s: %s\n", r.where.name.c_str(), why);
    first = false;
    away_[rank] = false;
    members_[rank].gone = true;
    --alive_;
    end_job({static_cast<int>(rank), code}, code);
  }
}

// The agents end all processes on their hosts when they see the end of their input, and then end
// themselves.
void keeper::leave_remotes() {
  for (auto& r : remotes_) r.link->close_out();
  const std::uint64_t limit = penstock::now_ns() + leave_ns;
  while (penstock::now_ns() < limit) {
    std::vector<pollfd> fds;
    for (const auto& r : remotes_)
      if (r.open) fds.push_back({r.link->in(), POLLIN, 0});
    if (fds.empty()) return;
    ::poll(fds.data(), fds.size(), 100);
    for (auto& r : remotes_)
      if (r.open) hear(r);
  }
}

bool keeper::wants_input() const { return input_open_ && input_on_its_way_ < input_window; }

void keeper::pass_input() {
  static std::byte buffer[1 << 14];
  const auto n = ::read(STDIN_FILENO, buffer, sizeof buffer);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  const std::size_t got = n > 0 ? static_cast<std::size_t>(n) : 0;
  input_open_ = got != 0;
  input_on_its_way_ += got;
  remotes_.front().link->send(relay_kind::input, 0, {buffer, got});  // no bytes: the end
}

}  // namespace penrun
