// A ledger's figures as text, for the statistics that each process writes (setting CREDIT_STATS)
// and tools/pencredit reads. One JSON object a line. Not for the data path.
#pragma once

#include <cstdint>
#include <string>

#include "credit/ledger.hpp"

namespace penstock::credit {

/// {"rank":…,"ranks":…,"epoch":…,"bank":…,"total":…,"per_peer":…}
std::string header_line(const config& c, std::uint32_t epoch, std::uint32_t bank);

/// {"rank":…,"peer":…,"loan":…,"send":…,"inuse":…,…}
std::string peer_line(std::uint32_t rank, std::uint32_t peer, const peer_figures& f);

/// The whole snapshot: a header line, then a line for each peer whose figures differ from those at
/// the start. Any thread; if other threads go on meanwhile, figures of different peers are of
/// different moments.
template <class Ledger>
std::string snapshot(const Ledger& l) {
  const config& c = l.settings();
  std::string text = header_line(c, l.epoch(), l.bank());
  for (std::uint32_t p = 0; p < c.ranks; ++p) {
    if (p == c.me) continue;
    const peer_figures f = l.figures(p);
    const bool as_at_start = f.loan == c.credits_per_peer && f.send == c.credits_per_peer &&
                             f.in_use == 0 && f.most == 0 && f.stalls == 0;
    if (!as_at_start) text += peer_line(c.me, p, f);
  }
  return text;
}

}  // namespace penstock::credit
