// creditsim: how credits move, and what that costs, for any pattern and up to 100,000 nodes.
// Runs the pattern with credits, without limits, and with an allocator that knows all demand, and
// compares; or looks for the pattern that is worst for us.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <future>
#include <nlohmann/json.hpp>

#include "lib/base/command_line.hpp"
#include "perf/creditsim/adversary.hpp"
#include "perf/creditsim/report.hpp"

using namespace penstock;
using namespace penstock::creditsim;

namespace {

/// A bar on stderr, if that is a terminal.
class progress_bar {
 public:
  explicit progress_bar(const char* what) : what_(what), shown_(isatty(STDERR_FILENO) == 1) {}
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;
  ~progress_bar() {
    if (shown_) fmt::print(stderr, "\r{:60}\r", "");
  }
  void show(double share) {
    if (!shown_) return;
    const auto full = static_cast<std::size_t>(share * 30);
    fmt::print(stderr, "\r{:<18} [{:<30}] {:3.0f} %", what_, std::string(full, '#'), share * 100);
    std::fflush(stderr);
  }

 private:
  const char* what_;
  bool shown_;
};

void declare(command_line& line, options& o) {
  line.word("--pattern", o.work.pattern, pattern_names(), "Which processes send to which");
  line.number("--nodes", o.work.nodes, "Processes in the job", 2, 1'000'000);
  line.number("--seed", o.work.seed, "Seed of the patterns random and hotspot");
  line.text("--script", o.work.script,
            "Flows of the pattern script, written as in perf/creditsim/script.hpp",
            {.type = "FLOWS"});
  line.flag("--json", o.json, "Prints one JSON object instead of text");
  line.text("--svg", o.svg,
            "Writes PREFIX-heat.svg, PREFIX-convergence.svg and, with --rivals, PREFIX-rivals.svg",
            {.type = "PREFIX"});
  line.flag(
      "--rivals", o.rivals,
      "Also runs fixed credits, a shared queue that refuses (RNR), and one that stops all (PAUSE)");
  line.number("--fixed-credits", o.rival.fixed_each, "With --rivals: fixed credits of each pair",
              1);
  line.number("--rnr-steps", o.rival.rnr_steps,
              "With --rivals: steps from a refusal to the next try", 1, 1'000'000);
  line.number("--adversary", o.adversary,
              "Number of scripts that are searched for the ten worst for us", 1, 10'000'000);
  line.word("--beside", o.beside, {"online", "clairvoyant"},
            "With --adversary: the allocator that we are compared with");
  line.number("--messages", o.work.messages,
              "Messages per node and step of the pattern; 0 is the pattern's default");
  line.number("--iterations", o.work.iterations,
              "Steps or moves of the pattern; 0 is the pattern's default");
  line.number("--latency", o.net.latency, "Steps that a message takes; a node sends one a step", 1,
              10000);
  line.number("--service", o.net.service, "Requests that a node handles in a step", 1, 1000);
  line.number("--cores", o.net.cores, "Nodes that run at a time, in turn; 0 is all");
  line.number("--slice", o.net.slice, "With --cores: the longest turn, in steps", 1, 1'000'000'000);
  line.flag("--batches", o.net.batches,
            "Takes credits in leases and returns them without replies, as the engine does");
  line.number(
      "--offers", o.net.offers,
      "Mediums of a process that go by rendezvous at a time, since credits are short; 0: they "
      "wait for credits");
  line.number("--medium-cost", o.net.medium_cost,
              "Credits that a Medium costs; 17 is a whole buffer", 2, credit::max_cost);
  line.number("--stretch", o.net.stretch,
              "Steps by which some nodes may be simulated ahead of others; 0 is the latency; the "
              "results stay the same");
  credit::overrides& c = o.net.credits;
  line.number("--cred-per-node", c.credits_per_peer,
              "Credits lent to each peer at start; 0 takes them from the table");
  line.number("--banked", c.bank, "Credits in the bank at start; 0 takes them from the table");
  line.number("--max-cred-per-node", c.max_per_peer, "Most credits lent to one peer");
  line.number("--lender-limit", c.lender_limit, "Most credits lent to one peer within an epoch");
  line.number("--revoke-limit", c.revoke_limit,
              "Most credits given back to one lender within an epoch");
  line.number("--epoch", c.epoch_requests, "Requests received in an epoch");
  line.number("--num-scavenge", c.num_scavenge,
              "Peers asked to give credits back when the bank runs low; 0 takes it from the table");
  line.flag("--static", o.static_credits, "Credits stay where they were at start");
  line.word("--decay", o.fade, {"shift", "last-curr"},
            "How statistics decay at the end of an epoch");
  line.word("--revoked-at", o.revoked, {"borrower", "lender"},
            "Which side counts the credits that were given back");
}

/// One run of the pattern from its beginning.
result<outcome> simulate(const options& o, bool limited, credit::config* used,
                         std::uint32_t* watched, bool quiet = false) {
  const std::unique_ptr<pattern> p = make_pattern(o.work);
  if (p == nullptr) return failure{"--script " + o.work.script + " is none", 0, "see script.hpp"};
  network_settings s = o.net;
  s.credits.flow_control = limited;
  s.seed = o.work.seed;
  result<std::unique_ptr<network>> n = network::make(s, *p, o.work.nodes);
  if (!n) return n.error();
  if (used != nullptr) *used = (*n)->plan();
  if (watched != nullptr) *watched = p->watched();
  if (quiet) return (*n)->run([](double) {});
  progress_bar bar("with credits");
  return (*n)->run([&bar](double share) { bar.show(share); });
}

/// Runs the same pattern by another rule, with the memory that c has.
rival_outcome simulate_rival(const options& o, rule r, const credit::config& c) {
  rival_settings s = o.rival;
  s.latency = o.net.latency;
  s.service = o.net.service;
  s.medium_cost = o.net.medium_cost;
  s.memory = c.total_credits();
  s.start_loan = c.credits_per_peer;
  s.most_each = c.max_per_peer;
  return run_rival(r, s, *make_pattern(o.work), o.work.nodes);
}

/// What a script costs us, as a share of our time; -1: it cannot be run, or is over within ten
/// round trips, of which one more or less is a large share.
double regret_of(options o, const script& s) {
  o.work.pattern = "script";
  o.work.script = to_text(s);
  if (make_script(s, o.work.nodes)->total() == 0) return -1;
  credit::config c;
  const result<outcome> ours = simulate(o, true, &c, nullptr, true);
  if (!ours) return -1;
  if (!ours->finished) return 1;
  const rival_outcome best =
      simulate_rival(o, o.beside == "online" ? rule::online : rule::clairvoyant, c);
  return best.steps < 20 * std::uint64_t{o.net.latency} ? -1 : regret(*ours, best);
}

int search(const options& o) {
  progress_bar bar("adversary");
  std::uint32_t done = 0;
  const auto worst = search_worst(o.adversary, o.work.nodes, o.work.seed, 10, [&](const script& s) {
    if (done++ % 16 == 0) bar.show(static_cast<double>(done) / o.adversary);
    return regret_of(o, s);
  });
  nlohmann::json list = nlohmann::json::array();
  for (const found& f : worst) {
    list.push_back({{"regret", f.regret}, {"script", to_text(f.what)}});
    if (!o.json) fmt::print("{:6.2f} %  {}\n", f.regret * 100, to_text(f.what));
  }
  if (o.json) fmt::print("{}\n", list.dump());
  return 0;
}

void print(const nlohmann::json& j) {
  for (const auto& [name, value] : j.items()) fmt::print("{:<28} {}\n", name, value.dump());
}

}  // namespace

int main(int argc, char** argv) {
  options o;
  command_line line(
      "creditsim",
      "Simulates the credit system: stalls, throughput, moves, memory and fairness.\n"
      "Moves are counted per lender: credits_moved_last_epoch is the most by any lender in\n"
      "its last whole epoch, epochs_to_settle the latest epoch in which credits moved,\n"
      "counted from the pattern's last change. regret is the share of the run's time that an\n"
      "allocator would save that knows all demand and has the same memory and latency.");
  declare(line, o);
  line.parse(argc, argv);
  o.net.credits.dynamic = !o.static_credits;
  o.net.credits.fade = o.fade == "shift" ? credit::decay::shift : credit::decay::last_curr;
  o.net.credits.revoked =
      o.revoked == "borrower" ? credit::revoked_at::borrower : credit::revoked_at::lender;

  if (o.adversary != 0) return search(o);
  // Runs share nothing, so they run beside each other; the rivals get the memory that ours has.
  credit::config c;
  std::uint32_t watched = 0;
  auto running_free =
      std::async(std::launch::async, [&o] { return simulate(o, false, nullptr, nullptr, true); });
  const result<outcome> limited = simulate(o, true, &c, &watched);
  const result<outcome> free = running_free.get();
  if (!limited) {
    fmt::print(stderr, "creditsim: {}\n", limited.error().message());
    return 2;
  }
  if (!free) {
    fmt::print(stderr, "creditsim: {}\n", free.error().message());
    return 2;
  }
  std::vector<rival> rivals;
  auto running_online =
      std::async(std::launch::async, [&] { return simulate_rival(o, rule::online, c); });
  rivals.push_back({"clairvoyant", simulate_rival(o, rule::clairvoyant, c)});
  rivals.push_back({"online", running_online.get()});
  if (o.rivals)
    for (const auto& [name, r] :
         {std::pair{"fixed", rule::fixed}, {"rnr", rule::rnr}, {"pause", rule::pause}})
      rivals.push_back({name, simulate_rival(o, r, c)});
  const nlohmann::json j = report(o, c, *limited, *free, rivals);
  if (o.json)
    fmt::print("{}\n", j.dump());
  else
    print(j);
  if (!o.svg.empty() && !write_pictures(o, *limited, rivals, watched)) {
    fmt::print(stderr, "creditsim: cannot write {}-heat.svg and its kin\n", o.svg);
    return 2;
  }
  if (!limited->finished || !free->finished) {
    fmt::print(stderr, "creditsim: stuck after {} of the messages\n", limited->sent);
    return 1;
  }
  return 0;
}
