// An HTTP end point for one process's counters in Prometheus's format (setting COUNTERS_HTTP), on
// loopback or at a Unix socket. The reporter's thread serves it beside its other work: it never
// waits for a client, and a client that is slow, or says what is no request, is dropped after a
// second.
#pragma once

#include <poll.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "lib/base/result.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI::report {

class metrics_socket {
 public:
  /// Clients at a time; further ones wait until one has gone.
  static constexpr std::size_t most_clients = 8;
  static constexpr std::size_t descriptors = 1 + most_clients;

  /// Listens. where: 0 (null is returned), a port of 127.0.0.1, to which `place` is added, or a
  /// path. Fails where the kernel refuses, or another process listens there.
  static result<std::unique_ptr<metrics_socket>> open(const std::string& where,
                                                      std::uint32_t place);
  /// Closes all connections, and removes the socket's path.
  ~metrics_socket();
  metrics_socket(const metrics_socket&) = delete;
  metrics_socket& operator=(const metrics_socket&) = delete;

  /// What poll(2) is to wait for.
  void list(std::span<pollfd, descriptors> into) const noexcept;
  /// When the next client is to be dropped, or it listens again (now_ns()); 0: never.
  [[nodiscard]] std::uint64_t due() const noexcept;
  /// Goes on with clients that poll(2) has found ready, and drops late ones. counters: their text,
  /// asked for at most ten times a second.
  void serve(std::span<const pollfd, descriptors> seen,
             const std::function<std::string()>& counters);

 private:
  struct client {
    int fd = -1;
    std::uint64_t until_ns = 0;
    std::string request, answer;
    std::size_t sent = 0;
  };
  metrics_socket(int fd, std::string path) : listens_(fd), path_(std::move(path)) {}
  void receive(client& c, const std::function<std::string()>& counters);
  static void send(client& c) noexcept;
  static void drop(client& c) noexcept;
  std::string answer_to(const std::string& request, const std::function<std::string()>& counters);

  const int listens_;
  const std::string path_;  ///< of a Unix socket; else empty
  std::array<client, most_clients> clients_;
  std::uint64_t rests_until_ns_ = 0;  ///< after a connection that could not be taken; 0: it listens
  std::string text_;                  ///< of the counters, as at made_ns_
  std::uint64_t made_ns_ = 0;
};

}  // namespace penstock::conduit::PENSTOCK_ABI::report
