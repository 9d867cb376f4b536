// Which connections are made at start, since a setting or the file of an earlier run asks for them,
// and the file that says which ones this run has made.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/descriptors.hpp"
#include "lib/conduit/channel/core_inl.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/report/connect_file.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

// Before the introductions, which no rank leaves before rank 0 has come to them: so each rank
// appends its line to a file that is there, and none is lost by the file's first lines.
result<void> engine::begin_connect_file() const {
  const std::string &in = settings_.connectfile_in, &out = settings_.connectfile_out;
  if (in != "0" && in == out && in.find('%') == in.npos)
    return failure{"PENSTOCK_CONNECTFILE_IN and PENSTOCK_CONNECTFILE_OUT are both " + in, 0,
                   "name two files, or one for each rank by a % in the name"};
  if (out != "0" && (rank_ == 0 || out.find('%') != out.npos))
    if (const std::string path = report::connect_file_name(out, rank_);
        !replace_file(path, report::connect_file_head(size_)))
      return failure{"PENSTOCK_CONNECTFILE_OUT: cannot write " + path, errno, ""};
  return {};
}

void engine::connect_at_start() {
  const std::string& in = settings_.connectfile_in;
  std::vector<std::uint32_t> ranks;
  if (settings_.connect_static) {
    for (std::uint32_t r = 0; r < size_; ++r)
      if (r != rank_) ranks.push_back(r);
  } else if (in != "0") {
    const std::string path = report::connect_file_name(in, rank_);
    const std::string text = text_of(path);
    auto named = report::connect_file_peers(text, rank_, size_);
    if (text.empty()) named = failure{"it is empty, or not there", 0, ""};
    if (named)
      ranks = std::move(*named);
    else
      log(log_level::warning, "PENSTOCK_CONNECTFILE_IN: %s makes no connections: %s", path.c_str(),
          named.error().what.c_str());
  }
  // All are asked for first, so that they are made side by side.
  for (const bool wait : {false, true})
    for (std::uint32_t i = 0; i < domain_count_; ++i)
      for (const std::uint32_t r : ranks) {
        peer& p = begun(domains_[i].peers[r]);
        const long_wait named(waits_, wait_for::connection, r);
        for (unsigned empty = 0; !connections::is_ready(p, lane_request);) {
          if (is_failure(connections_.connect(p, lane_request))) return;
          if (!wait || is_failure(wait_step(empty))) break;
        }
      }
}

// Called before the process leaves, which connects to ranks that no message of the program's needs.
void engine::write_connections() noexcept {
  if (settings_.connectfile_out == "0" || !started_) return;
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t i = 0; i < domain_count_; ++i)
    for (const peer_order* connected : {&domains_[i].rings, &domains_[i].verbs})
      for (std::uint32_t k = 0, n = connected->count(); k < n; ++k)
        ranks.push_back((*connected)[k].rank);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  const std::string path = report::connect_file_name(settings_.connectfile_out, rank_);
  const std::string line = report::connect_file_line(rank_, ranks);
  // One call, behind what others write meanwhile.
  const int fd = above_stdio(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (fd < 0 || ::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    log(log_level::warning, "PENSTOCK_CONNECTFILE_OUT: cannot write %s", path.c_str());
  if (fd >= 0) ::close(fd);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
