// The files of the setting CREDIT_STATS, which pencredit shows. Nobody waits for them.
#include <sstream>
#include <string>

#include "lib/base/descriptors.hpp"
#include "lib/base/thread_index.hpp"
#include "lib/conduit/credit_flow/credit_flow.hpp"
#include "lib/conduit/peer/core_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

// Writes the files of the setting CREDIT_STATS when the endpoint ends.
void credit_flow::write_statistics() noexcept {
  if (core_.options().credit_stats == "0") return;
  for (peer& p : core_.all_begun()) {
    collect_returned(p, thread_tag());
    give_back_lease(p);
  }
  write_files();
}

// The first domain's file is named by the rank alone; those of further domains and endpoints of the
// process also have a number. A program that reads a file while the job runs sees a whole one.
void credit_flow::write_files() const noexcept {
  if (core_.options().credit_stats == "0") return;
  for (std::uint32_t i = 0; i < core_.domain_count(); ++i) {
    std::string path =
        core_.options().credit_stats == "1" ? "penstock_credits" : core_.options().credit_stats;
    path.append(".").append(std::to_string(core_.rank()));
    if (const unsigned n = core_.first_file() + i; n != 0)
      path.append(".").append(std::to_string(n + 1));
    std::ostringstream text;
    text << credit::snapshot(*core_.domains()[i].ledger);
    if (!replace_file(path, text.str()))
      log(log_level::warning, "PENSTOCK_CREDIT_STATS: cannot write %s", path.c_str());
  }
}

}  // namespace penstock::conduit::PENSTOCK_ABI
