// Which connections are made at start, since a setting or the file of an earlier run asks for them,
// and the file that says which ones this run has made.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/clock.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/peer/core_inl.hpp"
#include "lib/conduit/report/connect_file.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

// Before the introductions, which no rank leaves before rank 0 has come to them: so each rank
// appends its line to a file that is there, and none is lost by the file's first lines.
result<void> engine::begin_connect_file() const {
  const std::string &in = core_.options().connectfile_in, &out = core_.options().connectfile_out;
  if (in != "0" && in == out && in.find('%') == in.npos)
    return failure{"PENSTOCK_CONNECTFILE_IN and PENSTOCK_CONNECTFILE_OUT are both " + in, 0,
                   "name two files, or one for each rank by a % in the name"};
  if (out != "0" && (core_.rank() == 0 || out.find('%') != out.npos))
    if (const std::string path = report::connect_file_name(out, core_.rank());
        !replace_file(path, report::connect_file_head(core_.size())))
      return failure{"PENSTOCK_CONNECTFILE_OUT: cannot write " + path, errno, ""};
  return {};
}

void engine::connect_at_start() {
  const std::string& in = core_.options().connectfile_in;
  std::vector<std::uint32_t> ranks;
  if (core_.options().connect_static) {
    for (std::uint32_t r = 0; r < core_.size(); ++r)
      if (r != core_.rank()) ranks.push_back(r);
  } else if (in != "0") {
    const std::string path = report::connect_file_name(in, core_.rank());
    const std::string text = text_of(path);
    auto named = report::connect_file_peers(text, core_.rank(), core_.size());
    if (text.empty()) named = failure{"it is empty, or not there", 0, ""};
    if (named)
      ranks = std::move(*named);
    else
      log(log_level::warning, "PENSTOCK_CONNECTFILE_IN: %s makes no connections: %s", path.c_str(),
          named.error().what.c_str());
  }
  // From the next rank on, so that not all ranks ask the same one first.
  std::sort(ranks.begin(), ranks.end());
  std::rotate(ranks.begin(), std::upper_bound(ranks.begin(), ranks.end(), core_.rank()),
              ranks.end());
  // False: it cannot be made.
  const auto connect = [&](peer& p, std::uint64_t until_ns) {
    const long_wait named(core_.waits(), wait_for::connection, p.rank);
    for (unsigned empty = 0; !connections::is_ready(p, lane_request);) {
      if (is_failure(connections_.connect(p, lane_request))) return false;
      if (now_ns() >= until_ns || is_failure(wait_step(empty))) break;
    }
    return true;
  };
  // Some are made side by side, as many as have room for their answers at this process's port,
  // beside the hellos of as many that ask it. One that does not answer holds up the next only for
  // the time after which it is asked again.
  constexpr std::size_t side_by_side = 32;
  constexpr std::uint64_t patience_ns = 20'000'000;
  std::vector<peer*> peers;
  for (std::uint32_t i = 0; i < core_.domain_count(); ++i)
    for (const std::uint32_t r : ranks) peers.push_back(&core_.begun(core_.domains()[i].peers[r]));
  for (std::size_t k = 0; k < peers.size(); ++k) {
    if (k >= side_by_side && !connect(*peers[k - side_by_side], now_ns() + patience_ns)) return;
    if (!connect(*peers[k], 0)) return;
  }
  for (peer* const p : peers)
    if (!connect(*p, ~std::uint64_t{0})) return;
}

// Called before the process leaves, which connects to ranks that no message of the program's needs.
void engine::write_connections() noexcept {
  if (core_.options().connectfile_out == "0" || !core_.has_started()) return;
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t i = 0; i < core_.domain_count(); ++i)
    for (const peer_order* connected : {&core_.domains()[i].rings, &core_.domains()[i].verbs})
      for (std::uint32_t k = 0, n = connected->count(); k < n; ++k)
        ranks.push_back((*connected)[k].rank);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  const std::string path = report::connect_file_name(core_.options().connectfile_out, core_.rank());
  const std::string line = report::connect_file_line(core_.rank(), ranks);
  // One call, behind what others write meanwhile.
  const int fd = above_stdio(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (fd < 0 || ::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    log(log_level::warning, "PENSTOCK_CONNECTFILE_OUT: cannot write %s", path.c_str());
  if (fd >= 0) ::close(fd);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
