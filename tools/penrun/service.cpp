// See service.hpp.
#include "tools/penrun/service.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/base/clock.hpp"

namespace penrun {

using penstock::job::frame_header;
using penstock::job::frame_kind;

namespace {

std::vector<std::byte> make_frame(frame_kind kind, const std::vector<std::byte>& body) {
  const frame_header head{kind, static_cast<std::uint32_t>(body.size())};
  std::vector<std::byte> frame(sizeof head + body.size());
  std::memcpy(frame.data(), &head, sizeof head);
  if (!body.empty()) std::memcpy(frame.data() + sizeof head, body.data(), body.size());
  return frame;
}

}  // namespace

bool service::receive(std::uint32_t rank) {
  member& m = members_[rank];
  if (m.socket_ < 0) return true;
  static std::byte buffer[1 << 16];  // not on the stack, which ulimit -s may have made small
  for (;;) {
    const auto n = ::recv(m.socket_, buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {
      ::close(m.socket_);
      m.socket_ = -1;
      m.hung_up = true;
      break;
    }
    if (!add(m, {buffer, static_cast<std::size_t>(n)})) return false;
  }
  answer_if_complete();
  return true;
}

bool service::take(std::uint32_t rank, std::span<const std::byte> text) {
  if (!add(members_[rank], text)) return false;
  answer_if_complete();
  return true;
}

bool service::add(member& m, std::span<const std::byte> text) {
  m.joined = true;
  m.in_.insert(m.in_.end(), text.begin(), text.end());
  return parse(m);
}

bool service::parse(member& m) {
  std::size_t at = 0;
  while (m.in_.size() - at >= sizeof(frame_header)) {
    frame_header head;
    std::memcpy(&head, m.in_.data() + at, sizeof head);
    if (head.bytes > penstock::job::max_contribution) return false;
    if (m.in_.size() - at - sizeof head < head.bytes) break;
    const auto body = m.in_.begin() + static_cast<std::ptrdiff_t>(at + sizeof head);
    if (!handle(m, head.kind, bytes(body, body + head.bytes))) return false;
    at += sizeof head + head.bytes;
  }
  m.in_.erase(m.in_.begin(), m.in_.begin() + static_cast<std::ptrdiff_t>(at));
  return true;
}

bool service::handle(member& m, frame_kind kind, bytes body) {
  std::int32_t code = 0;
  penstock::job::abort_word word{};
  switch (kind) {
    case frame_kind::exchange:
    case frame_kind::fence:
      m.again_ = m.finalized;
      if (m.waiting_ && !m.again_) return false;
      m.waiting_ = kind;  // so that it gets an answer, if only that the job is over
      if (m.again_) return false;
      m.contribution_ = std::move(body);
      return true;
    case frame_kind::finalize:
      if (body.size() != sizeof code) return false;
      std::memcpy(&code, body.data(), sizeof code);
      m.finalized = true;
      m.final_code = code;
      m.gone = true;
      return true;
    case frame_kind::abort:
      if (body.size() != sizeof word) return false;
      std::memcpy(&word, body.data(), sizeof word);
      m.abort_code = word.code;
      m.ordered = word.ordered != 0;
      m.abort_ns = m.say_ ? penstock::now_ns() : word.when_ns;  // another host has another clock
      m.gone = true;
      return true;
    case frame_kind::left:
      if (!body.empty()) return false;
      left_(static_cast<std::uint32_t>(&m - members_.data()));
      return true;
    case frame_kind::over:
    case frame_kind::too_long:
      return false;
  }
  return false;
}

void service::answer_if_complete() {
  if (members_.size() < processes_) return;
  for (const auto& m : members_)
    if (!m.waiting_) return;
  const frame_kind kind = *members_[0].waiting_;
  std::uint64_t total = 0;
  for (auto& m : members_) {
    if (*m.waiting_ != kind)
      return give_up();  // the processes call different collectives: none can complete
    total += sizeof(std::uint32_t) + m.contribution_.size();
  }
  if (kind != frame_kind::exchange) return answer(kind, {});
  if (total > most_) return answer(frame_kind::too_long, {});
  bytes all;
  all.reserve(total);
  for (const auto& m : members_) penstock::job::add_contribution(all, m.contribution_);
  answer(kind, all);
}

void service::answer(frame_kind kind, const bytes& body) {
  const auto frame = std::make_shared<const bytes>(make_frame(kind, body));
  for (auto& m : members_) {
    m.waiting_.reset();
    m.contribution_ = {};
    send(m, frame);
  }
}

bool service::incomplete() const {
  bool waits = false, gone = false;
  for (const auto& m : members_) {
    waits = waits || m.waiting_;
    gone = gone || m.gone;
  }
  return waits && gone;
}

void service::give_up_if_incomplete() {
  if (incomplete()) give_up();
}

void service::give_up() {
  const auto frame = std::make_shared<const bytes>(make_frame(frame_kind::over, {}));
  for (auto& m : members_) {
    if (!m.waiting_) continue;
    m.waiting_.reset();
    send(m, frame);
  }
}

void service::send(member& m, std::shared_ptr<const bytes> frame) {
  if (m.say_) return m.say_(*frame);
  if (m.socket_ < 0) return;
  m.out_.push_back(std::move(frame));
  flush(static_cast<std::uint32_t>(&m - members_.data()));
}

void service::flush(std::uint32_t rank) {
  member& m = members_[rank];
  while (m.socket_ >= 0 && !m.out_.empty()) {
    const bytes& frame = *m.out_.front();
    const auto n =
        ::send(m.socket_, frame.data() + m.out_sent_, frame.size() - m.out_sent_, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) {
      m.out_.clear();
      return;
    }
    m.out_sent_ += static_cast<std::size_t>(n);
    if (m.out_sent_ < frame.size()) continue;
    m.out_sent_ = 0;
    m.out_.pop_front();
  }
}

}  // namespace penrun
