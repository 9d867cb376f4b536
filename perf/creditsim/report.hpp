// The output of creditsim: one JSON object, and pictures.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "perf/creditsim/network.hpp"
#include "perf/creditsim/rivals.hpp"

namespace penstock::creditsim {

struct options {
  workload work;
  network_settings net;
  rival_settings rival;
  bool json = false, static_credits = false, rivals = false;
  std::uint32_t adversary = 0;    ///< scripts to try; 0: run the pattern
  std::string beside = "online";  ///< the rival with which the adversary compares us
  std::string svg, fade = "shift", revoked = "borrower";
};

struct rival {
  std::string name;
  rival_outcome what;
};

/// The share of our time that the rival `best` saves; below 0 where we are faster.
double regret(const outcome& ours, const rival_outcome& best);

/// rivals: the clairvoyant first, then online.
nlohmann::json report(const options& o, const credit::config& c, const outcome& limited,
                      const outcome& free, const std::vector<rival>& rivals);

/// PREFIX-heat.svg, PREFIX-convergence.svg, and PREFIX-rivals.svg where there are several. False: a
/// file cannot be written.
bool write_pictures(const options& o, const outcome& r, const std::vector<rival>& rivals,
                    std::uint32_t lender);

}  // namespace penstock::creditsim
