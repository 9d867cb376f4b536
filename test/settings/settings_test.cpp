// The promises of the table of settings: names, units, ranges, precedence, and the line that a
// mistake gets.
#include "lib/base/settings.hpp"

#include <doctest/doctest.h>

#include <stdlib.h>
#include <unistd.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "lib/base/setting_files.hpp"
#include "lib/base/settings_table.hpp"

using namespace penstock;

namespace {

result<settings> read(std::initializer_list<const char*> environment,
                      std::initializer_list<setting_override> overrides = {}) {
  return read_settings(std::span(overrides.begin(), overrides.size()),
                       std::span(environment.begin(), environment.size()), "");
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

// A folder with files of settings: the system's, the user's in its home, and another one.
class files {
 public:
  files() {
    char name[] = "/tmp/penstock-settings.XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    folder_ = name;
    std::filesystem::create_directories(folder_ + "/home/.config");
  }
  ~files() { std::filesystem::remove_all(folder_); }
  files(const files&) = delete;
  files& operator=(const files&) = delete;

  files& system(const std::string& text) { return write(system_path(), text); }
  files& user(const std::string& text) { return write(user_path(), text); }
  files& named(const std::string& text) { return write(named_path(), text); }
  [[nodiscard]] std::string system_path() const { return folder_ + "/system.conf"; }
  [[nodiscard]] std::string user_path() const { return folder_ + "/home/.config/penstock.conf"; }
  [[nodiscard]] std::string named_path() const { return folder_ + "/named.conf"; }

  [[nodiscard]] result<settings> read(
      std::vector<std::string> environment,
      std::initializer_list<setting_override> overrides = {}) const {
    environment.push_back("HOME=" + folder_ + "/home");
    std::vector<const char*> all;
    for (const std::string& e : environment) all.push_back(e.c_str());
    return read_settings(std::span(overrides.begin(), overrides.size()), all, system_path());
  }
  [[nodiscard]] std::string message(std::vector<std::string> environment = {}) const {
    const auto r = read(std::move(environment));
    return r ? "no failure" : r.error().message();
  }

 private:
  files& write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
    return *this;
  }
  std::string folder_;
};

}  // namespace

TEST_CASE("the environment stands above the named file, this above the user's and the system's") {
  files f;
  f.system("AM_LIMIT = 1\nSAFE_LIMIT = 1\nSYS_LIMIT = 1\nPOLL_MASK = 1\n");
  f.user("AM_LIMIT = 2\nSAFE_LIMIT = 2\nSYS_LIMIT = 2\n");
  f.named("# a comment\n\n  AM_LIMIT=3  \nSAFE_LIMIT\t=\t3\r\n");
  const auto s = f.read({"PENSTOCK_CONFIG=" + f.named_path(), "GASNET_PORTAL_AM_LIMIT=4"});
  REQUIRE(s);
  CHECK(s->am_limit == 4);
  CHECK(s->safe_limit == 3);
  CHECK(s->sys_limit == 2);
  CHECK(s->poll_mask == 1);
  CHECK(source_of(*s, "AM_LIMIT") == "GASNET_PORTAL_AM_LIMIT");
  CHECK(source_of(*s, "SAFE_LIMIT") == f.named_path() + ":4");
  CHECK(source_of(*s, "SYS_LIMIT") == f.user_path() + ":3");
  CHECK(source_of(*s, "POLL_MASK") == f.system_path() + ":4");
  CHECK(s->files == std::vector{f.system_path(), f.user_path(), f.named_path()});
  const auto above = f.read({}, {{"SYS_LIMIT", "7"}, {"CONFIG", f.named_path()}});
  REQUIRE(above);
  CHECK(above->sys_limit == 7);
  CHECK(above->safe_limit == 3);
}

TEST_CASE("files that are absent are no fault, but the one that is asked for by name") {
  files f;
  REQUIRE(f.read({}));
  CHECK(f.read({})->files.empty());
  CHECK(contains(f.message({"PENSTOCK_CONFIG=" + f.named_path()}),
                 "PENSTOCK_CONFIG: the settings file"));
  CHECK(contains(f.message({"PENSTOCK_CONFIG=" + f.named_path()}), "No such file"));
  CHECK(contains(f.message({"PENSTOCK_CONFIG=/tmp"}), "Is a directory"));
  f.user("AM_LIMIT = 2\n");
  CHECK(f.read({})->am_limit == 2);
  CHECK(f.read({"PENSTOCK_CONFIG=none"})->am_limit == 8);
  CHECK(f.read({"PENSTOCK_CONFIG=auto"})->am_limit == 2);
}

TEST_CASE("the user's file is read with a warning if it belongs to another user") {
  files f;
  f.system("AM_LIMIT = 1\n"), f.user("AM_LIMIT = 2\n"), f.named("AM_LIMIT = 3\n");
  const std::string home = f.user_path().substr(0, f.user_path().find("/.config"));
  const std::string named = f.named_path();
  setting_places at{.config = named, .xdg_home = "", .home = home, .system = f.system_path()};
  const auto own = read_setting_files(at);
  REQUIRE(own);
  CHECK(own->warnings.empty());
  at.user = ::geteuid() + 1;
  const auto another = read_setting_files(at);
  REQUIRE(another);
  CHECK(another->lines.size() == 3);
  REQUIRE(another->warnings.size() == 1);
  CHECK(
      contains(another->warnings[0], ("the settings file " + f.user_path() + " is read").c_str()));
  CHECK(contains(another->warnings[0],
                 ("belongs to user " + std::to_string(::geteuid()) + " ").c_str()));
}

TEST_CASE("XDG_CONFIG_HOME moves the user's file, if it is an absolute path") {
  files f, other;
  f.user("AM_LIMIT = 2\n");
  other.user("AM_LIMIT = 3\n");
  const std::string there = other.user_path().substr(0, other.user_path().rfind('/'));
  CHECK(f.read({"XDG_CONFIG_HOME=" + there})->am_limit == 3);
  CHECK(f.read({"XDG_CONFIG_HOME=.config"})->am_limit == 2);
}

TEST_CASE("a file takes every name and value that the environment takes") {
  files f;
  f.user(
      "PENSTOCK_AM_LIMIT = 5\nGASNET_PORTAL_PUTGET_BOUNCE_LIMIT = 1 KB\nWAIT_MODE = Block\n"
      "RSH = ssh -x -o A=b\nPHYSMEM_MAX = 1G/P\n");
  const auto s = f.read({"PENSTOCK_PHYSMEM_MAX=0.5"});
  REQUIRE(s);
  CHECK(s->am_limit == 5);
  CHECK(s->put_bounce_limit == 1024);
  CHECK(s->get_bounce_limit == 1024);
  CHECK(s->wait == wait_mode::block);
  CHECK(s->rsh == "ssh -x -o A=b");
  CHECK(s->physmem_max.share == 0.5);
  CHECK_FALSE(s->physmem_max.each);  // the file's /P is of the file's value
}

TEST_CASE("a mistake in a file is named with the file and the line") {
  for (const auto& [text, said] :
       {std::pair{"AM_LIMIT = many\n", ":1: AM_LIMIT=many is not valid; allowed"},
        {"\n\nAM_LIMIT\n", ":3: \"AM_LIMIT\" is not a setting; a line is"},
        {"AM_LIMIT =\n", ":1: \"AM_LIMIT =\" is not a setting"},
        {"= 3\n", ":1: \"= 3\" is not a setting"},
        {"CONFIG = x\n", ":1: a file of settings cannot name another one"}}) {
    files f;
    f.user(text);
    CHECK(contains(f.message(), (f.user_path() + said).c_str()));
    CHECK(contains(f.message({"PENSTOCK_AM_LIMIT=3"}), (f.user_path() + said).c_str()));
  }
  files f;
  f.named(std::string(5000, 'A'));
  CHECK(contains(f.message({"PENSTOCK_CONFIG=" + f.named_path()}), ":1: the line has more than"));
  CHECK(contains(f.message({"PENSTOCK_CONFIG=/dev/zero"}), "/dev/zero:1: the line has more than"));
  f.user("LAUNCH = 1\nAM_LIMT = 4\n");  // these are told, and do not stop the program
  CHECK(f.read({}));
}

TEST_CASE("an empty environment gives the documented defaults") {
  const auto s = read({});
  REQUIRE(s);
  CHECK(s->safe_limit == 12);
  CHECK(s->am_limit == 8);
  CHECK(s->sys_limit == 0);
  CHECK(s->max_cred_per_node == 0);
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
  CHECK(s->max_segment.bytes == 3ull << 29);
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
  CHECK(s->physmem_max.of(800, 1) == 500);
  CHECK(s->pinnable(800, 1) == 500);
  s = read({"GASNET_PHYSMEM_PINNABLE_RATIO=0.5"});
  REQUIRE(s);
  CHECK(s->pinnable(800, 1) == 400);
  s = read({"GASNET_PHYSMEM_PINNABLE_RATIO=0.5", "GASNET_PHYSMEM_MAX=5/8"});
  REQUIRE(s);
  CHECK(s->pinnable(800, 1) == 400);
  s = read({"GASNET_PHYSMEM_PINNABLE_RATIO=0.9", "GASNET_PHYSMEM_MAX=5/8"});
  REQUIRE(s);
  CHECK(s->pinnable(800, 1) == 500);
  CHECK(settings().pinnable(1000, 1) == 800);
  s = read({"GASNET_PHYSMEM_MAX=2G"});
  REQUIRE(s);
  CHECK(s->physmem_max.of(800, 1) == 2ull << 30);
}

TEST_CASE("sizes are read as the users of GASNet write them") {
  // from published job scripts
  auto s = read({"GASNET_MAX_SEGSIZE=0.45/H", "GASNET_PHYSMEM_MAX=40 GB"});
  REQUIRE(s);
  CHECK(s->max_segment.of_each(1000, 2) == 225);
  CHECK(s->physmem_max.of(1, 28) == 40ull << 30);
  s = read({"GASNET_MAX_SEGSIZE=1000MB/P", "GASNET_PHYSMEM_MAX=1/2"});
  REQUIRE(s);
  CHECK(s->max_segment.of_each(1, 28) == 1000ull << 20);
  CHECK(s->physmem_max.of_each(1000, 4) == 125);
  s = read({"GASNET_MAX_SEGSIZE=0.25", "GASNET_PHYSMEM_MAX=8 gib/p"});
  REQUIRE(s);
  CHECK(s->max_segment.of_each(1000, 2) == 250);  // and not "no limit"
  CHECK(s->physmem_max.of(1, 3) == 24ull << 30);
  s = read({"GASNET_MAX_SEGSIZE=0MB/P", "PENSTOCK_AMRECV_SPACE=16 MB"});
  REQUIRE(s);
  CHECK(s->max_segment.of_each(1000, 2) == 0);
  CHECK(s->amrecv_space == 16 << 20);
  for (const char* bad :
       {"GASNET_MAX_SEGSIZE=1/0", "GASNET_MAX_SEGSIZE=3/2", "GASNET_MAX_SEGSIZE=4G/Q",
        "GASNET_MAX_SEGSIZE=16", "GASNET_MAX_SEGSIZE=0.5G/2", "GASNET_PHYSMEM_MAX=5/0",
        "GASNET_PHYSMEM_MAX=-1G", "PENSTOCK_AMRECV_SPACE=0.25",
        "PENSTOCK_COUNTERS_INTERVAL=1e-12"}) {
    CAPTURE(bad);
    CHECK_FALSE(read({bad}));
  }
}

TEST_CASE("each name of another conduit sets what it means there") {
  const auto s =
      read({"GASNET_QP_RETRY_COUNT=3", "GASNET_QP_RD_ATOM=4", "GASNET_MAX_MTU=-1",
            "GASNET_IBV_PKEY=0x8001", "GASNET_INLINESEND_LIMIT=-1", "GASNET_NETWORKDEPTH_PP=24",
            "GASNET_AM_CREDITS_PP=12", "GASNET_AM_CREDITS_TOTAL=256", "GASNET_RBUF_COUNT=1024",
            "GASNET_BBUF_COUNT=1024", "GASNET_NONBULKPUT_BOUNCE_LIMIT=64K",
            "GASNET_CONNECT_STATIC=1", "GASNET_PINNED_REGIONS_MAX=0.95", "GASNET_USE_HUGEPAGES=0",
            "GASNET_MAX_THREADS=256", "GASNET_THREAD_STACK_MIN=4M", "GASNET_PSHM_BARRIER_HIER=0"});
  REQUIRE(s);
  CHECK(s->retry_count == 3);
  CHECK(s->rd_atom == 4);
  CHECK(s->mtu == -1);
  CHECK(s->pkey == 0x8001);
  CHECK(s->inline_limit == -1);
  CHECK(s->op_oust_pp == 24);
  CHECK(s->am_oust_pp == 12);
  CHECK(s->am_oust_limit == 256);
  CHECK(s->rbuf_count == 1024);
  CHECK(s->sb_chunks == 1024);
  CHECK(s->put_bounce_limit == 65536);
  CHECK(s->connect_static);
  CHECK(s->pinned_regions.of_each(1000, 1) == 950);
  CHECK_FALSE(s->huge_pages);
  CHECK(s->max_threads == 256);
  CHECK(s->thread_stack == 4 << 20);
  CHECK_FALSE(s->barrier_shm);
  CHECK(read({"GASNET_PINNED_REGIONS_MAX=497830"})->pinned_regions.of_each(1, 1) == 497830);
  CHECK(read({"GASNET_BARRIER=IBDISSEM"})->barrier == barrier_kind::put_dissemination);
}

TEST_CASE("a name of GASNet that is nearly right finds the right one") {
  CHECK(nearest_setting("GASNET_PHYSMEM_MX") == "GASNET_PHYSMEM_MAX");
  CHECK(nearest_setting("GASNET_PORTAL_EPOCH_DURATON") == "GASNET_PORTAL_EPOCH_DURATION");
  CHECK(nearest_setting("GASNET_BACKTRAC") == "GASNET_BACKTRACE");
  CHECK(nearest_setting("GASNET_SOMETHING_ELSE") == "");
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
  CHECK(contains(message({"PENSTOCK_MAX_SEGSIZE=1X"}), "K, M, G or T"));
  CHECK(contains(message({"PENSTOCK_AMRECV_SPACE=1X"}), "bytes"));
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
  CHECK(contains(message({}, {{"PENSTOCK_XYZZY", "1"}}), "peninfo --settings --all"));
}

TEST_CASE("an unknown environment name only warns") { CHECK(read({"PENSTOCK_SAVE_LIMIT=1"})); }

TEST_CASE("every row prints its default and reads it back") {
  settings s;
  for (const auto& row : settings_table()) {
    CAPTURE(row.name);
    const std::string text = format_setting(row, s);
    if (row.has(of_launchers)) continue;
    settings back;
    CHECK(parse_setting(row, row.name, text, back));
    CHECK(format_setting(row, back) == text);
  }
}

TEST_CASE("each name that has a level is a setting's, and has it once") {
  for (const auto level : {setting_level::user, setting_level::operators})
    for (const std::string_view name : settings_with_level(level)) {
      CAPTURE(name);
      int rows = 0;
      for (const auto& row : settings_table())
        if (row.name == name) {
          ++rows;
          CHECK(level_of(row) == level);
          CHECK_FALSE(row.has(of_launchers));
        }
      CHECK(rows == 1);
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

TEST_CASE(
    "every setting of other conduits is in the table or in the list of those without meaning") {
  const char* seeds[] = {
      "GASNET_AM_DOMAIN_POLL_MASK", "GASNET_AM_OUST_LIMIT", "GASNET_AM_OUST_PP", "GASNET_AM_SPARES",
      "GASNET_BARRIER", "GASNET_DOMAIN_COUNT", "GASNET_EXITTIMEOUT", "GASNET_EXITTIMEOUT_FACTOR",
      "GASNET_EXITTIMEOUT_MAX", "GASNET_EXITTIMEOUT_MIN", "GASNET_FIREHOSE_M",
      "GASNET_FIREHOSE_MAXREGION_SIZE", "GASNET_FIREHOSE_MAXVICTIM_M",
      "GASNET_FIREHOSE_MAXVICTIM_R", "GASNET_FIREHOSE_R", "GASNET_FIREHOSE_VERBOSE",
      "GASNET_GNI_AMPOLL_BURST", "GASNET_GNI_AM_MEMORY_REPORT", "GASNET_GNI_AM_RVOUS_BUFFERS",
      "GASNET_GNI_AM_RVOUS_CUTOVER", "GASNET_GNI_BOUNCE_SIZE", "GASNET_GNI_BTE_MULTI_CHANNEL",
      "GASNET_GNI_CE_RADIX", "GASNET_GNI_FMA_SHARING", "GASNET_GNI_GET_BOUNCE_REGISTER_CUTOVER",
      "GASNET_GNI_GET_FMA_RDMA_CUTOVER", "GASNET_GNI_MDD_SHARING", "GASNET_GNI_MEMREG",
      "GASNET_GNI_MEM_CONSISTENCY", "GASNET_GNI_NUM_PD", "GASNET_GNI_PACKEDLONG_CUTOVER",
      "GASNET_GNI_PTHREADS_PER_DOMAIN", "GASNET_GNI_PUT_BOUNCE_REGISTER_CUTOVER",
      "GASNET_GNI_PUT_FMA_RDMA_CUTOVER", "GASNET_HCA_ID", "GASNET_LONG_DEPTH", "GASNET_MAX_SEGSIZE",
      "GASNET_NETWORKDEPTH", "GASNET_NETWORKDEPTH_SPACE", "GASNET_NETWORKDEPTH_TOTAL",
      "GASNET_OP_OUST_LIMIT", "GASNET_OP_OUST_PP", "GASNET_PHYSMEM_MAX",
      "GASNET_PHYSMEM_PINNABLE_RATIO", "GASNET_PORTAL_ACCEL", "GASNET_PORTAL_AMRECV_SPACE",
      "GASNET_PORTAL_AM_LIMIT", "GASNET_PORTAL_BANKED_CREDITS", "GASNET_PORTAL_CREDIT_STATS",
      "GASNET_PORTAL_CRED_PER_NODE", "GASNET_PORTAL_DYNAMIC_CREDITS",
      "GASNET_PORTAL_EPOCH_DURATION", "GASNET_PORTAL_FLOW_CONTROL",
      "GASNET_PORTAL_GET_BOUNCE_LIMIT", "GASNET_PORTAL_MAX_CRED_PER_NODE",
      "GASNET_PORTAL_MSG_LIMIT", "GASNET_PORTAL_NUM_TMPMD", "GASNET_PORTAL_PACKED_LONG",
      "GASNET_PORTAL_PUTGET_BOUNCE_LIMIT", "GASNET_PORTAL_PUT_BOUNCE_LIMIT",
      "GASNET_PORTAL_RPL_CHUNKS", "GASNET_PORTAL_SAFE_LIMIT", "GASNET_PORTAL_SB_CHUNKS",
      "GASNET_PORTAL_SYS_LIMIT", "GASNET_PORT_NUM", "GASNET_USE_CE", "GASNET_USE_CE_PSHM",
      "GASNET_USE_FIREHOSE", "GASNET_USE_UDREG", "PMIRUN_CMD",
      // what the conduits on verbs, and all others, take
      "GASNET_AMRDMA_CYCLE", "GASNET_AMRDMA_DEPTH", "GASNET_AMRDMA_LIMIT",
      "GASNET_AMRDMA_MAX_PEERS", "GASNET_AM_CREDITS_PP", "GASNET_AM_CREDITS_SLACK",
      "GASNET_AM_CREDITS_TOTAL", "GASNET_AM_GATHER_MIN", "GASNET_BBUF_COUNT", "GASNET_CATCH_EXIT",
      "GASNET_COLL_ENABLE_SEARCH", "GASNET_COLL_SCRATCH_SIZE", "GASNET_COLL_TUNING_FILE",
      "GASNET_CONNECTFILE_BASE", "GASNET_CONNECTFILE_IN", "GASNET_CONNECTFILE_OUT",
      "GASNET_CONNECT_DYNAMIC", "GASNET_CONNECT_RCVS", "GASNET_CONNECT_RETRANS_MAX",
      "GASNET_CONNECT_RETRANS_MIN", "GASNET_CONNECT_SNDS", "GASNET_CONNECT_STATIC",
      "GASNET_DISABLE_MUNMAP", "GASNET_FS_SYNC", "GASNET_HOST_DETECT", "GASNET_IBV_PKEY",
      "GASNET_IBV_PORTS", "GASNET_IBV_PORTS_TYPE", "GASNET_IBV_PORTS_VERBOSE", "GASNET_IBV_SPAWNER",
      "GASNET_INLINESEND_LIMIT", "GASNET_MAX_MTU", "GASNET_MAX_THREADS", "GASNET_NETWORKDEPTH_PP",
      "GASNET_NODEMAP_EXACT", "GASNET_NONBULKPUT_BOUNCE_LIMIT", "GASNET_NO_CATCH_SIGNAL",
      "GASNET_NUM_QPS", "GASNET_ODP_VERBOSE", "GASNET_PACKEDLONG_LIMIT", "GASNET_PHYSMEM_PROBE",
      "GASNET_PHYSMEM_WARN", "GASNET_PINNED_REGIONS_MAX", "GASNET_PIN_MAXSZ",
      "GASNET_PSHM_BARRIER_HIER", "GASNET_PSHM_BARRIER_RADIX", "GASNET_PSHM_NETWORK_DEPTH",
      "GASNET_PUTINMOVE_LIMIT", "GASNET_QP_RD_ATOM", "GASNET_QP_RETRY_COUNT", "GASNET_QP_TIMEOUT",
      "GASNET_RBUF_COUNT", "GASNET_RCV_THREAD", "GASNET_RCV_THREAD_POLL_MODE",
      "GASNET_RCV_THREAD_RATE", "GASNET_SND_THREAD", "GASNET_SPAWN_VERBOSE", "GASNET_STATSFILE",
      "GASNET_STATSMASK", "GASNET_SUPERNODE_MAXSIZE", "GASNET_THREAD_STACK_MIN",
      "GASNET_THREAD_STACK_PAD", "GASNET_TMPDIR", "GASNET_TRACEFILE", "GASNET_TRACEMASK",
      "GASNET_USE_FENCED_PUTS", "GASNET_USE_HUGEPAGES", "GASNET_USE_ODP",
      "GASNET_USE_PSHM_SINGLETON", "GASNET_USE_SRQ", "GASNET_USE_XRC", "GASNET_VERBOSEENV",
      "GASNET_VIS_AMPIPE", "GASNET_VIS_MAXCHUNK", "GASNET_VIS_REMOTECONTIG"};
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
