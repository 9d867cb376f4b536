// penperf's command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "perf/rounds.hpp"

namespace penstock::penperf {

/// What kind of active message carries the payload.
enum class am_kind { short_, medium, long_ };
const char* name_of(am_kind k) noexcept;

/// What the replies to Mediums and Longs are.
enum class reply_kind { automatic, same, short_ };

/// How the payload of a Medium or Long comes to be.
enum class payload_kind {
  ready,     ///< it lies there
  made,      ///< it is made for each message, in a buffer that is then sent
  reserved,  ///< it is made where it is sent from (penstock/reserve.hpp)
};
/// What a table adds to the kind of message; nothing for ready.
const char* suffix_of(payload_kind p) noexcept;

/// Where the remote memory of puts and gets lies, and the local one.
enum class place_of {
  segment,   ///< both in segments
  outside,   ///< the remote one in its segment, the local one not
  private_,  ///< neither: the program asks for access to everything
};
const char* name_of(place_of p) noexcept;

/// What a benchmark of registrations looks at.
enum class lookup_kind { hit, miss, evict, plain };
const char* name_of(lookup_kind k) noexcept;

/// 0 or empty: the benchmark's own default.
struct options {
  std::string bench;
  am_kind kind = am_kind::short_;
  bool kind_given = false;
  reply_kind reply = reply_kind::automatic;
  payload_kind payload = payload_kind::ready;
  place_of memory = place_of::segment;
  lookup_kind lookup = lookup_kind::hit;
  std::uint64_t size = 0;   ///< payload bytes of one operation
  std::uint64_t iters = 0;  ///< operations a round
  unsigned rounds = 0;
  std::optional<perf::placement> only;  ///< rounds at another placement do not count
  double seconds = 0;       ///< of a round whose operations are not told; 0: chosen (set_pace)
  std::uint64_t chunk = 0;  ///< operations between two looks at whether the rate has settled
  unsigned threads = 1;
  unsigned pairs = 1;        ///< requester i with target i + pairs, all at the same time
  bool both = false;         ///< the target does as the requester does, at the same time
  std::uint64_t window = 0;  ///< operations in flight
  bool server = false;       ///< waits for a client
  std::string peer;          ///< where a server waits
  unsigned port = 18515;     ///< perftest's
  std::string device;
  bool all_sizes = false;      ///< powers of 2, from 1 byte to what the kind takes
  std::vector<unsigned> cpus;  ///< of the requesters, then of the targets; empty: the first ones
  bool json = false, csv = false;
  bool counters = false;  ///< both processes print what they have counted
  bool histogram = false;
  std::string svg;       ///< a picture of all sizes: latency or bandwidth
  std::string svg_rate;  ///< and of operations a second
  std::string svg_cdf;   ///< how samples are spread
};

/// The sizes that o.all_sizes stands for.
std::vector<std::uint64_t> sizes_of(const options& o);

/// The options that must be equal at two sides that no launcher has started together.
std::string agreement(const options& o);

/// Fills in how long and how many rounds are, once the device is known. Where the kernel is the
/// device what is measured wanders from moment to moment, ours and the twin's alike: there many
/// short rounds tell more than a few long ones.
void set_pace(options& o, bool many_short) noexcept;

/// Parses and lets the benchmark fill in what was left open; on --help or an error prints and ends
/// the process (0 or 2).
options parse(int argc, char** argv);

}  // namespace penstock::penperf
