// What the ranks of a run do, as its seed decides, and what must be true of it: every message is
// handled once, with its own bytes; every answer comes; what is put is what is got; sums of atomics
// are right; and when all is at rest, every credit is in its place.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "penstock/atomic.hpp"
#include "penstock/rma.hpp"
#include "test/whole/ranks.hpp"
#include "test/whole/scheduler.hpp"

namespace penstock::whole {

/// How much of what a run does; the rest is drawn as it goes.
struct plan {
  std::uint64_t seed = 1;
  std::uint32_t ranks = 8;
  std::uint32_t messages = 40;   ///< of each thread
  std::uint32_t threads = 1;     ///< of each rank
  int processors = 1;            ///< that the ranks believe there are
  bool handlers_wait = false;    ///< some of them for long
  std::uint32_t barriers = 0;    ///< in a row, in the middle of what a rank does
  std::uint32_t last_words = 0;  ///< requests of each rank that it sends just before it leaves
  setting_overrides settings;
  bool breaks = false;   ///< a device fails: the job is right, or ends with a line or a status
  bool differs = false;  ///< a rank has another value of a setting: the job ends
  std::uint32_t faulty_rank = no_rank;  ///< that these settings are for, or no_rank: all ranks
  setting_overrides faults;
  std::uint64_t failing_allocation = 0;  ///< of the faulty rank; 0: none
  std::uint32_t dying_rank = no_rank;    ///< is killed at about that turn; no_rank: none is
  std::uint64_t dies_at_turn = 0;
  std::uint64_t hangs_ns = 0, told_after_ns = 0;  ///< before its death, and the job's end after it
  bool sockets_stay = false;                      ///< only the launcher tells of its death
  std::uint32_t wedged_rank = no_rank;            ///< is stopped for long, and nobody sends to it
  std::uint64_t wedged_ns = 0;
};
/// The plan of a seed.
plan plan_of(std::uint64_t seed, std::uint32_t ranks);

/// What all ranks together know of the messages: the oracle. It is no part of what is tested.
struct record {
  explicit record(std::uint32_t ranks)
      : sent(ranks, std::vector<std::uint32_t>(ranks)),
        seen(ranks, std::vector<std::vector<bool>>(ranks)),
        added(ranks),
        barriers(ranks) {}
  /// All requests of that source to that target have been handled.
  [[nodiscard]] bool all_handled(rank_id source, rank_id target) const;
  std::vector<std::vector<std::uint32_t>> sent;      ///< by source and target
  std::vector<std::vector<std::vector<bool>>> seen;  ///< by target and source: each message
  std::vector<std::uint64_t> added;                  ///< by target: to its word
  std::vector<std::uint32_t> barriers;               ///< by rank: that it has come to
  std::vector<conduit::engine*> engines;             ///< for the look at rest
  std::uint32_t ended = 0, lines = 0;  ///< ranks, and those that a line of the library's has ended
  std::uint32_t met = 0;               ///< ranks that the first barrier has let go
  std::uint64_t wedged_until_ns = 0;
};

/// One rank: its endpoint, its handlers, and what it has under way.
class party {
 public:
  party(const plan& p, launcher& l, record& r, std::uint32_t rank);
  /// All that the rank does, from opening to leaving.
  void run();

 private:
  static constexpr std::uint32_t slots = 4;        // of Longs, for each source
  static constexpr std::size_t slot_bytes = 8192;  // and of an answer
  static constexpr std::uint32_t workers = 2;      // most threads that send
  static constexpr std::size_t put_bytes = 4096;   // for each of them

  enum class answer : std::uint32_t { none, by_short, by_medium, by_long };
  void on_short(token& t, std::uint32_t serial, std::uint32_t wish, std::uint32_t places);
  void on_medium(token& t, std::span<std::byte> b, std::uint32_t serial, std::uint32_t wish,
                 std::uint32_t places);
  void on_long(token& t, std::span<std::byte> b, std::uint32_t serial, std::uint32_t wish,
               std::uint32_t places);
  void on_short_answer(token& t, std::uint32_t serial, std::uint32_t places);
  void on_medium_answer(token& t, std::span<std::byte> b, std::uint32_t serial,
                        std::uint32_t places);
  void on_long_answer(token& t, std::span<std::byte> b, std::uint32_t serial, std::uint32_t places);

  void handled(token& t, std::span<const std::byte> b, std::uint32_t serial, std::uint32_t wish,
               std::uint32_t places);
  void answered(token& t, std::span<const std::byte> b, std::uint32_t serial, std::uint32_t places);
  void work(std::uint32_t worker);
  void send_one(std::uint32_t worker, numbers& draw);
  void put_and_get(std::uint32_t worker, numbers& draw);
  void add_to_a_word(numbers& draw);
  void check_rest();
  void cross_barrier(const char* which);
  void lose_turns(std::uint64_t key) const;
  /// Polls until done() is true.
  template <class Done>
  void await(const char* what, Done&& done);
  void meet();
  /// A rank that another one may send to.
  rank_id draw_target(numbers& draw) const;
  void must(bool so, const char* what) const;
  void must(status s, const char* what) const;

  [[nodiscard]] std::byte* slot_of(rank_id at, rank_id source, std::uint32_t slot) const;
  [[nodiscard]] std::byte* answer_slot_of(rank_id at, std::uint32_t slot) const;
  [[nodiscard]] std::byte* puts_of(rank_id at, rank_id source, std::uint32_t worker) const;
  [[nodiscard]] std::uint64_t* word_of(rank_id at) const;
  [[nodiscard]] std::size_t segment_bytes() const;

  const plan& plan_;
  launcher& launcher_;
  record& record_;
  std::uint32_t rank_;
  std::unique_ptr<endpoint> ep_;
  std::unique_ptr<remote_memory> memory_;
  std::unique_ptr<atomic_domain<std::uint64_t>> words_;
  short_handler<std::uint32_t, std::uint32_t, std::uint32_t> short_;
  payload_handler<std::uint32_t, std::uint32_t, std::uint32_t> medium_, long_;
  short_handler<std::uint32_t, std::uint32_t> short_answer_;
  payload_handler<std::uint32_t, std::uint32_t> medium_answer_, long_answer_;
  std::vector<std::byte*> segments_;             // of all ranks
  std::vector<std::array<bool, slots>> in_use_;  // slots at each target
  std::array<bool, slots> answer_in_use_{};
  std::uint32_t expected_ = 0, answers_ = 0, working_ = 0;
};

/// The launcher's part in a rank's death: it tells the others, which must end in time.
void attend_death(const plan& p, launcher& l, record& r);
/// A run has ended otherwise than by all ranks' leaving. Where its plan has such a fault, that is
/// as good; else it is a failure.
[[noreturn]] void end_early(const plan& p, const char* kind, const std::string& why);
/// The same, but where another rank has been killed only the calling one ends, and says why.
[[noreturn]] void end_by(const plan& p, record& r, const char* kind, const std::string& line);
/// The run is over, and right.
[[noreturn]] void end_well(const plan& p, const std::string& how);

/// Looks at all engines' credits, chunks and tickets; empty: each is in its place. For ranks at
/// rest.
std::string out_of_place(std::span<conduit::engine* const> engines);
/// What streams have leased goes back.
void give_back_leases(conduit::engine& e);

}  // namespace penstock::whole
