// Job program: the uses that one-sided operations refuse; refused operations touch nothing.
#include <limits>

#include "penstock/atomic.hpp"
#include "test/rma/job.hpp"

using namespace penstock;

namespace {

remote_memory* memory = nullptr;
std::byte* far_away = nullptr;
std::atomic<int> asked{0};

// In a handler, what needs the device is refused; mapped memory is not.
void on_ask(token& t) {
  std::byte b[4] = {};
  const bool mapped = memory->reach(t.source(), far_away, 4) != nullptr;
  JOB_CHECK(memory->put(t.source(), far_away, b) == (mapped ? status::ok : status::in_handler));
  asked.fetch_add(1, std::memory_order_release);
}

}  // namespace

int main() {
  auto w = world::join();
  JOB_CHECK(w);
  endpoint ep = test::open_endpoint(*w);
  const auto ask = ep.add<on_ask>();
  if (auto r = ep.start(1 << 16); !r) fatal(3, "%s", r.error().message().c_str());
  remote_memory m(ep);
  memory = &m;
  const rank_id to = (ep.rank() + 1) % ep.size();
  const auto there = ep.segment_of(to);
  far_away = ep.segment_of((ep.rank() + ep.size() - 1) % ep.size()).data();
  std::vector<std::byte> local(1 << 17, std::byte{1});
  const auto some = [&](std::size_t n) { return std::span(local).first(n); };

  for (int round = 0; round < 2; ++round) {
    const auto refused = [&](std::byte* at, std::size_t n) {
      JOB_CHECK(m.put(to, at, some(n)) == status::out_of_segment);
      JOB_CHECK(m.get(some(n), to, at) == status::out_of_segment);
      JOB_CHECK(m.set(to, at, std::byte{2}, n) == status::out_of_segment);
      JOB_CHECK(m.put_nb(to, at, some(n)).wait() == status::out_of_segment);
      JOB_CHECK(m.get_nb(some(n), to, at).wait() == status::out_of_segment);
      JOB_CHECK(m.put_nbi(to, at, some(n)) == status::out_of_segment);
      JOB_CHECK(m.get_nbi(some(n), to, at) == status::out_of_segment);
    };
    refused(there.data() - 1, 1);
    refused(there.data() - 1, 8);
    refused(there.data() + there.size(), 1);
    refused(there.data() + there.size() - 7, 8);
    refused(there.data(), there.size() + 1);
    refused(nullptr, 1);
    refused(reinterpret_cast<std::byte*>(std::numeric_limits<std::uintptr_t>::max() - 3), 8);
    // A length that wraps around to inside the segment.
    JOB_CHECK(m.set(to, there.data() + 16, std::byte{2}, SIZE_MAX - 8) == status::out_of_segment);
    JOB_CHECK(m.reach(to, there.data() + 16, SIZE_MAX - 8) == nullptr);

    JOB_CHECK(m.put(ep.size(), there.data(), some(8)) == status::bad_rank);
    JOB_CHECK(m.get(some(8), ep.size() + 5, there.data()) == status::bad_rank);
    JOB_CHECK(m.put_nb(~0u, there.data(), some(8)).wait() == status::bad_rank);
    JOB_CHECK(m.set(ep.size(), there.data(), std::byte{}, 8) == status::bad_rank);

    for (const atomic_path path : {atomic_path::automatic, atomic_path::processor}) {
      using word = std::uint64_t;
      atomic_domain<word> d(m, atomic_ops::add | atomic_ops::get, path);
      auto* const at = reinterpret_cast<word*>(there.data());
      word old = 3;
      JOB_CHECK(d.add(ep.size(), at, 1) == status::bad_rank);
      JOB_CHECK(d.fetch_add(to, at - 1, 1, old) == status::out_of_segment);
      JOB_CHECK(d.add(to, at + there.size() / 8, 1) == status::out_of_segment);
      JOB_CHECK(d.add(to, reinterpret_cast<word*>(there.data() + 4), 1) == status::misaligned);
      JOB_CHECK(d.set(to, at, 1) == status::unsupported);
      JOB_CHECK(d.start<atomic_ops::cas>(to, at, 1, 2).wait() == status::unsupported);
      JOB_CHECK(old == 3);
    }
    // Nothing of all that arrived; from the second round on the segment is known to be mapped.
    JOB_CHECK(m.get(some(there.size()), to, there.data()) == status::ok);
    for (const std::byte b : some(there.size())) JOB_CHECK(b == std::byte{0});
    std::fill(local.begin(), local.end(), std::byte{1});
  }
  JOB_CHECK(!m.end_region().in_flight());
  JOB_CHECK(m.end_region().wait() == status::bad_arguments);

  JOB_CHECK(ep.barrier() == status::ok);
  JOB_CHECK(ep.request_short(to, ask) == status::ok);
  JOB_CHECK(ep.wait_until([] { return asked.load(std::memory_order_acquire) == 1; }) == status::ok);
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
