// A look at an engine's ledger and peers, for the job programs that count credits.
#pragma once

#include "lib/conduit/engine.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

struct test_access {
  static auto& ledger(engine& e) { return *e.domains_[0].ledger; }
  static bool by_rings(engine& e, rank_id r) { return e.domains_[0].peers[r].maps(); }
  static bool lane_is_ready(engine& e, rank_id r, unsigned lane) {
    return engine::is_ready(e.domains_[0].peers[r], lane);
  }
  /// What streams have leased and not spent goes back.
  static void give_back_leases(engine& e) {
    for (peer& p : e.all_begun()) e.give_back_lease(p);
  }
};

}  // namespace penstock::conduit::PENSTOCK_ABI
