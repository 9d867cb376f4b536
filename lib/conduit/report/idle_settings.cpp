#include "lib/conduit/report/idle_settings.hpp"

#include "lib/base/settings_table.hpp"

namespace penstock::conduit::PENSTOCK_ABI::report {
namespace {

struct item {
  const char* name;
  bool set;
};

void add(std::vector<std::string>& lines, const char* why, const std::vector<item>& items) {
  std::string names;
  for (const item& i : items)
    if (i.set) names.append(names.empty() ? "PENSTOCK_" : ", PENSTOCK_").append(i.name);
  if (!names.empty())
    lines.push_back(names + (names.find(',') == names.npos ? " has" : " have") + " no effect " +
                    why);
}

}  // namespace

std::vector<std::string> idle_settings(const settings& s, bool rings, bool verbs, bool everything) {
  const settings d;
  std::vector<std::string> lines;
  if (rings && !verbs) {
    std::vector<item> items{{"OVERFLOW_FATAL", !s.flow_control && s.overflow_fatal}};
    for (const auto& row : settings_table())
      if (row.has(queue_pairs))
        items.push_back({row.name, format_setting(row, s) != format_setting(row, d)});
    add(lines, "in this job, all of whose messages go through rings", items);
  }
  if (verbs && everything)
    add(lines, "with segment everything",
        {{"MAX_CONNECTIONS", s.max_connections != d.max_connections}});
  if (s.flow_control)
    add(lines, "with PENSTOCK_FLOW_CONTROL: credits keep buffers from running short",
        {{"OVERFLOW_FATAL", s.overflow_fatal}});
  const bool moves = s.flow_control && s.dynamic_credits;
  if (!moves)
    add(lines,
        s.flow_control ? "without PENSTOCK_DYNAMIC_CREDITS: loans stay as they are at start"
                       : "without PENSTOCK_FLOW_CONTROL: no credits are counted",
        {{"LENDER_LIMIT", s.lender_limit != d.lender_limit},
         {"REVOKE_LIMIT", s.revoke_limit != d.revoke_limit},
         {"NUM_SCAVENGE", s.num_scavenge != d.num_scavenge},
         {"DECAY_LAST_CURR", s.decay_last_curr != d.decay_last_curr},
         {"LENDER_COUNTS_REVOKED", s.lender_counts_revoked != d.lender_counts_revoked},
         {"MAX_CONNECTIONS", verbs && !s.flow_control && s.max_connections != d.max_connections},
         {"DYNAMIC_CREDITS", !s.flow_control && !s.dynamic_credits}});
  return lines;
}

}  // namespace penstock::conduit::PENSTOCK_ABI::report
