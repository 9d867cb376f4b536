// Who is to care about a setting. `peninfo --settings` shows the users' first.
#include <algorithm>

#include "lib/base/settings_table.hpp"

namespace penstock {
namespace {

constexpr std::string_view of_users[] = {"DEVICE",
                                         "PORT",
                                         "SUPERNODE_MAXSIZE",
                                         "CONNECT_STATIC",
                                         "CHECKS",
                                         "COUNTERS",
                                         "STATS_FILE",
                                         "TRACE",
                                         "WAIT_WARNING",
                                         "MAX_SEGSIZE",
                                         "HUGEPAGES",
                                         "PHYSMEM_MAX",
                                         "MEMORY_REPORT",
                                         "WAIT_MODE",
                                         "MAX_THREADS",
                                         "BARRIER",
                                         "EXITTIMEOUT",
                                         "PROGRESS_THREAD",
                                         "LOG",
                                         "VERBOSEENV"};

constexpr std::string_view of_operators[] = {"GID_INDEX",
                                             "MTU",
                                             "SERVICE_LEVEL",
                                             "TRAFFIC_CLASS",
                                             "HOP_LIMIT",
                                             "FLOW_LABEL",
                                             "FLOW_SPREAD",
                                             "PKEY",
                                             "RETRY_COUNT",
                                             "QP_TIMEOUT",
                                             "RNR_RETRY",
                                             "RNR_TIMER",
                                             "MAX_CQE",
                                             "HOST_DETECT",
                                             "ANY_PTRACER",
                                             "TCP_INTERFACE",
                                             "TCP_PORT",
                                             "TCP_SECRET",
                                             "TCP_TIMEOUT",
                                             "MEM_CONSISTENCY",
                                             "CONNECTFILE_IN",
                                             "CONNECTFILE_OUT",
                                             "MAX_CONNECTIONS",
                                             "CRED_PER_NODE",
                                             "BANKED_CREDITS",
                                             "AMRECV_SPACE",
                                             "RBUF_COUNT",
                                             "COUNTERS_INTERVAL",
                                             "COUNTERS_HTTP",
                                             "CONFIG",
                                             "WATCH",
                                             "PINNABLE_RATIO",
                                             "PHYSMEM_PROBE",
                                             "PINNED_REGIONS_MAX",
                                             "EXITTIMEOUT_MIN",
                                             "EXITTIMEOUT_MAX",
                                             "EXITTIMEOUT_FACTOR",
                                             "CONNECT_TIMEOUT",
                                             "DEATH_GRACE",
                                             "RSH",
                                             "PMI_VERSION",
                                             "THREAD_STACK"};

}  // namespace

setting_level level_of(const setting_row& row) noexcept {
  const auto among = [&row](std::span<const std::string_view> names) {
    return std::ranges::find(names, row.name) != names.end();
  };
  if (among(of_users)) return setting_level::user;
  return among(of_operators) ? setting_level::operators : setting_level::developer;
}

std::span<const std::string_view> settings_with_level(setting_level l) noexcept {
  switch (l) {
    case setting_level::user:
      return of_users;
    case setting_level::operators:
      return of_operators;
    case setting_level::developer:
      break;
  }
  return {};
}

}  // namespace penstock
