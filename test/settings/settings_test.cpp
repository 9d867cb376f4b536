// The promises of the table of settings: names, units, ranges, precedence, and the line that a
// mistake gets.
#include "lib/base/settings.hpp"

#include <doctest/doctest.h>

#include <cctype>
#include <initializer_list>
#include <set>

#include "lib/base/settings_table.hpp"

using namespace penstock;

namespace {

result<settings> read(std::initializer_list<const char*> environment,
                      std::initializer_list<setting_override> overrides = {}) {
  return read_settings(std::span(overrides.begin(), overrides.size()),
                       std::span(environment.begin(), environment.size()));
}

std::string message(std::initializer_list<const char*> environment,
                    std::initializer_list<setting_override> overrides = {}) {
  const auto r = read(environment, overrides);
  return r ? "no failure" : r.error().message();
}

bool contains(const std::string& text, const char* part) { return text.find(part) != text.npos; }

std::string source_of(const settings& s, std::string_view name) {
  const auto rows = settings_table();
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (name == rows[i].name) return s.sources[i];
  return "no such row";
}

}  // namespace

TEST_CASE("an empty environment gives the documented defaults") {
  const auto s = read({});
  REQUIRE(s);
  CHECK(s->safe_limit == 12);
  CHECK(s->am_limit == 8);
  CHECK(s->sys_limit == 0);
  CHECK(s->max_cred_per_node == 400);
  CHECK(s->epoch_duration == 1024);
  CHECK(s->op_oust_pp == 64);
  CHECK(s->poll_mask == 255);
  CHECK(s->firehose_maxregion_size == 128 * 1024);
  CHECK(source_of(*s, "SAFE_LIMIT") == "default");
}

TEST_CASE("a seed's name and the uniform name set the same member, the uniform one first") {
  auto s = read({"GASNET_PORTAL_SAFE_LIMIT=7"});
  REQUIRE(s);
  CHECK(s->safe_limit == 7);
  CHECK(source_of(*s, "SAFE_LIMIT") == "GASNET_PORTAL_SAFE_LIMIT");
  s = read({"GASNET_PORTAL_SAFE_LIMIT=7", "PENSTOCK_SAFE_LIMIT=9"});
  REQUIRE(s);
  CHECK(s->safe_limit == 9);
  CHECK(source_of(*s, "SAFE_LIMIT") == "PENSTOCK_SAFE_LIMIT");
}

TEST_CASE("an override stands above the environment") {
  const auto s = read({"PENSTOCK_SAFE_LIMIT=9"}, {{"SAFE_LIMIT", "3"}});
  REQUIRE(s);
  CHECK(s->safe_limit == 3);
  CHECK(source_of(*s, "SAFE_LIMIT") == "override");
}

TEST_CASE("the name shared by put and get sets both, and each own name wins over it") {
  const auto s =
      read({"GASNET_PORTAL_PUTGET_BOUNCE_LIMIT=1K", "GASNET_PORTAL_GET_BOUNCE_LIMIT=512"});
  REQUIRE(s);
  CHECK(s->put_bounce_limit == 1024);
  CHECK(s->get_bounce_limit == 512);
}

TEST_CASE("sizes take suffixes, and firehose sizes without one are megabytes") {
  const auto s = read({"PENSTOCK_MAX_SEGSIZE=1.5G", "PENSTOCK_AMRECV_SPACE=64KiB",
                       "GASNET_FIREHOSE_MAXVICTIM_M=3", "GASNET_FIREHOSE_MAXREGION_SIZE=256k"});
  REQUIRE(s);
  CHECK(s->max_segment == 3ull << 29);
  CHECK(s->amrecv_space == 65536);
  CHECK(s->firehose_maxvictim_m == 3 << 20);
  CHECK(s->firehose_maxregion_size == 256 << 10);
}

TEST_CASE("plain numbers may be hexadecimal") {
  CHECK(read({"PENSTOCK_PKEY=0x8001"})->pkey == 0x8001);
  CHECK(read({"PENSTOCK_FLOW_LABEL=0xFFFFF"})->flow_label == 0xfffff);
  CHECK_FALSE(read({"PENSTOCK_PKEY=0x10000"}));
  CHECK_FALSE(read({"PENSTOCK_PKEY=0x"}));
  CHECK_FALSE(read({"PENSTOCK_PKEY=0x8001z"}));
}

TEST_CASE("durations take suffixes and have a unit of their own without") {
  const auto s = read(
      {"GASNET_EXITTIMEOUT=2.5", "PENSTOCK_PROGRESS_INTERVAL=7", "PENSTOCK_CONNECT_TIMEOUT=250ms"});
  REQUIRE(s);
  CHECK(s->exit_timeout_ns == 2'500'000'000);
  CHECK(s->progress_interval_ns == 7'000);
  CHECK(s->connect_timeout_ns == 250'000'000);
}

TEST_CASE("the limit of pinned memory is a share, a fraction or a size") {
  auto s = read({"GASNET_PHYSMEM_MAX=5/8"});
  REQUIRE(s);
  CHECK(s->physmem_max.of(800) == 500);
  s = read({"GASNET_PHYSMEM_PINNABLE_RATIO=0.5"});
  REQUIRE(s);
  CHECK(s->physmem_max.of(800) == 400);
  s = read({"GASNET_PHYSMEM_MAX=2G"});
  REQUIRE(s);
  CHECK(s->physmem_max.of(800) == 2ull << 30);
}

TEST_CASE("yes and no have many spellings, and choices do not mind capitals") {
  const auto s = read({"PENSTOCK_DIRECT=False", "PENSTOCK_MEMORY_REPORT=y",
                       "GASNET_BARRIER=RDMADISSEM", "PENSTOCK_WAIT_MODE=Block"});
  REQUIRE(s);
  CHECK_FALSE(s->direct);
  CHECK(s->memory_report);
  CHECK(s->barrier == barrier_kind::put_dissemination);
  CHECK(s->wait == wait_mode::block);
}

TEST_CASE("a value that is not valid is refused in one line with name, value and range") {
  for (const char* bad :
       {"PENSTOCK_SAFE_LIMIT=many", "PENSTOCK_SAFE_LIMIT=-1", "PENSTOCK_SAFE_LIMIT=1.5",
        "PENSTOCK_SAFE_LIMIT=99999999", "PENSTOCK_SAFE_LIMIT=12K", "PENSTOCK_SAFE_LIMIT=nan",
        "PENSTOCK_SAFE_LIMIT=12 "}) {
    const std::string m = message({bad});
    CAPTURE(m);
    CHECK(contains(m, bad));
    CHECK(contains(m, "0 to 65536"));
    CHECK(m.find('\n') == m.npos);
  }
  CHECK(contains(message({"GASNET_BARRIER=quick"}), "auto, dissem, rdmadissem"));
  CHECK(contains(message({"PENSTOCK_DIRECT=maybe"}), "yes or no"));
  CHECK(contains(message({"GASNET_PHYSMEM_MAX=9/8"}), "share below 1"));
  CHECK(contains(message({"GASNET_PHYSMEM_MAX=0"}), "share below 1"));
  CHECK(contains(message({"PENSTOCK_MAX_SEGSIZE=1X"}), "bytes"));
}

TEST_CASE("where 0 means the table's number, the range says so") {
  CHECK(read({"PENSTOCK_CRED_PER_NODE=0"}));
  CHECK(read({"PENSTOCK_CRED_PER_NODE=4"}));
  CHECK(contains(message({"PENSTOCK_CRED_PER_NODE=3"}), "0, or 4 to 65535"));
}

TEST_CASE("settings that differ in a job are named with all values and ranks") {
  settings usual, other;
  other.barrier = barrier_kind::tree;
  other.coll_small = 4096;
  const common_settings a = common_settings_of(usual), b = common_settings_of(other);
  const common_settings equal[] = {a, a}, ranks[] = {a, b, a, a};
  CHECK(settings_that_differ(equal) == "");
  CHECK(settings_that_differ(ranks) ==
        "PENSTOCK_BARRIER differs: auto at ranks 0, 2 to 3, tree at rank 1; "
        "PENSTOCK_COLL_SMALL differs: 2K at ranks 0, 2 to 3, 4K at rank 1");
}

TEST_CASE("a name set to nothing counts as not set") {
  const auto s = read({"PENSTOCK_SAFE_LIMIT="});
  REQUIRE(s);
  CHECK(s->safe_limit == 12);
}

TEST_CASE("an unknown override is refused with the nearest name") {
  CHECK(contains(message({}, {{"SAVE_LIMIT", "1"}}), "did you mean PENSTOCK_SAFE_LIMIT?"));
  CHECK(contains(message({}, {{"PENSTOCK_XYZZY", "1"}}), "peninfo --settings"));
}

TEST_CASE("an unknown environment name only warns") { CHECK(read({"PENSTOCK_SAVE_LIMIT=1"})); }

TEST_CASE("every row prints its default and reads it back") {
  settings s;
  for (const auto& row : settings_table()) {
    CAPTURE(row.name);
    const std::string text = format_setting(row, s);
    if (row.scope == setting_scope::launcher) continue;
    settings back;
    CHECK(parse_setting(row, row.name, text, back));
    CHECK(format_setting(row, back) == text);
  }
}

TEST_CASE("every row has help in whole sentences, and no uniform name occurs twice") {
  std::set<std::string> names;
  for (const auto& row : settings_table()) {
    CAPTURE(row.name);
    const std::string help = row.help;
    CHECK(help.size() > 20);
    CHECK(help.ends_with('.'));
    // A sentence begins with a capital letter, or with a value or a program that it speaks of.
    CHECK((std::isupper(static_cast<unsigned char>(help[0])) || help.starts_with("yes ") ||
           help.starts_with("shm0 ") || help.starts_with("penrun ")));
    CHECK(help.find("so many") == help.npos);
    CHECK(names.insert(row.name).second);
  }
}

TEST_CASE("every setting of the seeds is in the table or in the list of those without meaning") {
  const char* seeds[] = {"GASNET_AM_DOMAIN_POLL_MASK",
                         "GASNET_AM_OUST_LIMIT",
                         "GASNET_AM_OUST_PP",
                         "GASNET_AM_SPARES",
                         "GASNET_BARRIER",
                         "GASNET_DOMAIN_COUNT",
                         "GASNET_EXITTIMEOUT",
                         "GASNET_EXITTIMEOUT_FACTOR",
                         "GASNET_EXITTIMEOUT_MAX",
                         "GASNET_EXITTIMEOUT_MIN",
                         "GASNET_FIREHOSE_M",
                         "GASNET_FIREHOSE_MAXREGION_SIZE",
                         "GASNET_FIREHOSE_MAXVICTIM_M",
                         "GASNET_FIREHOSE_MAXVICTIM_R",
                         "GASNET_FIREHOSE_R",
                         "GASNET_FIREHOSE_VERBOSE",
                         "GASNET_GNI_AMPOLL_BURST",
                         "GASNET_GNI_AM_MEMORY_REPORT",
                         "GASNET_GNI_AM_RVOUS_BUFFERS",
                         "GASNET_GNI_AM_RVOUS_CUTOVER",
                         "GASNET_GNI_BOUNCE_SIZE",
                         "GASNET_GNI_BTE_MULTI_CHANNEL",
                         "GASNET_GNI_CE_RADIX",
                         "GASNET_GNI_FMA_SHARING",
                         "GASNET_GNI_GET_BOUNCE_REGISTER_CUTOVER",
                         "GASNET_GNI_GET_FMA_RDMA_CUTOVER",
                         "GASNET_GNI_MDD_SHARING",
                         "GASNET_GNI_MEMREG",
                         "GASNET_GNI_MEM_CONSISTENCY",
                         "GASNET_GNI_NUM_PD",
                         "GASNET_GNI_PACKEDLONG_CUTOVER",
                         "GASNET_GNI_PTHREADS_PER_DOMAIN",
                         "GASNET_GNI_PUT_BOUNCE_REGISTER_CUTOVER",
                         "GASNET_GNI_PUT_FMA_RDMA_CUTOVER",
                         "GASNET_HCA_ID",
                         "GASNET_LONG_DEPTH",
                         "GASNET_MAX_SEGSIZE",
                         "GASNET_NETWORKDEPTH",
                         "GASNET_NETWORKDEPTH_SPACE",
                         "GASNET_NETWORKDEPTH_TOTAL",
                         "GASNET_OP_OUST_LIMIT",
                         "GASNET_OP_OUST_PP",
                         "GASNET_PHYSMEM_MAX",
                         "GASNET_PHYSMEM_PINNABLE_RATIO",
                         "GASNET_PORTAL_ACCEL",
                         "GASNET_PORTAL_AMRECV_SPACE",
                         "GASNET_PORTAL_AM_LIMIT",
                         "GASNET_PORTAL_BANKED_CREDITS",
                         "GASNET_PORTAL_CREDIT_STATS",
                         "GASNET_PORTAL_CRED_PER_NODE",
                         "GASNET_PORTAL_DYNAMIC_CREDITS",
                         "GASNET_PORTAL_EPOCH_DURATION",
                         "GASNET_PORTAL_FLOW_CONTROL",
                         "GASNET_PORTAL_GET_BOUNCE_LIMIT",
                         "GASNET_PORTAL_MAX_CRED_PER_NODE",
                         "GASNET_PORTAL_MSG_LIMIT",
                         "GASNET_PORTAL_NUM_TMPMD",
                         "GASNET_PORTAL_PACKED_LONG",
                         "GASNET_PORTAL_PUTGET_BOUNCE_LIMIT",
                         "GASNET_PORTAL_PUT_BOUNCE_LIMIT",
                         "GASNET_PORTAL_RPL_CHUNKS",
                         "GASNET_PORTAL_SAFE_LIMIT",
                         "GASNET_PORTAL_SB_CHUNKS",
                         "GASNET_PORTAL_SYS_LIMIT",
                         "GASNET_PORT_NUM",
                         "GASNET_USE_CE",
                         "GASNET_USE_CE_PSHM",
                         "GASNET_USE_FIREHOSE",
                         "GASNET_USE_UDREG",
                         "PMIRUN_CMD"};
  std::set<std::string> known;
  for (const auto& row : settings_table()) {
    std::string_view rest = row.aliases;
    while (!rest.empty()) {
      const auto end = std::min(rest.find(' '), rest.size());
      known.emplace(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  for (const auto& gone : settings_not_applicable()) known.emplace(gone.name);
  for (const char* name : seeds) {
    CAPTURE(name);
    CHECK(known.contains(name));
  }
}
