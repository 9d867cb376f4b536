#include "tools/pentop/layout.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace pentop {
namespace {

constexpr double shortest_interval = 0.1, longest_interval = 60;

double sort_key(const row& r, choices::order by) {
  switch (by) {
    case choices::order::rank:
      return -static_cast<double>(r.rank);  // the lowest comes first, of all others the highest
    case choices::order::messages:
      return r.messages;
    case choices::order::bytes:
      return r.bytes;
    case choices::order::waits:
      return r.waited;
  }
  return 0;
}

void sort(std::vector<row>& rows, const choices& c) {
  std::stable_sort(rows.begin(), rows.end(), [&](const row& a, const row& b) {
    const double x = sort_key(a, c.sorted), y = sort_key(b, c.sorted);
    return c.reversed ? x < y : x > y;
  });
}

const char* name_of(choices::order o) {
  switch (o) {
    case choices::order::rank:
      return "rank";
    case choices::order::messages:
      return "messages";
    case choices::order::bytes:
      return "bytes";
    case choices::order::waits:
      return "waits";
  }
  return "";
}

std::vector<std::string> help_lines() {
  return {"Keys of pentop",
          "",
          "  q            ends pentop; the job goes on",
          "  r, m, b, w   sort by rank, messages, bytes, share of the time that was waited",
          "  R            turns the order round",
          "  Tab          chooses the table that the next keys move",
          "  up, down     move it by a line, also k and j",
          "  PgUp, PgDn   by a page, Home and End to its ends",
          "  + -          longer or shorter between two looks",
          "  space        keeps the figures as they are, and goes on",
          "  h, ?         shows this, and goes back",
          "",
          "Columns: messages and payload bytes a second that a rank sent; polls of all its",
          "threads; credits that it lends and keeps; what its longest request waits for.",
          "stalls: requests that waited for credits; waited, % now, for now: how long since",
          "the start, in the last look, and in the current wait; credits: free ones that the",
          "other rank has lent. More stands in man pentop."};
}

// Appends a table that takes `room` lines with its heading, from row `first` on.
void add_table(std::vector<std::string>& out, const std::string& heading,
               const std::vector<row>& rows, std::size_t room, std::size_t& first, bool chosen) {
  if (room == 0) return;
  const std::size_t fit = room - 1;
  first = std::min(first, rows.size() > fit ? rows.size() - fit : 0);
  const std::size_t last = std::min(rows.size(), first + fit);
  const bool more = first != 0 || last != rows.size();
  out.push_back(fmt::format(
      "{}{}{}", chosen && more ? '>' : ' ', heading.substr(1),
      more ? fmt::format("  [{} to {} of {}]", first + 1, last, rows.size()) : std::string()));
  for (std::size_t i = first; i < last; ++i) out.push_back(rows[i].text);
}

}  // namespace

bool press(int key, std::size_t rows, choices& c) {
  std::size_t& first = c.first[c.pairs ? 1 : 0];
  const std::size_t page = std::max<std::size_t>(rows / 3, 1);
  switch (key) {
    case 'q':
    case 'Q':
      return false;
    case 'h':
    case '?':
      c.help = !c.help;
      break;
    case 'r':
    case 'm':
    case 'b':
    case 'w':
      c.sorted = static_cast<choices::order>(key);
      c.first[0] = c.first[1] = 0;
      break;
    case 'R':
      c.reversed = !c.reversed;
      break;
    case '\t':
      c.pairs = !c.pairs;
      break;
    case ' ':
      c.paused = !c.paused;
      break;
    case '+':
      c.interval = std::max(c.interval, std::min(c.interval * 2, longest_interval));
      break;
    case '-':
      c.interval = std::min(c.interval, std::max(c.interval / 2, shortest_interval));
      break;
    case 'k':
    case key_up:
      first -= first != 0 ? 1 : 0;
      break;
    case 'j':
    case key_down:
      ++first;
      break;
    case key_page_up:
      first -= std::min(first, page);
      break;
    case key_page_down:
      first += page;
      break;
    case key_home:
      first = 0;
      break;
    case key_end:
      first = ~std::size_t{0} / 2;  // lay_out() moves it back
      break;
    default:
      break;
  }
  return true;
}

std::vector<std::string> lay_out(const picture& p, choices& c, std::size_t rows,
                                 std::size_t columns) {
  std::vector<std::string> out;
  const std::string keys = fmt::format(
      "q ends  h help  r m b w sorted by {}{}  Tab, arrows move  + - {:.4g} s{}", name_of(c.sorted),
      c.reversed ? ", turned" : "", c.interval, c.paused ? "  stopped; space goes on" : "");
  if (c.help) {
    out = help_lines();
  } else {
    out.push_back(job_line(p));
    out.push_back(target_line(p));
    std::vector<row> ranks = rank_rows(p), pairs = pair_rows(p);
    sort(ranks, c);
    sort(pairs, c);
    // The job, the target, an empty line between the tables, the keys; each table has a heading.
    const std::size_t room = rows > 4 ? rows - 4 : 0;
    const std::size_t half = (room + 1) / 2;
    const std::size_t of_ranks =
        std::min(ranks.size() + 1, std::max(half, room - std::min(room, pairs.size() + 1)));
    add_table(out, rank_heading(), ranks, std::min(room, of_ranks), c.first[0], !c.pairs);
    out.emplace_back();
    add_table(out, pair_heading(), pairs, room - std::min(room, of_ranks), c.first[1], c.pairs);
  }
  if (rows == 0) return {};
  out.resize(rows - 1);
  out.push_back(keys);
  for (std::string& line : out) line.resize(std::min(line.size(), columns));
  return out;
}

}  // namespace pentop
