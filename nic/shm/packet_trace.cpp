// The formats are InfiniBand's (Architecture Specification, volume 1, chapters 7 to 9), pcap's, and
// ERF's: link type 197, whose records of type 21 hold a packet from its local route header on.
// (Wireshark does not read link type 247, which would be InfiniBand's own.)
#include <endian.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/descriptors.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/observer.hpp"
#include "nic/shm/qp.hpp"

namespace penstock::nic::shm {
namespace {

constexpr std::uint32_t longest_payload = 4096;
constexpr std::uint32_t checksums = 6;  // ICRC and VCRC

// The opcode of a packet: transport, message, and which part of it.
namespace opcode {
constexpr unsigned uc = 0x20, ud = 0x60, xrc = 0xa0;
constexpr unsigned send = 0x00, write = 0x06, read = 0x0c, answer = 0x0d, acknowledge = 0x11,
                   atomic_acknowledge = 0x12, compare_swap = 0x13, fetch_add = 0x14,
                   last_invalidates = 0x16, only_invalidates = 0x17;
// To `send` and `write`; an immediate makes the last two one more.
constexpr unsigned middle = 1, last = 2, only = 4;
// To `answer`.
constexpr unsigned answer_middle = 1, answer_last = 2, answer_only = 3;
}  // namespace opcode

struct pcap_head {
  std::uint32_t magic = 0xa1b23c4d;  // times in nanoseconds
  std::uint16_t major = 2, minor = 4;
  std::uint32_t zone = 0, accuracy = 0, longest = 65535, link_type = 197;
};
struct pcap_record {
  std::uint32_t seconds, nanoseconds, kept, length;
};

/// In front of each packet.
struct erf_record {
  std::uint64_t time;                           ///< seconds and, below, their 2^32nd parts
  std::uint8_t type = 21, flags = 4;            ///< records have different lengths
  std::uint16_t length, lost = 0, wire_length;  ///< big-endian; the first is this record's
};
static_assert(sizeof(erf_record) == 16);

const identity* device_of(const nonce& to) noexcept {
  for (unsigned i = 0; i < most_devices; ++i)
    if (device_identity(i).seed == to) return &device_identity(i);
  return nullptr;
}

/// The code of a negative acknowledgement (AETH syndrome), or of a positive one.
unsigned syndrome(ibv_wc_status s) noexcept {
  switch (s) {
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return 0x20;
    case IBV_WC_REM_INV_REQ_ERR:
      return 0x61;
    case IBV_WC_REM_ACCESS_ERR:
      return 0x62;
    case IBV_WC_REM_OP_ERR:
      return 0x63;
    default:
      return 0x1f;  // no credits are counted
  }
}

bool was_sent(ibv_wc_status s) noexcept {
  return s == IBV_WC_SUCCESS || s == IBV_WC_RETRY_EXC_ERR || syndrome(s) != 0x1f;
}

}  // namespace

/// A packet's headers and payload.
struct packet_trace::packet {
  std::byte bytes[96 + longest_payload];
  std::uint32_t length = 0;

  packet& put(std::uint64_t value, int size) noexcept {
    for (int i = size - 1; i >= 0; --i) bytes[length++] = static_cast<std::byte>(value >> 8 * i);
    return *this;
  }

  /// The route from one device to the other. `behind` it are so many bytes, without checksums.
  void route(const identity& from, const identity& to, bool by_lid, std::uint32_t behind) noexcept {
    const std::uint32_t words = (8 + (by_lid ? 0 : 40) + behind + 4) / 4;
    put(0, 1).put(by_lid ? 2 : 3, 1).put(to.lid, 2).put(words & 0x7ff, 2).put(from.lid, 2);
    if (by_lid) return;
    put(0x6000'0000, 4).put(behind + 4, 2).put(0x1b, 1).put(1, 1);
    for (const identity* d : {&from, &to}) {
      const ibv_gid g = d->gid(0);
      std::memcpy(bytes + length, g.raw, sizeof g.raw);
      length += sizeof g.raw;
    }
  }
  void transport(unsigned code, bool solicited, std::uint32_t payload, std::uint32_t qpn,
                 std::uint32_t psn) noexcept {
    const std::uint32_t padding = -payload & 3;
    put(code, 1).put((solicited ? 0x80u : 0u) | padding << 4, 1).put(0xffff, 2);
    put(qpn & 0xffffff, 4).put(psn & 0xffffff, 4);
  }
};

int packet_trace::make(const char* path) noexcept {
  const int fd = opened("open", ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (fd < 0) return errno;
  const pcap_head head;
  const int e = ::write(fd, &head, sizeof head) == sizeof head ? 0 : errno;
  ::close(fd);
  return e;
}

packet_trace::~packet_trace() {
  if (fd_ >= 0) ::close(fd_);
}

int packet_trace::open(const char* path) noexcept {
  fd_ = opened("open", ::open(path, O_WRONLY | O_APPEND | O_CLOEXEC));
  return fd_ < 0 ? errno : 0;
}

/// Each write appends whole packets, so those of several processes do not mix.
void packet_trace::flush() noexcept {
  [[maybe_unused]] const auto n = ::write(fd_, bytes_, held_);
  held_ = 0;
}

void packet_trace::put(const packet& p, std::uint32_t payload) noexcept {
  const std::uint32_t rest = (-payload & 3) + checksums;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::uint32_t wire = p.length + rest;
  const auto kept = static_cast<std::uint32_t>(sizeof(erf_record)) + wire;
  const pcap_record r{static_cast<std::uint32_t>(now.tv_sec),
                      static_cast<std::uint32_t>(now.tv_nsec), kept, kept};
  erf_record e{};
  e.time = static_cast<std::uint64_t>(now.tv_sec) << 32 |
           (static_cast<std::uint64_t>(now.tv_nsec) << 32) / 1'000'000'000;
  e.length = htobe16(static_cast<std::uint16_t>(kept));
  e.wire_length = htobe16(static_cast<std::uint16_t>(wire));
  if (held_ + sizeof r + kept > sizeof bytes_) flush();
  std::byte* to = bytes_ + held_;
  std::memcpy(to, &r, sizeof r);
  std::memcpy(to += sizeof r, &e, sizeof e);
  std::memcpy(to += sizeof e, p.bytes, p.length);
  std::memset(to + p.length, 0, rest);
  held_ += sizeof r + r.kept;
}

void packet_trace::message(queue_pair& qp, const send_work& w, ibv_wc_status status) noexcept {
  const context& c = *qp.owner;
  nonce to = w.datagram_to;
  if (!was_sent(status) || (connected(qp) && resolve(c, qp.attr.ah_attr, to) != 0)) return;
  const identity *here = c.device, *there = device_of(to);
  if (here == nullptr || there == nullptr) return;
  const bool by_lid = c.plays.has_lids;
  const bool datagram = !connected(qp), crosses = qp.qp_type == IBV_QPT_XRC_SEND;
  const unsigned base = datagram         ? opcode::ud
                        : unanswered(qp) ? opcode::uc
                        : crosses        ? opcode::xrc
                                         : 0;
  const std::uint32_t qpn = datagram ? w.datagram_qpn : peer_qpn(qp);
  const std::uint32_t mtu = datagram ? 4096 : 128u << qp.attr.path_mtu;
  const std::uint32_t packets = std::max(1u, (w.bytes + mtu - 1) / mtu);
  const bool write = w.opcode == IBV_WR_RDMA_WRITE || w.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  const bool read = w.opcode == IBV_WR_RDMA_READ;
  const bool swap = w.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
  const bool atomic = swap || w.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  const bool with_imm = w.opcode == IBV_WR_SEND_WITH_IMM || w.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  const bool invalidates = w.opcode == IBV_WR_SEND_WITH_INV;
  const bool solicited = (w.flags & IBV_SEND_SOLICITED) != 0;
  if (!qp.psn_known) qp.psn = qp.attr.sq_psn, qp.psn_known = true;

  const std::lock_guard guard(lock_);
  // One packet: its own headers are put by `extra`, and have so many bytes.
  const auto emit = [&](bool answers, unsigned code, std::uint32_t psn, std::uint32_t own,
                        std::uint32_t offset, std::uint32_t payload, auto extra) {
    packet p;
    const std::uint32_t behind = 12 + own + payload + (-payload & 3);
    p.route(answers ? *there : *here, answers ? *here : *there, by_lid, behind);
    p.transport(code, solicited && !answers, payload, answers ? qp.qp_num : qpn, psn);
    extra(p);
    gather(w, offset, p.bytes + p.length, payload);
    p.length += payload;
    put(p, payload);
  };
  const auto reach = [&](packet& p) { p.put(w.remote, 8).put(w.rkey, 4); };
  const auto queue = [&](packet& p) {
    if (crosses) p.put(w.datagram_qpn & 0xffffff, 4);
  };
  const std::uint32_t queue_bytes = crosses ? 4 : 0;
  const std::uint32_t began = qp.psn;
  if (atomic) {
    emit(false, base + (swap ? opcode::compare_swap : opcode::fetch_add), qp.psn++,
         28 + queue_bytes, 0, 0, [&](packet& p) {
           queue(p);
           reach(p);
           p.put(swap ? w.swap : w.operand, 8).put(swap ? w.operand : 0, 8);
         });
  } else if (read) {
    emit(false, base + opcode::read, qp.psn, 16 + queue_bytes, 0, 0, [&](packet& p) {
      queue(p);
      reach(p);
      p.put(w.bytes, 4);
    });
    qp.psn += packets;
  } else {
    for (std::uint32_t i = 0; i < packets; ++i) {
      const std::uint32_t offset = i * mtu, payload = std::min(mtu, w.bytes - offset);
      const bool begins = i == 0, ends = i + 1 == packets;
      const unsigned of_it =
          begins ? (ends ? opcode::only : 0) : (ends ? opcode::last : opcode::middle);
      unsigned code =
          base + (write ? opcode::write : opcode::send) + of_it + (ends && with_imm ? 1 : 0);
      if (ends && invalidates)
        code = base + (begins ? opcode::only_invalidates : opcode::last_invalidates);
      const bool word = ends && (with_imm || invalidates);
      const std::uint32_t own =
          queue_bytes + (datagram ? 8 : 0) + (write && begins ? 16 : 0) + (word ? 4 : 0);
      emit(false, code, qp.psn++, own, offset, payload, [&](packet& p) {
        queue(p);
        if (datagram) p.put(w.datagram_qkey, 4).put(qp.qp_num, 4);
        if (write && begins) reach(p), p.put(w.bytes, 4);
        if (word) p.put(invalidates ? w.imm : __builtin_bswap32(w.imm), 4);
      });
    }
  }
  const bool replied = answered(qp) && status != IBV_WC_RETRY_EXC_ERR;
  const std::uint64_t aeth =
      std::uint64_t{syndrome(status)} << 24 | (++qp.message_number & 0xffffff);
  if (replied && status == IBV_WC_SUCCESS && read) {
    for (std::uint32_t i = 0; i < packets; ++i) {
      const std::uint32_t offset = i * mtu, payload = std::min(mtu, w.bytes - offset);
      const bool begins = i == 0, ends = i + 1 == packets;
      const unsigned of_it = begins ? (ends ? opcode::answer_only : 0)
                                    : (ends ? opcode::answer_last : opcode::answer_middle);
      emit(true, base + opcode::answer + of_it, began + i, begins || ends ? 4 : 0, offset, payload,
           [&](packet& p) {
             if (begins || ends) p.put(aeth, 4);
           });
    }
  } else if (replied && status == IBV_WC_SUCCESS && atomic) {
    std::uint64_t old = 0;
    gather(w, 0, reinterpret_cast<std::byte*>(&old), sizeof old);
    emit(true, base + opcode::atomic_acknowledge, began, 12, 0, 0,
         [&](packet& p) { p.put(aeth, 4).put(old, 8); });
  } else if (replied) {
    emit(true, base + opcode::acknowledge, qp.psn - 1, 4, 0, 0, [&](packet& p) { p.put(aeth, 4); });
  }
  flush();
}

}  // namespace penstock::nic::shm
