#include "tools/penverbs/stats.hpp"

#include <infiniband/verbs.h>

#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "lib/base/descriptors.hpp"
#include "tools/penverbs/ways.hpp"

namespace penverbs {
namespace {

using penstock::nic::shm::qp_traffic;

std::uint64_t now(const std::atomic<std::uint64_t>& count) {
  return count.load(std::memory_order_relaxed);  // relaxed: a count
}

/// A file below ports/1, and what a queue pair adds to it. The names are the kernel's, and the
/// units: "data" are words of four bytes.
struct counter {
  const char* name;
  std::uint64_t (*of)(const qp_traffic&);
};
constexpr counter counters[] = {
    {"counters/port_xmit_data", [](const qp_traffic& t) { return now(t.sent_bytes) / 4; }},
    {"counters/port_rcv_data", [](const qp_traffic& t) { return now(t.received_bytes) / 4; }},
    {"counters/port_xmit_packets", [](const qp_traffic& t) { return now(t.sent_packets); }},
    {"counters/port_rcv_packets", [](const qp_traffic& t) { return now(t.received_packets); }},
    {"hw_counters/sent_pkts", [](const qp_traffic& t) { return now(t.sent_packets); }},
    {"hw_counters/rcvd_pkts", [](const qp_traffic& t) { return now(t.received_packets); }},
    {"hw_counters/rdma_sends", [](const qp_traffic& t) { return now(t.sends); }},
    {"hw_counters/rdma_recvs", [](const qp_traffic& t) { return now(t.received); }},
    {"hw_counters/rcvd_rnr_err", [](const qp_traffic& t) { return now(t.rnr); }},
    {"hw_counters/completer_retry_err", [](const qp_traffic& t) { return now(t.retries); }},
    {"hw_counters/send_err", [](const qp_traffic& t) { return now(t.errors); }},
};

const char* type_name(std::uint32_t type) {
  switch (type) {
    case IBV_QPT_RC:
      return "RC";
    case IBV_QPT_UC:
      return "UC";
    case IBV_QPT_UD:
      return "UD";
    default:
      return "XRC";
  }
}

}  // namespace

bool stats::begin(const std::string& tree) {
  tree_ = tree;
  file_ = tree + "/traffic";
  traffic_ = penstock::nic::shm::traffic_file::map(file_.c_str(), true);
  if (traffic_ == nullptr) return false;
  shown_.assign(shown.all.size() * std::size(counters), ~std::uint64_t{0});
  refresh();
  return true;
}

void stats::refresh() {
  const std::uint32_t n = traffic_->count();
  auto shown_before = shown_.begin();
  for (std::size_t d = 0; d < shown.all.size(); ++d)
    for (const counter& c : counters) {
      std::uint64_t sum = 0;
      for (std::uint32_t i = 0; i < n; ++i)
        if (traffic_->at[i].device == d) sum += c.of(traffic_->at[i]);
      const std::filesystem::path file =
          tree_ + "/class/infiniband/shm" + std::to_string(d) + "/ports/1/" + c.name;
      if (std::exchange(*shown_before++, sum) == sum) continue;
      std::error_code e;
      std::filesystem::create_directories(file.parent_path(), e);
      (void)penstock::replace_file(file, std::to_string(sum) + "\n");
    }
}

void stats::print() const {
  std::fprintf(stderr,
               "penverbs: what each queue pair has carried\n"
               "%-7s %7s %-4s %-8s %-8s %10s %14s %10s %14s %8s %8s %7s\n",
               "device", "pid", "type", "qp", "peer", "sent", "bytes", "received", "bytes", "RNR",
               "retries", "errors");
  for (std::uint32_t i = 0; i < traffic_->count(); ++i) {
    const qp_traffic& t = traffic_->at[i];
    std::fprintf(stderr,
                 "shm%-4u %7u %-4s 0x%06x 0x%06x %10" PRIu64 " %14" PRIu64 " %10" PRIu64
                 " %14" PRIu64 " %8" PRIu64 " %8" PRIu64 " %7" PRIu64 "\n",
                 t.device, t.pid, type_name(t.type), t.qpn,
                 t.peer_qpn.load(std::memory_order_relaxed), now(t.sent), now(t.sent_bytes),
                 now(t.received), now(t.received_bytes), now(t.rnr), now(t.retries), now(t.errors));
  }
  if (traffic_->used.load(std::memory_order_relaxed) > traffic_->count())
    std::fprintf(stderr, "penverbs: later queue pairs than the first %u were not counted\n",
                 traffic_->count());
}

}  // namespace penverbs
