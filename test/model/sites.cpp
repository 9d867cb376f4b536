#include "test/model/sites.hpp"

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>

#include "test/model/scheduled.hpp"

namespace penstock::model {
namespace {

struct mutant {
  unsigned site = 0;
  std::memory_order order{};
  mutant() {
    const char* const said = std::getenv("PENSTOCK_MUTANT");
    if (said == nullptr) return;
    char* end = nullptr;
    site = static_cast<unsigned>(std::strtoul(said, &end, 10));
    const std::string_view to = end;
    order = to == ":acq_rel"   ? std::memory_order_acq_rel
            : to == ":acquire" ? std::memory_order_acquire
            : to == ":release" ? std::memory_order_release
                               : std::memory_order_relaxed;
  }
};
const mutant the_mutant;

// PENSTOCK_SITES=file: the sites that were reached are written there at the end.
struct reached_sites {
  std::set<unsigned> all;
  ~reached_sites() {
    if (const char* const file = std::getenv("PENSTOCK_SITES")) {
      std::ofstream out(file);
      for (const unsigned s : all) out << s << "\n";
    }
  }
};

void reach(unsigned site) {
  static const bool wanted = std::getenv("PENSTOCK_SITES") != nullptr;
  if (!wanted) return;
  static reached_sites reached;
  reached.all.insert(site);
}

}  // namespace

ordered at_site(std::memory_order o) noexcept {
  const unsigned site = static_cast<unsigned>(o) >> 8;
  if (site == 0) return {o, 0};
  reach(site);
  if (site == the_mutant.site) return {the_mutant.order, site};
  return {static_cast<std::memory_order>(static_cast<unsigned>(o) & 0xff), site};
}

bool left_out(unsigned site) noexcept {
  reach(site);
  return site == the_mutant.site;
}

std::string site_text(unsigned site) {
  std::ifstream in(PENSTOCK_SITES_FILE);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    unsigned number = 0;
    std::string rest;
    if (words >> number && number == site) return std::getline(words >> std::ws, rest), rest;
  }
  return "";
}

}  // namespace penstock::model
