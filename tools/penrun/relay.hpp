// The messages between a penrun and those that it starts on other hosts (agents), over the standard
// input and output of a remote shell. A message has a kind, a rank and bytes. Both ends are the
// same program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace penrun {

enum class relay_kind : std::uint32_t {
  start = 1,  ///< down: what to run, see remote.cpp
  said,       ///< both ways: bytes of the rank's socket (frames of lib/job/wire.hpp)
  out,
  err,     ///< up: output of the rank
  input,   ///< down: standard input of rank 0, no bytes: its end; up: bytes it took (u64)
  exited,  ///< up: the rank's wait status (i32); nothing of it follows but late output
  failed,  ///< up: the rank could not be started: errno (i32), then why
  signal,  ///< down: for all processes (i32)
  over,    ///< down: the word of the board (u64)
  left,    ///< down: the rank has left without the others
  where,   ///< down: say on standard error where each process is
  kill,    ///< down: end all processes now
  quit,    ///< down: SIGQUIT to those that have a handler for it
  there,   ///< down: are you there? up: yes
};

/// One end. Single thread; never waits.
class relay {
 public:
  using receiver = std::function<void(relay_kind, std::uint32_t rank, std::span<const std::byte>)>;
  /// in, out: nonblocking, owned. agent: this end begins with a greeting, for which the other end
  /// looks in whatever a remote shell may print before.
  relay(int in, int out, bool agent);
  ~relay();
  relay(const relay&) = delete;
  relay& operator=(const relay&) = delete;

  [[nodiscard]] int in() const noexcept { return in_; }
  /// -1 when nothing waits to be sent.
  [[nodiscard]] int out_if_waiting() const noexcept { return sent_ < pending_.size() ? out_ : -1; }
  /// Bytes that wait to be sent.
  [[nodiscard]] std::size_t waiting() const noexcept { return pending_.size() - sent_; }
  /// True once the agent's greeting has come.
  [[nodiscard]] bool greeted() const noexcept { return greeted_; }

  void send(relay_kind kind, std::uint32_t rank, std::span<const std::byte> body = {});
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void send_value(relay_kind kind, std::uint32_t rank, const T& v) {
    send(kind, rank, std::as_bytes(std::span(&v, 1)));
  }
  void flush();
  /// Sends no more: the other end sees the end of its input.
  void close_out();
  /// Hands on the messages that have come. False when no more can come: the other end is gone, or
  /// has sent a malformed one.
  [[nodiscard]] bool receive(const receiver& f);

 private:
  [[nodiscard]] bool parse(const receiver& f);

  int in_, out_;
  bool greeted_;
  std::vector<std::byte> pending_, got_;
  std::size_t sent_ = 0;
};

/// Value at the front of a message; its default if there are too few bytes.
template <class T>
T relay_value(std::span<const std::byte> body) noexcept {
  T v{};
  if (body.size() >= sizeof v) __builtin_memcpy(&v, body.data(), sizeof v);
  return v;
}

/// Texts as bytes and back; a text may hold anything but NUL.
std::vector<std::byte> pack_texts(const std::vector<std::string>& texts);
std::vector<std::string> unpack_texts(std::span<const std::byte> body);

}  // namespace penrun
