// pencredit: shows which rank lends to which, from the statistics that processes write with the
// setting CREDIT_STATS (files penstock_credits.RANK; one JSON object a line, see
// credit/snapshot.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "lib/base/command_line.hpp"
#include "perf/svg.hpp"

namespace {

using penstock::svg::heat_map;

/// One line "rank lends to peer" with the figures of both sides; a rank whose file is missing has
/// none.
struct pair_figures {
  std::uint32_t loan = 0;                                    // as the lender says
  std::uint32_t send = 0, in_use = 0, most = 0, stalls = 0;  // as the borrower says
  bool lent = false, borrowed = false;
};

struct job {
  std::uint32_t ranks = 0;
  std::map<std::uint32_t, std::uint32_t> bank, total, per_peer, epoch;    // by rank
  std::map<std::pair<std::uint32_t, std::uint32_t>, pair_figures> pairs;  // lender, borrower
};

std::uint32_t number(const nlohmann::json& j, const char* name) {
  return j.contains(name) && j[name].is_number_unsigned() ? j[name].get<std::uint32_t>() : 0;
}

/// Adds one line; false when it is not one of ours.
bool add_line(job& out, const std::string& line) {
  const nlohmann::json j = nlohmann::json::parse(line, nullptr, false);
  if (j.is_discarded() || !j.is_object() || !j.contains("rank")) return false;
  const std::uint32_t rank = number(j, "rank");
  constexpr std::uint32_t most_ranks = 1u << 20;  // of a job; a table of more has no room
  if (rank >= most_ranks || number(j, "peer") >= most_ranks || number(j, "ranks") > most_ranks)
    return false;
  if (!j.contains("peer")) {
    out.ranks = std::max(out.ranks, number(j, "ranks"));
    out.bank[rank] = number(j, "bank");
    out.total[rank] = number(j, "total");
    out.per_peer[rank] = number(j, "per_peer");
    out.epoch[rank] = number(j, "epoch");
    return true;
  }
  const std::uint32_t peer = number(j, "peer");
  pair_figures& as_lender = out.pairs[{rank, peer}];
  as_lender.loan = number(j, "loan");
  as_lender.lent = true;
  pair_figures& as_borrower = out.pairs[{peer, rank}];
  as_borrower.send = number(j, "send");
  as_borrower.in_use = number(j, "inuse");
  as_borrower.most = number(j, "max");
  as_borrower.stalls = number(j, "stalls");
  as_borrower.borrowed = true;
  return true;
}

/// Reads one file; later lines replace earlier ones. Answers how many lines were not understood.
int read(job& out, const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    fmt::print(stderr, "pencredit: cannot read {}\n", path);
    return 1;
  }
  int bad = 0, at = 0;
  for (std::string line; std::getline(file, line);) {
    ++at;
    if (line.empty() || add_line(out, line)) continue;
    fmt::print(stderr, "pencredit: {}:{}: not a line of credit statistics\n", path, at);
    ++bad;
  }
  return bad;
}

void print_tables(const job& j, std::size_t most_pairs) {
  fmt::print("{:>8} {:>8} {:>8} {:>10} {:>8}\n", "lender", "total", "bank", "at start", "epochs");
  for (const auto& [rank, bank] : j.bank)
    fmt::print("{:>8} {:>8} {:>8} {:>10} {:>8}\n", rank, j.total.at(rank), bank,
               j.per_peer.at(rank), j.epoch.at(rank));
  std::vector<std::pair<std::pair<std::uint32_t, std::uint32_t>, pair_figures>> rows(
      j.pairs.begin(), j.pairs.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.loan > b.second.loan; });
  fmt::print("\n{:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "lender", "borrower", "loan", "holds",
             "in use", "most", "stalls");
  const auto either = [](bool known, std::uint32_t v) { return known ? std::to_string(v) : "-"; };
  for (std::size_t i = 0; i < std::min(most_pairs, rows.size()); ++i) {
    const auto& [who, f] = rows[i];
    fmt::print("{:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", who.first, who.second,
               either(f.lent, f.loan), either(f.borrowed, f.send), either(f.borrowed, f.in_use),
               either(f.borrowed, f.most), either(f.borrowed, f.stalls));
  }
  if (rows.size() > most_pairs)
    fmt::print("{} more pairs; --top shows more\n", rows.size() - most_pairs);
}

/// Lenders down, borrowers across, in blocks when there are many.
bool draw(const job& j, const std::string& path) {
  constexpr std::uint32_t most = 128;
  const std::uint32_t block = std::max(1U, (j.ranks + most - 1) / most);
  const std::uint32_t side = (j.ranks + block - 1) / block;
  heat_map map;
  map.title = fmt::format("{} processes: credits lent", j.ranks);
  map.across =
      block == 1 ? "borrower" : fmt::format("borrower, {} to a cell: the largest loan", block);
  map.down = "lender";
  map.cells.assign(side, std::vector<std::uint32_t>(side, 0));
  for (std::uint32_t i = 0; i < side; ++i) map.rows.push_back(std::to_string(i * block));
  for (std::uint32_t lender = 0; lender < j.ranks; ++lender) {
    const auto start = j.per_peer.find(lender);
    if (start == j.per_peer.end()) continue;
    for (std::uint32_t borrower = 0; borrower < j.ranks; ++borrower) {
      if (lender == borrower) continue;
      const auto f = j.pairs.find({lender, borrower});
      const std::uint32_t loan =
          f != j.pairs.end() && f->second.lent ? f->second.loan : start->second;
      std::uint32_t& cell = map.cells[lender / block][borrower / block];
      cell = std::max(cell, loan);
    }
  }
  std::ofstream file(path);
  file << map.draw();
  return file.good();
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> files;
  std::string svg;
  std::size_t top = 40;
  penstock::command_line line("pencredit",
                              "Shows who lends credits to whom.\n"
                              "It reads the files that processes write when the setting "
                              "PENSTOCK_CREDIT_STATS is on. Pairs whose\n"
                              "loan is that of the start are left out.");
  line.list("files", files, "The files, one of each process", {.required = true, .type = "FILE"});
  line.text("--svg", svg, "Also writes a heat map", {.type = "FILE"});
  line.number("--top", top, "Number of pairs to list, largest loans first");
  line.parse(argc, argv);
  job j;
  int bad = 0;
  for (const std::string& f : files) bad += read(j, f);
  if (j.ranks == 0) {
    fmt::print(stderr, "pencredit: no credit statistics in these files\n");
    return 2;
  }
  print_tables(j, top);
  if (!svg.empty() && !draw(j, svg)) {
    fmt::print(stderr, "pencredit: cannot write {}\n", svg);
    return 2;
  }
  return bad == 0 ? 0 : 1;
}
