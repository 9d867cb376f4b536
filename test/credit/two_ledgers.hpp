// Shared by the tests of credit/: jobs of ledgers with messages between them, so that conservation
// can be counted over everything: banks, loans, what is held, and what is under way.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "credit/credit.hpp"

namespace penstock::credit::testing {

/// A plan that must succeed.
inline config planned(std::uint32_t ranks, std::uint32_t me, overrides set = {}) {
  result<config> c = plan(ranks, me, set);
  if (!c) throw std::runtime_error(c.error().message());
  return *c;
}

/// Few credits, so that everything happens soon: `each` per peer and a bank.
inline overrides small(std::uint32_t each, std::uint32_t bank, std::uint32_t epoch = 8) {
  overrides o;
  o.credits_per_peer = each;
  o.bank = bank;
  o.empty_bank = bank == 0;
  o.epoch_requests = epoch;
  return o;
}

/// Σ loans + bank; equals total_credits() whenever no thread is in the ledger.
template <class Ledger>
std::uint64_t lent_and_banked(const Ledger& l) {
  std::uint64_t sum = l.bank();
  for (std::uint32_t p = 0; p < l.settings().ranks; ++p) sum += l.loan(p);
  return sum;
}

}  // namespace penstock::credit::testing
