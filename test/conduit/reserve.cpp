// Job program: requests whose payload is written in place.
//   reserve ROUNDS   all to all, in PAR by two threads: Mediums and Longs of any size, cancelled,
//                    committed in another order, many held at a time, between other messages and
//                    polls, where credits are short; each byte checked
//   reserve errors   what is refused, and leaves everything as it was
//   reserve left     the last rank leaves early while others hold reservations to it
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "lib/base/build_mode.hpp"
#include "penstock/reserve.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

constexpr unsigned senders = concurrent(build_mode) ? 2 : 1;
constexpr std::size_t longest = 100000;  // of a Long

struct wide {
  std::uint32_t seed, more[15];
};

std::atomic<std::uint64_t> handled{0};

void on_narrow(token&, std::span<std::byte> payload, std::uint32_t seed) {
  JOB_CHECK(test::holds(payload, seed));
  handled.fetch_add(1, std::memory_order_relaxed);
}
void on_wide(token&, std::span<std::byte> payload, wide w) {
  JOB_CHECK(test::holds(payload, w.seed));
  for (std::uint32_t i = 0; i < 15; ++i) JOB_CHECK(w.more[i] == w.seed + i);
  handled.fetch_add(1, std::memory_order_relaxed);
}

struct table {
  payload_handler<std::uint32_t> narrow;
  payload_handler<wide> broad;
};

// How many bytes message i of a thread has.
std::size_t bytes_of(const endpoint& ep, unsigned i, bool is_long) {
  const std::size_t edges[] = {0,   1,   8,    48,   200,  231,  232,
                               233, 248, 1000, 2048, 4000, 4031, ep.max_medium()};
  if (is_long && i % 29 == 3) return longest - i % 7;
  const std::size_t n = i % 3 == 0 ? edges[i / 3 % std::size(edges)] : i * 7919 % 4096;
  return std::min(n, ep.max_medium());
}

class sender {
 public:
  sender(endpoint& ep, const table& t, unsigned thread)
      : sent(ep.size()), ep_(ep), t_(t), thread_(thread) {}

  // A message of a reservation: written and sent.
  template <class R, class... A>
  void send(rank_id to, R& r, std::size_t bytes, std::uint32_t seed, A... args) {
    JOB_CHECK(r && r.payload().size() >= bytes);
    JOB_CHECK(reinterpret_cast<std::uintptr_t>(r.payload().data()) % 16 == 0);
    test::fill(r.payload().first(bytes), seed);
    JOB_CHECK(r.commit(bytes, args...) == status::ok);
    JOB_CHECK(!r && r.payload().empty());
    ++sent[to];
  }
  // The place of this thread's Long i at r: as many as can be on their way.
  std::byte* place(rank_id r, unsigned i) const {
    return ep_.segment_of(r).data() +
           ((std::size_t{ep_.rank()} * senders + thread_) * 40 + i % 40) * longest;
  }
  wide words(std::uint32_t seed) const {
    wide w{seed, {}};
    for (std::uint32_t i = 0; i < 15; ++i) w.more[i] = seed + i;
    return w;
  }

  // One message of any sort to each rank, with others between reserving and committing.
  void exchange(unsigned i) {
    for (rank_id r = 0; r < ep_.size(); ++r) {
      const std::uint32_t seed = (i * 2 + thread_) * 64 + r;
      const bool is_long = i % 4 == 3;
      const std::size_t n = bytes_of(ep_, i, is_long);
      auto other = reserve_medium(ep_, r, t_.narrow, 10, 100);
      if (is_long) {
        auto a = reserve_long(ep_, r, t_.narrow, n, longest, place(r, i));
        JOB_CHECK(ep_.request_medium(r, t_.narrow, {}, seed) == status::ok);
        ++sent[r];
        send(r, a, n, seed, seed);
      } else if (i % 4 == 2) {
        auto a = reserve_medium(ep_, r, t_.broad, n, ep_.max_medium());
        JOB_CHECK(a.payload().size() <= ep_.max_medium());
        JOB_CHECK(ep_.poll() == status::ok);
        auto b = std::move(a);
        JOB_CHECK(!a && b);
        send(r, b, n, seed, words(seed));
      } else {
        auto a = reserve_medium(ep_, r, t_.narrow, n, n);
        JOB_CHECK(a.payload().size() == n);
        send(r, a, n, seed, seed);
      }
      if (i % 5 == 0) other.cancel();
      if (i % 5 == 1) send(r, other, 10, seed, seed);
    }
  }

  // More at a time than any path has room for, sent in another order.
  void many() {
    std::vector<reservation<std::uint32_t>> held;
    for (std::uint32_t i = 0; i < 200; ++i)
      held.push_back(reserve_medium(ep_, i % ep_.size(), t_.narrow, i * 20, i * 20));
    for (std::uint32_t i = 0; i < 200; ++i) {
      auto& r = held[i * 7 % 200];
      rank_id to = i * 7 % 200 % ep_.size();
      if (i % 9 == 0)  // what was there is cancelled
        r = reserve_medium(ep_, to = i % ep_.size(), t_.narrow, 5, 5);
      send(to, r, r.payload().size(), i + thread_, i + thread_);
    }
  }

  // Faster than credits come back; what is refused for that goes later.
  void flood(unsigned messages) {
    const rank_id to = (ep_.rank() + 1) % ep_.size();
    for (std::uint32_t i = 0; i < messages; ++i) {
      auto r = reserve_medium(ep_, to, t_.narrow, 600, 600);
      test::fill(r.payload(), i);
      status s = r.try_commit(600, i);
      for (; is_short(s); s = r.try_commit(600, i)) {
        JOB_CHECK(r && test::holds(r.payload(), i));
        JOB_CHECK(ep_.poll() == status::ok);
      }
      JOB_CHECK(s == status::ok && !r);
      ++sent[to];
    }
  }

  std::vector<std::uint64_t> sent;  // by rank

 private:
  endpoint& ep_;
  const table& t_;
  const unsigned thread_;
};

void run(world& w, endpoint& ep, const table& t, unsigned count) {
  std::vector<sender> all;
  for (unsigned i = 0; i < senders; ++i) all.emplace_back(ep, t, i);
  for (unsigned round = 0; round < count; ++round) {
    const auto one = [&](unsigned i) {
      for (unsigned k = 0; k < 40; ++k) all[i].exchange(round * 40 + k);
      all[i].many();
      all[i].flood(300);
    };
    std::vector<std::thread> others;
    for (unsigned i = 1; i < senders; ++i) others.emplace_back(one, i);
    one(0);
    for (std::thread& o : others) o.join();
    JOB_CHECK(ep.quiet() == status::ok);  // the Longs' places are used again
    JOB_CHECK(ep.barrier() == status::ok);
  }
  std::vector<std::uint64_t> sent(ep.size());
  for (const sender& s : all)
    for (rank_id r = 0; r < ep.size(); ++r) sent[r] += s.sent[r];
  const auto told = w.exchange(std::as_bytes(std::span(sent)));
  JOB_CHECK(told);
  std::uint64_t expected = 0;
  for (const auto& theirs : *told) {
    std::uint64_t n = 0;
    std::memcpy(&n, theirs.data() + ep.rank() * sizeof n, sizeof n);
    expected += n;
  }
  JOB_CHECK(handled.load() == expected);
}

void errors(endpoint& ep, const table& t) {
  const rank_id to = (ep.rank() + 1) % ep.size();
  JOB_CHECK(reserve_medium(ep, ep.size(), t.narrow, 1, 1).why() == status::bad_rank);
  JOB_CHECK(reserve_medium(ep, to, t.narrow, 2, 1).why() == status::bad_arguments);
  JOB_CHECK(reserve_medium(ep, to, t.narrow, ep.max_medium() + 1, 1 << 30).why() ==
            status::too_long);
  JOB_CHECK(!reserve_long(ep, to, t.narrow, 1, 1, ep.segment_of(to).data() - 1));
  JOB_CHECK(reserve_long(ep, to, t.narrow, 2, 2, &ep.segment_of(to).back()).why() ==
            status::out_of_segment);
  // No more than is left of the segment.
  JOB_CHECK(reserve_long(ep, to, t.narrow, 1, 2, &ep.segment_of(to).back()).payload().size() == 1);

  auto r = reserve_medium(ep, to, t.narrow, 16, 16);
  JOB_CHECK(r.why() == status::ok && r.payload().size() == 16);
  test::fill(r.payload(), 7);
  JOB_CHECK(r.commit(17, 7) == status::too_long && r);
  if (senders > 1)
    std::thread([&] { JOB_CHECK(r.commit(16, 7) == status::bad_arguments && r); }).join();
  JOB_CHECK(r.commit(16, 7) == status::ok && !r);
  JOB_CHECK(r.commit(16, 7) == status::bad_arguments);
  r.cancel();
  auto given_up = reserve_medium(ep, to, t.narrow, 16, 16);
  given_up.cancel();
  JOB_CHECK(given_up.commit(16, 7) == status::bad_arguments);
  // Held by one thread, ended by another.
  auto gone = reserve_medium(ep, to, t.narrow, 16, 16);
  if (senders > 1) std::thread([&] { gone.cancel(); }).join();
  JOB_CHECK(ep.quiet() == status::ok && ep.barrier() == status::ok);
  JOB_CHECK(handled.load() == 1);
}

// Not all: the last one goes at once.
int left(std::optional<endpoint>& ep, const table& t) {
  const rank_id last = ep->size() - 1;
  auto held = reserve_medium(*ep, last, t.narrow, 3000, 3000);
  auto small = reserve_medium(*ep, last, t.narrow, 8, 8);
  auto large = reserve_medium(*ep, last, t.narrow, 60000, 60000);
  test::fill(held.payload(), 1);
  test::fill(small.payload(), 2);
  if (ep->rank() != last) JOB_CHECK(held.commit(3000, 1) == status::ok);
  JOB_CHECK(ep->quiet() == status::ok);
  JOB_CHECK(ep->barrier() == status::ok);
  if (ep->rank() == last) {
    small.cancel();
    held.cancel();
    large.cancel();
    ep.reset();
    return 0;
  }
  // It goes on with others meanwhile; then the request fails, and the reservation stays.
  status s = status::ok;
  while (!is_failure(s = small.commit(8, 2))) {
    small = reserve_medium(*ep, last, t.narrow, 8, 8);
    test::fill(small.payload(), 2);
    JOB_CHECK(ep->poll() == status::ok);
  }
  JOB_CHECK(s == status::peer_dead && small);
  // The memory of the other one is still the program's, and no other message gets it.
  const auto next = reserve_medium(*ep, ep->rank() == 0 ? 1 : 0, t.narrow, 60000, 60000);
  JOB_CHECK(large && next && next.payload().data() != large.payload().data());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  auto w = world::join();
  JOB_CHECK(w && argc > 1);
  std::optional<endpoint> ep(test::open_endpoint(*w));
  const table t{ep->add<&on_narrow>(), ep->add<&on_wide>()};
  if (auto r = ep->start(ep->size() * senders * 40 * longest); !r)
    fatal(3, "%s", r.error().message().c_str());
  if (argv[1] == std::string_view("left")) return left(ep, t);
  if (argv[1] == std::string_view("errors"))
    errors(*ep, t);
  else
    run(*w, *ep, t, static_cast<unsigned>(std::atoi(argv[1])));
  JOB_CHECK(ep->barrier() == status::ok);
  return 0;
}
