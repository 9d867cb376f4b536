// What peers send each other over their sockets: a request in one packet, a reply in one packet.
// The data path does not come here. The packets are for set-up, for waking, and for what one
// process must do for another.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>

#include "nic/shm/layout.hpp"

namespace penstock::nic::shm {

/// What the errno of a call on a peer's socket, file or process says. Only `gone` is the peer's
/// end; its pidfd says it as well. README.md has the table.
enum class meaning {
  gone,    ///< the other end has hung up, or there is none of that name
  later,   ///< this machine is short of something, or the peer is slow: worth another try
  refused  ///< this process may not, or the call does not exist here; or what came makes no sense
};
meaning meaning_of(int code) noexcept;
/// The user of this process; also where a sandbox refuses to tell.
uid_t own_user() noexcept;

enum class request_kind : std::uint32_t {
  hello = 1,  ///< who I am; answered with the arena's file
  // Over the bell's datagram socket, without an answer: look at your bells, and …
  kick,
  refused,  ///< … your messages to my QP were refused
  take_in,  ///< … take in what lies in your QP's ring: I cannot go on
  // Over the connection again.
  memory_file,   ///< the file behind rkey; answered with it
  moved_file,    ///< the file of moved memory; answered with it, if there is one
  access_error,  ///< your QP (qpn), connected to mine, was misused by me; no answer
  copy_in,       ///< payload → your memory; answered
  copy_out,      ///< your memory → answer
  fetch_add,     ///< atomic on your memory; answered with the old value
  compare_swap,
  overflow,  ///< a file with further messages to your QP comes along; no answer
};

struct request {
  request_kind kind{};
  std::uint32_t version = arena_version;
  std::uint32_t qpn = 0;      ///< of the receiver of this request
  std::uint32_t src_qpn = 0;  ///< of its sender
  nonce from;
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;
  std::uint64_t serial = 0;  ///< comes back in the answer
  std::uint64_t address = 0, operand = 0, swap = 0;
  /// Of an atomic: its number among the sender's, from 1 on. Asked again under the same number,
  /// it is not done again.
  std::uint64_t atomic = 0;
};

struct reply {
  std::uint64_t serial = 0;
  std::int32_t error = 0;     ///< errno
  std::uint32_t barrier = 0;  ///< 1: the process takes part in global membarriers
  nonce name;
  std::uint64_t value = 0;   ///< old value; offset in the file; address of the proof in memory
  std::uint64_t length = 0;  ///< bytes of the file's part
  nonce proof;               ///< what lies at that address
};

/// Longest payload behind a request or a reply.
inline constexpr std::uint32_t wire_payload = 32 * 1024;

/// The socket address of a context: "penstock-shm-<32 hex digits>", plus a suffix. It is an
/// abstract name; where a folder is the fabric, it is a file's.
struct socket_name {
  char text[108];
  std::uint32_t length;  ///< for bind and connect, family included
};
socket_name name_of(const nonce& who, const char* suffix) noexcept;
/// A file's name is removed when its socket goes.
void remove_name(const socket_name& at) noexcept;
sockaddr_un address_of(const socket_name& at) noexcept;

/// Sends head and payload as one packet, with a descriptor if fd is not negative. 0 or an errno.
int send_packet(int socket, const void* head, std::size_t head_bytes, const void* payload,
                std::size_t bytes, int fd) noexcept;
/// Receives one packet; answers the number of payload bytes, or -1 with errno (EPIPE: hung up;
/// EMFILE: no room for the descriptor that came along; EPROTO: too short). A descriptor that came
/// along is stored in *fd (else -1), or closed when fd is null.
ssize_t receive_packet(int socket, void* head, std::size_t head_bytes, void* payload,
                       std::size_t room, int* fd) noexcept;
/// Waits until the socket can be read. 0, ETIMEDOUT after timeout_ms, or another errno.
int wait_readable(int socket, int timeout_ms) noexcept;
/// 0 if the other end belongs to this user, EACCES if to another one, or why that cannot be told;
/// *pid is its process id as seen here (0: not visible).
int same_user(int socket, pid_t* pid) noexcept;

/// A bound, non-blocking socket; -1 with errno.
int bound_socket(int type, const socket_name& at) noexcept;
/// Sends one datagram to a named socket, without waiting. 0 or an errno.
int send_to(int socket, const socket_name& at, const iovec* parts, int count) noexcept;
/// Takes one datagram sent by a process of this user; others are dropped. False, with errno: none
/// can be taken now (EAGAIN), or at all.
bool receive_credited(int socket, void* to, std::size_t room, ssize_t* bytes) noexcept;
/// Adds a descriptor to an epoll set. 0 or an errno.
int watch_socket(int epoll, int fd, std::uint32_t events, std::uint64_t about) noexcept;

}  // namespace penstock::nic::shm
