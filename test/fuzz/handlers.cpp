// Tables of handlers that a client gives: what is accepted is what the specification allows, each
// entry has an index of its own, and a table that is refused is left as it was.
#include <set>
#include <vector>

#include "lib/gasnet/ex/handler_places.hpp"
#include "test/fuzz/target.hpp"

using namespace penstock::gasnet;

namespace {

void a_function() {}

gex_AM_Entry_t entry(fuzz::input& in) {
  gex_AM_Entry_t e{};
  const std::uint8_t how = in.byte();
  e.gex_index = (how & 1) != 0 ? in.byte() : gex_AM_Index_t{0};
  e.gex_fnptr = (how & 62) != 0 ? &a_function : nullptr;
  e.gex_nargs = (how & 64) != 0 ? in.take<std::uint32_t>() : in.byte() % 18u;
  static constexpr gex_Flags_t flags[] = {GEX_FLAG_AM_SHORT,   GEX_FLAG_AM_MEDIUM,
                                          GEX_FLAG_AM_LONG,    GEX_FLAG_AM_MEDLONG,
                                          GEX_FLAG_AM_REQUEST, GEX_FLAG_AM_REPLY};
  if ((how & 128) != 0) {
    for (const gex_Flags_t f : flags)
      if ((in.byte() & 1) != 0) e.gex_flags |= f;
    if (in.byte() % 8 == 0) e.gex_flags ^= in.take<std::uint32_t>();
  } else {
    e.gex_flags = GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQREP;
  }
  return e;
}

// As the specification says, but for its index.
bool allowed(const gex_AM_Entry_t& e) {
  const bool shorts = (e.gex_flags & GEX_FLAG_AM_SHORT) != 0;
  const bool payload = (e.gex_flags & (GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_LONG)) != 0;
  const bool used = (e.gex_flags & (GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_REPLY)) != 0;
  const gex_Flags_t known = GEX_FLAG_AM_SHORT | GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_LONG |
                            GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_REPLY;
  return e.gex_fnptr != nullptr && e.gex_nargs <= gex_AM_MaxArgs() && shorts != payload && used &&
         (e.gex_flags & ~known) == 0;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  fuzz::input in(data, bytes);
  taken_indexes taken;
  std::set<unsigned> used;
  while (!in.empty()) {  // tables, one after the other
    std::vector<gex_AM_Entry_t> table(in.byte() % 150u);
    for (gex_AM_Entry_t& e : table) e = entry(in);
    const std::vector<gex_AM_Entry_t> before = table;
    std::set<unsigned> asked = used;
    bool good = true;
    for (const gex_AM_Entry_t& e : before) {
      good = good && allowed(e);
      if (e.gex_index != 0)
        good = good && e.gex_index >= GEX_AM_INDEX_BASE && asked.insert(e.gex_index).second;
    }
    std::size_t free = 256 - GEX_AM_INDEX_BASE - asked.size();
    for (const gex_AM_Entry_t& e : before)
      if (e.gex_index == 0) good = good && free-- != 0;
    const auto wrong = place_entries(table, taken);
    FUZZ_CHECK(good == !wrong);
    if (wrong) FUZZ_CHECK(wrong->at < table.size() && wrong->why != nullptr);
    for (std::size_t i = 0; i < table.size(); ++i) {
      const unsigned index = table[i].gex_index;
      if (wrong || before[i].gex_index != 0) FUZZ_CHECK(index == before[i].gex_index);
      if (wrong) continue;
      FUZZ_CHECK(index >= GEX_AM_INDEX_BASE && used.insert(index).second);
      taken.set(index);
    }
  }
  return 0;
}
