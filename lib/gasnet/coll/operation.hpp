// A collective operation of this process: its images' requests, its schedule, and how far that has
// come. One thread at a time touches it, inside the engine of collectives (collective.cpp); only
// the counters are also counted down by handlers and completions.
//
// A process has one or more images (threads that each take part). An operation begins when all of
// this process's images have called; messages that come before that wait in it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/gasnet/coll/arrival.hpp"
#include "lib/gasnet/coll/call_word.hpp"
#include "lib/gasnet/coll/collective.hpp"
#include "lib/gasnet/coll/combiner.hpp"
#include "lib/gasnet/coll/schedule.hpp"
#include "lib/gasnet/coll/shared_call.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

enum class kind : std::uint8_t {
  none,
  barrier,
  broadcast,
  scatter,
  gather,
  gather_all,
  exchange,
  reduce,
  reduce_all,
};
const char* name_of(kind k) noexcept;

/// The request of an image; all images pass the same, but for the addresses.
struct request {
  kind what = kind::none;
  std::uint32_t root = 0;  ///< image
  void* dst = nullptr;
  const void* src = nullptr;
  std::size_t bytes = 0;  ///< of one block; of reductions: of all elements
  unsigned sync = own_buffers;
  const reduction* how = nullptr;  ///< copied
};

/// Ends the job, since member r is in another call of that number.
[[noreturn]] void disagree(const team& t, std::uint32_t number, call_word here, std::uint32_t r,
                           call_word there);

class operation;
/// Bytes that were offered to another process, which may read them until it says that it has them.
struct loan {
  operation* owner;
  const std::byte* at;
  std::size_t bytes;
};

class operation {
 public:
  operation(team& t, std::uint32_t lane, std::uint32_t number) noexcept
      : team_(&t), lane_(lane), number_(number) {}
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;
  /// Makes the operation new, for another call.
  void reset(std::uint32_t number) noexcept;

  /// Notes the call of one of this process's `images` images. True: it was the last one; the caller
  /// calls begin().
  bool join(const request& r, std::uint32_t image, std::uint32_t images, op_counter& done);
  void begin();
  /// The same for a call that has begun by shared lines.
  void begin(const shared_call& so_far);
  /// Takes a message.
  void deliver(std::unique_ptr<arrival> a);
  /// Advances the operation as far as it can. True: it is complete, and all images have been told.
  bool advance();
  /// True while bytes are fetched: no message tells of their arrival.
  [[nodiscard]] bool fetches() const noexcept {
    return fetching.load(std::memory_order_relaxed) != 0 || combining_.fetches();
  }

  /// Notes that it has not come further. After a second it asks the processes that it waits for
  /// whether they are in the same call: where neither sends first, nobody would notice. With checks
  /// it asks again, after twice as long each time, and they compare what each has called before.
  void wait_on();

  [[nodiscard]] bool begun() const noexcept { return begun_; }
  [[nodiscard]] std::uint32_t lane() const noexcept { return lane_; }
  [[nodiscard]] coll::team& over() const noexcept { return *team_; }
  [[nodiscard]] const request& asked() const noexcept { return asked_; }
  [[nodiscard]] const reduction& how() const noexcept { return how_; }
  struct buffers {
    std::byte* dst = nullptr;
    const std::byte* src = nullptr;
    op_counter* done = nullptr;
  };
  [[nodiscard]] const std::vector<buffers>& images() const noexcept { return images_; }
  schedule plan;

  op_counter lent{0};      ///< offers that have not been taken
  op_counter fetching{0};  ///< pieces under way to this process
  bool complete = false;

 private:
  bool finish();
  void expect_peers();
  void start_round();
  void send(const step& s);
  void combine(const step& s);
  bool take(step& s, std::unique_ptr<arrival>& a);
  void say_fetched();
  void ask(std::uint32_t r);
  void check_order(const arrival& question) const;
  static constexpr std::uint32_t most_beside = (1u << 22) - 1;
  [[nodiscard]] std::uint32_t calls_beside() const noexcept;  // cut to that
  void make_begun();
  [[noreturn]] void disagree(const arrival& a) const {
    coll::disagree(*team_, number_, call_, a.from, a.call);
  }

  coll::team* team_;
  std::uint32_t lane_, number_;
  bool begun_ = false;
  std::uint32_t joined_ = 0;
  request asked_;
  call_word call_ = 0;             // of what is asked
  unsigned looks_ = 0;             // without progress
  std::uint64_t waits_since_ = 0;  // ns; 0: it does not wait long
  unsigned asked_often_ = 0;
  std::uint32_t before_ = 0;  // of the calls_beside() it, when it begun
  reduction how_;
  std::vector<buffers> images_;
  shared_call shared_;  // if it goes by shared lines, and not by the plan
  struct expected {
    std::uint32_t peer;  // rank in the team
    std::uint32_t messages;
    std::size_t bytes;
  };
  std::vector<expected> expected_;  // the messages of a plan to each peer; empty between uses
  std::size_t round_ = 0;
  std::uint32_t missing_ = 0;  // receives of this round
  combiner combining_;         // those of them that combine
  std::vector<std::unique_ptr<arrival>> early_;
  struct fetched {
    std::uint32_t from;
    std::uint64_t loan;
  };
  std::vector<fetched> fetched_;  // to be told to the lenders when fetching is zero
};

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
