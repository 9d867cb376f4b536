// See hosts.hpp.
#include "tools/penrun/hosts.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <sstream>

namespace penrun {
namespace {

using penstock::failure;

struct place {
  std::string name;
  std::uint32_t most;
};

// "name" or "name:3"; what follows the last colon is a number only if it is the only colon, as IPv6
// addresses have many.
penstock::result<place> read_place(std::string_view text) {
  place p{std::string(text), UINT32_MAX};
  const auto colon = text.find(':');
  if (colon != text.npos && text.find(':', colon + 1) == text.npos) {
    p.name = text.substr(0, colon);
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + colon + 1, end, p.most);
    if (error != std::errc{} || at != end || p.most == 0) p.name.clear();
  }
  if (p.name.empty() || p.name.front() == '-')
    return failure{"--host: \"" + std::string(text) + "\" is not HOST or HOST:PROCESSES", 0, ""};
  return p;
}

}  // namespace

penstock::result<std::vector<host>> spread(const std::string& list, std::uint32_t processes) {
  std::vector<place> places;
  for (std::string_view rest = list; !rest.empty() || places.empty();) {
    const auto end = std::min(rest.find(','), rest.size());
    auto p = read_place(rest.substr(0, end));
    if (!p) return p.error();
    const auto same = std::find_if(places.begin(), places.end(),
                                   [&](const place& q) { return q.name == p->name; });
    if (same == places.end())
      places.push_back(std::move(*p));
    else  // named twice: the numbers are added; without a number there is no limit
      same->most = same->most > UINT32_MAX - p->most ? UINT32_MAX : same->most + p->most;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  // One process to each host in turn that has room, until all have a place.
  std::vector<std::uint32_t> given(places.size());
  for (std::uint32_t left = processes; left > 0;) {
    const std::uint32_t before = left;
    for (std::size_t i = 0; i < places.size() && left > 0; ++i) {
      if (given[i] == places[i].most) continue;
      ++given[i];
      --left;
    }
    if (left == before)
      return failure{"--host " + list + " has room for " + std::to_string(processes - left) +
                         " processes, not " + std::to_string(processes),
                     0, ""};
  }
  std::vector<host> out;
  std::uint32_t first = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (given[i] != 0) out.push_back({places[i].name, first, given[i]});
    first += given[i];
  }
  return out;
}

penstock::result<std::string> read_hostfile(const std::string& path) {
  std::ifstream whole(path);
  if (!whole) return failure{"--hostfile " + path, errno, ""};
  // A device may have no end.
  constexpr std::size_t most = 16u << 20;
  std::string text(most, '\0');
  whole.read(text.data(), static_cast<std::streamsize>(most));
  text.resize(static_cast<std::size_t>(whole.gcount()));
  if (text.size() == most || text.find('\0') != text.npos)
    return failure{"--hostfile " + path + " is no list of hosts: a text of up to 16 MiB is wanted",
                   0, ""};
  std::istringstream file(text);
  std::string list;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, word;
    if (!(words >> name)) continue;
    while (words >> word) {
      if (word.starts_with("slots=")) {
        name.append(":").append(word.substr(6));
        if (read_place(name)) continue;
      } else if (word.starts_with("max_slots=") || word.starts_with("max-slots=")) {
        continue;
      }
      return failure{"--hostfile " + path + ": \"" + line + "\" is not HOST or HOST slots=N", 0,
                     ""};
    }
    list.append(list.empty() ? "" : ",").append(name);
  }
  if (list.empty()) return failure{"--hostfile " + path + " names no host", 0, ""};
  return list;
}

}  // namespace penrun
