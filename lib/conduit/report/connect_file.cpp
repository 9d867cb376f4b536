// See connect_file.hpp.
#include "lib/conduit/report/connect_file.hpp"

#include <cstdlib>
#include <cstring>
#include <sstream>

namespace penstock::conduit::PENSTOCK_ABI::report {

std::string connect_file_head(std::uint32_t ranks) {
  return "size:" + std::to_string(ranks) + "\nbase:10\n";
}

std::string connect_file_line(std::uint32_t rank, const std::vector<std::uint32_t>& peers) {
  std::string line = std::to_string(rank) + ":";
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const std::uint32_t first = peers[i];
    while (i + 1 < peers.size() && peers[i + 1] == peers[i] + 1) ++i;
    line.append(" ").append(std::to_string(first));
    if (peers[i] != first) line.append("-").append(std::to_string(peers[i]));
  }
  return line + "\n";
}

result<std::vector<std::uint32_t>> connect_file_peers(const std::string& text, std::uint32_t rank,
                                                      std::uint32_t ranks) {
  std::vector<std::uint32_t> peers;
  int base = 10;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const char* at = line.c_str();
    const auto colon = line.find(':');
    if (colon == line.npos) {
      if (line.find_first_not_of(" \t\r") == line.npos) continue;
      return failure{"no connections in '" + line + "'", 0, ""};
    }
    const std::string key = line.substr(0, colon);
    at += colon + 1;
    char* end = nullptr;
    if (key == "size") {
      if (const auto n = std::strtoul(at, &end, 10); n != ranks)
        return failure{"it is of a job of " + std::to_string(n) + " ranks", 0, ""};
      continue;
    }
    if (key == "base") {
      base = static_cast<int>(std::strtoul(at, &end, 10));
      if (base < 2 || base > 36) return failure{"no base in '" + line + "'", 0, ""};
      continue;
    }
    const bool mine = std::strtoul(line.c_str(), &end, base) == rank;
    if (end != line.c_str() + colon) return failure{"no rank in '" + line + "'", 0, ""};
    while (at += std::strspn(at, " ,\t\r"), *at != 0) {
      const auto first = std::strtoul(at, &end, base);
      auto last = first;
      if (end != at && *end == '-') last = std::strtoul(at = end + 1, &end, base);
      if (end == at || first > last || last >= ranks)
        return failure{"no ranks of a job of " + std::to_string(ranks) + " in '" + line + "'", 0,
                       ""};
      for (auto r = first; mine && r <= last; ++r)
        if (r != rank) peers.push_back(static_cast<std::uint32_t>(r));
      at = end;
    }
  }
  return peers;
}

std::string connect_file_name(std::string name, std::uint32_t rank) {
  for (auto at = name.find('%'); at != name.npos; at = name.find('%', at))
    name.replace(at, 1, std::to_string(rank));
  return name;
}

}  // namespace penstock::conduit::PENSTOCK_ABI::report
