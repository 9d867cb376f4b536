// What the files of this folder share: the connection manager's identifiers, event channels and
// devices behind the public structures of <rdma/rdma_cma.h>, and the packets of two processes. No
// other folder includes it. README.md says how they work together.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace penstock::nic::cm {

using clock = std::chrono::steady_clock;

/// An opened device shm<index>. It stays open to the end of the process.
struct device {
  unsigned index = 0;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;      ///< the default protection domain
  ibv_xrcd* xrcd = nullptr;  ///< the default XRC domain, made on first use
  ibv_device_attr limits{};
  ibv_port_attr port{};
  ibv_gid gid{};
  std::uint8_t gid_row = 0;
  bool by_lid = false;  ///< an InfiniBand port: paths are by LID
};
/// The device of that index, or the first one if there is none; opened on first use. Null with
/// errno (ENODEV: libibverbs lists no shm0, which a line says).
device* open_device(unsigned index);
/// All devices, opened. Empty with errno.
std::vector<device*> open_devices();

/// The kinds of packets, by their names in the InfiniBand specification.
enum class kind : std::uint8_t { req = 1, rep, rtu, rej, dreq, drep, sidr_req, sidr_rep };

/// Reasons of REJ and statuses of SIDR_REP that this library sends or makes up.
inline constexpr int rej_no_service = 8, rej_consumer = 28, rej_vendor_option = 35;
inline constexpr int sidr_unsupported = 1, sidr_reject = 2;

/// Everything that one process tells another: one packet of a SOCK_SEQPACKET socket.
struct packet {
  std::uint32_t version = 0x70636d31;
  kind what{};
  std::uint8_t responder_resources = 0, initiator_depth = 0;
  std::uint8_t flow_control = 0, retry_count = 0, rnr_retry_count = 0, srq = 0;
  std::uint8_t qp_type = 0, mtu = 0;
  std::uint16_t lid = 0;
  std::int32_t status = 0;  ///< of REJ and SIDR_REP
  std::uint32_t qpn = 0, psn = 0, qkey = 0;
  std::uint32_t ece_vendor = 0, ece_options = 0;
  ibv_gid gid{};
  sockaddr_storage from{}, to{};  ///< of REQ and SIDR_REQ
  std::uint8_t data[200]{};       ///< private data; the rest is 0
};
/// How many bytes of private data such a packet has. What a program gives may be shorter; what it
/// gets has this length, as on adapters.
std::size_t private_bytes(kind k) noexcept;

enum class state : std::uint8_t {
  idle,
  bound,
  address_resolved,
  route_resolved,
  listening,
  incoming,       ///< a connection that a listener has accepted, whose REQ has not come
  dialing,        ///< active; nobody listens yet
  req_sent,       ///< active
  rep_received,   ///< active; RTU is to be sent
  req_received,   ///< passive; the program has to answer
  rep_sent,       ///< passive
  established,    ///< also a datagram service that was found
  dreq_sent,      ///< the peer has to answer
  dreq_received,  ///< this program has to answer
  ended           ///< refused, or disconnected
};

struct channel;
struct identifier;

struct event {
  rdma_cm_event pub{};  // first: the program has its address
  identifier* counted_for = nullptr;
  std::uint8_t data[200]{};
};

/// The name of a bound socket: of a port space, a port and an address. It is an abstract name, or
/// that of a file in the folder that PENVERBS_FABRIC names; a second, locked file beside it says
/// that its process lives.
struct socket_file {
  std::string name;
  int lock = -1;
};

struct identifier {
  rdma_cm_id pub{};  // first: the program has its address
  std::uint64_t key = 0;
  state at = state::idle;
  bool sync = false;
  channel* events = nullptr;
  int socket = -1;
  bool watched = false;
  bool ending = false;  ///< the peer's last packet, or its end, has been seen and is not yet read
  socket_file file;
  device* dev = nullptr;
  unsigned unacked = 0;        ///< events that the program has and has not acknowledged
  std::uint64_t listener = 0;  ///< the listener's key, until the program knows of this one
  std::optional<clock::time_point> deadline;
  ibv_sa_path_rec path{};
  // Options.
  bool reuse = false, v6_only = false;
  std::uint8_t ack_timeout = 0, traffic_class = 0;
  // The connection. The depths are this side's.
  std::uint8_t responder_resources = 0, initiator_depth = 0, retry_count = 7, rnr_retry_count = 7;
  std::uint32_t psn = 0, qkey = 0, local_qpn = 0;
  ibv_ece local_ece{};
  packet peer;  ///< the last REQ, REP or SIDR_REP
  std::unique_ptr<packet> request;
  clock::time_point give_up;  ///< when nobody listens
  // Of rdma_create_ep.
  std::optional<ibv_qp_init_attr> ep_attr;
  ibv_pd* ep_pd = nullptr;
  std::vector<std::uint8_t> connect_data;
  bool owns_send_cq = false, owns_recv_cq = false, owns_srq = false;

  [[nodiscard]] bool datagrams() const noexcept {
    return pub.ps == RDMA_PS_UDP || pub.ps == RDMA_PS_IPOIB;
  }
};

struct channel {
  rdma_event_channel pub{
      .fd = -1};   // first: the program has its address. The descriptor is an epoll set
  int timer = -1;  ///< in the set: fires at the first deadline, at once for queued events
  std::deque<std::unique_ptr<event>> queue;
  std::set<std::pair<clock::time_point, std::uint64_t>> deadlines;
};

/// All identifiers. One lock guards everything here. Who holds it waits for no other process, and
/// asks libibverbs only for devices and their addresses.
struct world {
  std::mutex lock;
  std::condition_variable acknowledged;
  std::unordered_map<std::uint64_t, identifier*> all;
  std::uint64_t next_key = 1;      ///< 0 is a channel's timer
  const pid_t maker = ::getpid();  ///< a child of fork(2) has a copy of all this, and owns nothing
};
world& everything() noexcept;
using guard = std::unique_lock<std::mutex>;

inline identifier& of(rdma_cm_id* id) noexcept { return *reinterpret_cast<identifier*>(id); }
inline channel& of(rdma_event_channel* c) noexcept { return *reinterpret_cast<channel*>(c); }
inline event& of(rdma_cm_event* e) noexcept { return *reinterpret_cast<event*>(e); }

/// Turns 0 or an errno into what the C functions return; no exception leaves the library.
template <class Body>
int answer(Body body) noexcept {
  int e = ENOMEM;
  try {
    e = body();
  } catch (...) {  // bad_alloc; libstdc++ throws nothing else here
  }
  return e == 0 ? 0 : (errno = e, -1);
}
/// A line on standard error that says why a call is refused; answers `code`.
[[gnu::format(printf, 2, 3)]] int refuse(int code, const char* format, ...) noexcept;

// channel.cpp. The lock is held where a guard is an argument.
/// A channel; null with errno.
std::unique_ptr<channel> make_channel();
void free_channel(std::unique_ptr<channel> c) noexcept;
/// Makes an event of an identifier. The program gets it from rdma_get_cm_event.
event& report(identifier& i, rdma_cm_event_type type, int status, const guard&);
/// Sets or removes the time after which expire() is called.
void set_deadline(identifier& i, std::optional<clock::time_point> when, const guard&);
/// Lets the channel look at the identifier's socket, or no longer.
int watch(identifier& i, const guard&);
void unwatch(identifier& i, const guard&) noexcept;
/// Moves an identifier and its events to another channel.
int move_to(identifier& i, channel& to, const guard&);
/// Takes the next event; waits for one unless the descriptor does not block. 0 or an errno.
int next_event(channel& c, rdma_cm_event** to);
/// Of a synchronous identifier: waits for the end of the operation. 0 or an errno.
int complete(identifier& i);
/// Drops the event that a synchronous identifier has kept.
void drop_kept_event(identifier& i) noexcept;

// identifier.cpp
identifier* make_identifier(channel& c, rdma_port_space ps, const guard&);
/// Closes, forgets and frees an identifier that no event is counted for.
void free_identifier(identifier* i, guard&) noexcept;

// address.cpp
socklen_t length_of(const sockaddr* a) noexcept;  ///< 0: neither IPv4 nor IPv6
bool is_any(const sockaddr* a) noexcept;
std::uint16_t port_of(const sockaddr* a) noexcept;
void set_port(sockaddr* a, std::uint16_t port) noexcept;
std::string text_of_address(const sockaddr* a);
/// Whether the address is this host's or network namespace's, or one of a device.
bool is_local(const sockaddr* a) noexcept;
/// Whether a peer may be there: also any other address, where a folder is the fabric.
bool is_reachable(const sockaddr* a) noexcept;
bool is_multicast(const sockaddr* a) noexcept;
/// The index of an address's device.
unsigned device_of(const sockaddr* a);
/// The address from which this host would send to another one.
sockaddr_storage source_for(const sockaddr* to);
/// Gives the identifier a socket with the name of its source address; port 0 becomes a free one, or
/// in a fabric, for who will not listen, a random one without a name.
int bind_socket(identifier& i, bool may_listen);
/// Closes it, and removes its file.
void close_socket(identifier& i) noexcept;
/// Connects the identifier's socket to who listens at its destination. 0, ECONNREFUSED (nobody
/// listens there), EAGAIN (too many wait there), EACCES (another user does), or another errno.
int dial(identifier& i);
/// Whether the process at the other end belongs to this user.
bool same_user(int socket) noexcept;

// connect.cpp
/// Sends the request of rdma_connect to who listens, now or when it expires.
void send_request(identifier& i, const guard&);

// exchange.cpp
/// What a socket of an identifier has to say: a packet, a connection to a listener, or its end.
void look_at(identifier& i, guard&);
/// Takes a connection that waits at a listener. False: there is none.
bool accept_one(identifier& listener, guard&);
/// The deadline has passed.
void expire(identifier& i, const guard&);
/// Sends a packet, without waiting. 0 or an errno.
int send(const identifier& i, const packet& p) noexcept;
/// A packet that says only this.
void send_bare(const identifier& i, kind what, int status = 0) noexcept;
/// What has to be done before the program sees an event: states of queue pairs, the RTU.
void settle(event& e);
/// Binds an identifier to the device of an address.
int take_device(identifier& i, const sockaddr* a);
/// Fills in the path to the destination.
void fill_path(identifier& i);
std::uint32_t random_psn();
/// There is nothing more to come from the peer, and no deadline.
void finish(identifier& i, const guard&);
/// How long after a disconnection a queue pair's packets may still be under way.
inline constexpr std::chrono::milliseconds timewait{200};

// qp.cpp
/// Attributes and mask for a state, of a queue pair of that type. 0 or an errno.
int fill_attributes(const identifier& i, ibv_qp_state to, ibv_qp_type type, ibv_qp_attr& a,
                    int& mask) noexcept;
/// Moves the queue pair through RTR to RTS. 0 or an errno.
int make_ready(identifier& i) noexcept;
void make_fail(identifier& i) noexcept;  ///< to ERR
ibv_ah_attr path_to_peer(const identifier& i) noexcept;

}  // namespace penstock::nic::cm
