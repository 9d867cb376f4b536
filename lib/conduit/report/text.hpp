// Counters as text: JSON for pentop and for programs that read files, and Prometheus's exposition
// format for node_exporter and similar programs. Both are written from the tables in
// penstock/counters.hpp.
#pragma once

#include <memory>
#include <string>

#include "lib/base/settings.hpp"
#include "lib/base/trace.hpp"
#include "penstock/counters.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI::report {

/// Names the process and endpoint that a text is about.
struct identity {
  std::uint32_t rank = 0, ranks = 1;
  int pid = 0;
  std::string job, program, host, device;
};

/// One JSON object on one line, which ends with a newline. Its member "format" stays 1 as long as
/// new versions only add names.
std::string json(const identity& who, const endpoint_counters& c);

/// Metrics penstock_NAME with the labels job and rank, and peer, path and direction where they
/// apply.
std::string prometheus(const identity& who, const endpoint_counters& c);

/// The path of the file that a setting names: "1" is the default's name. % stands for the rank;
/// without it the rank is appended behind a dot. So is the number of the endpoint's first domain in
/// its process, if it is not 0. If the path has the ending given, this stays at the end.
std::string file_of(std::string path, const char* by_default, const char* ending,
                    std::uint32_t rank, unsigned nth);

/// A file of counters with this ending gets Prometheus's format.
inline constexpr const char* prometheus_ending = ".prom";
/// The file of the setting COUNTERS, where it names one.
std::string counters_file(const settings& s, std::uint32_t rank, unsigned nth);
/// Fails if a file that the settings ask for at the end could not be written now.
result<void> outputs_can_be_written(const settings& s, std::uint32_t rank, unsigned nth);

/// Opens the trace of the setting TRACE; null if no trace is asked for.
result<std::unique_ptr<trace>> open_trace(const settings& s, std::uint32_t rank, unsigned nth);

/// A short number that tells the jobs of a user apart. It does not reveal the name, which is
/// secret.
std::string public_name(const std::string& job_name);

/// The name, without the leading 0, of the abstract socket at which a process answers questions
/// about its nth endpoint.
std::string socket_name(unsigned uid, const std::string& job, std::uint32_t rank, unsigned nth);

}  // namespace penstock::conduit::PENSTOCK_ABI::report
