// See relay.hpp.
#include "tools/penrun/relay.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/job/wire.hpp"

namespace penrun {
namespace {

constexpr std::string_view greeting = "\npenrun-agent 1\n";
// More than this before the greeting is not a remote shell's chatter.
constexpr std::size_t longest_chatter = 1 << 20;
// An exchange's answer with its header, which goes to each rank of another host.
constexpr std::uint32_t longest_message = penstock::job::max_exchange + 4096;

struct head {
  relay_kind kind;
  std::uint32_t rank, bytes;
};

}  // namespace

relay::relay(int in, int out, bool agent) : in_(in), out_(out), greeted_(agent) {
  for (const int fd : {in_, out_}) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  if (agent) {
    const auto text = std::as_bytes(std::span(greeting));
    pending_.assign(text.begin(), text.end());
  }
}

relay::~relay() {
  close_out();
  if (in_ >= 0) ::close(in_);
}

void relay::close_out() {
  if (out_ >= 0) ::close(out_);
  out_ = -1;
  pending_.clear();
  sent_ = 0;
}

void relay::send(relay_kind kind, std::uint32_t rank, std::span<const std::byte> body) {
  if (out_ < 0) return;
  const head h{kind, rank, static_cast<std::uint32_t>(body.size())};
  const auto front = std::as_bytes(std::span(&h, 1));
  pending_.insert(pending_.end(), front.begin(), front.end());
  pending_.insert(pending_.end(), body.begin(), body.end());
  flush();
}

void relay::flush() {
  while (out_ >= 0 && sent_ < pending_.size()) {
    const auto n = ::write(out_, pending_.data() + sent_, pending_.size() - sent_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) return close_out();  // the other end is gone, which receive() will find out
    sent_ += static_cast<std::size_t>(n);
  }
  if (sent_ == pending_.size() || sent_ > (1u << 20)) {
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(sent_));
    sent_ = 0;
  }
}

bool relay::receive(const receiver& f) {
  static std::byte buffer[1 << 16];
  for (;;) {
    const auto n = ::read(in_, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return true;
    if (n <= 0) return false;
    got_.insert(got_.end(), buffer, buffer + n);
    if (!parse(f)) return false;
  }
}

bool relay::parse(const receiver& f) {
  std::size_t at = 0;
  if (!greeted_) {
    const auto word = std::as_bytes(std::span(greeting));
    const auto found = std::search(got_.begin(), got_.end(), word.begin(), word.end());
    if (found == got_.end()) return got_.size() < longest_chatter;
    greeted_ = true;
    at = static_cast<std::size_t>(found - got_.begin()) + word.size();
  }
  while (got_.size() - at >= sizeof(head)) {
    head h;
    std::memcpy(&h, got_.data() + at, sizeof h);
    if (h.bytes > longest_message) return false;
    if (got_.size() - at - sizeof h < h.bytes) break;
    f(h.kind, h.rank, std::span(got_).subspan(at + sizeof h, h.bytes));
    at += sizeof h + h.bytes;
  }
  got_.erase(got_.begin(), got_.begin() + static_cast<std::ptrdiff_t>(at));
  return true;
}

std::vector<std::byte> pack_texts(const std::vector<std::string>& texts) {
  std::vector<std::byte> out;
  for (const auto& t : texts) {
    const auto* p = reinterpret_cast<const std::byte*>(t.c_str());
    out.insert(out.end(), p, p + t.size() + 1);
  }
  return out;
}

std::vector<std::string> unpack_texts(std::span<const std::byte> body) {
  std::vector<std::string> out;
  const auto* p = reinterpret_cast<const char*>(body.data());
  for (const char* end = p + body.size(); p < end;) {
    const std::size_t n = ::strnlen(p, static_cast<std::size_t>(end - p));
    out.emplace_back(p, n);
    p += n + 1;
  }
  return out;
}

}  // namespace penrun
