// How often a device has met a receive queue without a buffer (receiver not ready), for the job
// programs that show that this does not happen to messages with credits.
#pragma once

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "lib/conduit/engine.hpp"
#include "nic/shm/counters.hpp"
#include "test/conduit/job_check.hpp"

namespace penstock::test {

/// Receiver-not-ready events: of this process on shm0 and tcp0, else of the whole port.
inline std::uint64_t rnr_count(const nic::device& d) {
  if (!d.pins) return nic::shm::rnr_received(d.context) + nic::shm::rnr_sent(d.context);
  std::uint64_t sum = 0;
  const std::string name = d.name.substr(0, d.name.find(':'));
  for (const char* counter : {"rcvd_rnr_err", "send_rnr_err"}) {
    std::ifstream file("/sys/class/infiniband/" + name + "/ports/1/hw_counters/" + counter);
    std::uint64_t n = 0;
    JOB_CHECK(file >> n);
    sum += n;
  }
  return sum;
}

/// The sum of what all ranks have counted; on a kernel device all have read the same counters. All
/// ranks call it together.
inline std::uint64_t sum_of_rnr(world& w, const nic::device& device, std::uint64_t mine) {
  auto all = w.exchange(std::as_bytes(std::span(&mine, 1)));
  JOB_CHECK(all);
  std::uint64_t rnr = 0;
  for (const auto& blob : *all) {
    std::uint64_t n = 0;
    std::memcpy(&n, blob.data(), sizeof n);
    rnr = !device.pins ? rnr + n : std::max(rnr, n);
  }
  return rnr;
}

}  // namespace penstock::test
