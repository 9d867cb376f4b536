// Counters as text: JSON for programs that read files and for pentop, Prometheus's exposition
// format for node_exporter and its kin. Both are written from the tables in penstock/counters.hpp.
#pragma once

#include <memory>
#include <string>

#include "lib/base/settings.hpp"
#include "lib/base/trace.hpp"
#include "penstock/counters.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI::report {

/// Which process a text is of.
struct identity {
  std::uint32_t rank = 0, ranks = 1;
  int pid = 0;
  std::string job, program, host, device;
};

/// One object on one line, ended by a newline: "format" is 1 while names only join it.
std::string json(const identity& who, const endpoint_counters& c);

/// Metrics penstock_NAME with the labels job, rank, and peer, path and direction where they apply.
std::string prometheus(const identity& who, const endpoint_counters& c);

/// The file that a setting names: "1" is the default's name; % is the rank, which else follows
/// behind a dot, as does the number of the endpoint's first domain in its process. An ending like
/// the one given stays at the end.
std::string file_of(std::string path, const char* by_default, const char* ending,
                    std::uint32_t rank, unsigned nth);

/// The file of the setting TRACE, or null if there is to be none.
result<std::unique_ptr<trace>> open_trace(const settings& s, std::uint32_t rank, unsigned nth);

/// A short number that tells the jobs of a user apart; says nothing of the name, which is secret.
std::string public_name(const std::string& job_name);

/// The abstract socket at which a process answers who watches: of its nth endpoint. No leading 0.
std::string socket_name(unsigned uid, const std::string& job, std::uint32_t rank, unsigned nth);

}  // namespace penstock::conduit::PENSTOCK_ABI::report
