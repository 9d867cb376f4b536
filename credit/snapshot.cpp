// Writes the lines of snapshot.hpp.
#include "credit/snapshot.hpp"

#include <initializer_list>
#include <utility>

namespace penstock::credit {
namespace {

std::string line(std::initializer_list<std::pair<const char*, std::uint32_t>> members) {
  std::string s = "{";
  for (const auto& [name, value] : members) {
    if (s.size() > 1) s += ',';
    s.append("\"").append(name).append("\":").append(std::to_string(value));
  }
  return s + "}\n";
}

}  // namespace

std::string header_line(const config& c, std::uint32_t epoch, std::uint32_t bank) {
  return line({{"rank", c.me},
               {"ranks", c.ranks},
               {"epoch", epoch},
               {"bank", bank},
               {"total", c.total_credits()},
               {"per_peer", c.credits_per_peer}});
}

std::string peer_line(std::uint32_t rank, std::uint32_t peer, const peer_figures& f) {
  return line({{"rank", rank},
               {"peer", peer},
               {"loan", f.loan},
               {"send", f.send},
               {"inuse", f.in_use},
               {"max", f.most},
               {"stalls", f.stalls},
               {"revoked", f.revoked},
               {"requested", f.requested},
               {"given", f.given},
               {"owed", f.owed}});
}

}  // namespace penstock::credit
