// The choice of device, port and GID, tried on devices that do not exist: a table of calls that
// answers for two made-up machines.
#include "nic/choice.hpp"

#include <doctest/doctest.h>
#include <endian.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "lib/base/settings.hpp"

namespace penstock::nic {
namespace {

ibv_gid ipv4(std::uint8_t last) {
  ibv_gid g{};
  g.raw[10] = g.raw[11] = 0xff;
  g.raw[12] = 10, g.raw[15] = last;
  return g;
}
ibv_gid link_local(std::uint8_t last) {
  ibv_gid g{};
  g.raw[0] = 0xfe, g.raw[1] = 0x80, g.raw[15] = last;
  return g;
}
ibv_gid routable(std::uint8_t last) {
  ibv_gid g{};
  g.raw[0] = 0x20, g.raw[1] = 0x01, g.raw[15] = last;
  return g;
}

/// One made-up device.
struct made_up {
  ibv_device device{};
  ibv_context context{};
  std::vector<ibv_port_attr> ports;
  std::vector<std::pair<int, ibv_gid>> gids;
  std::vector<std::uint16_t> pkeys;
  int open_error = 0;
  int opened = 0, closed = 0;
};
std::vector<made_up*>& machine() {
  static std::vector<made_up*> m;
  return m;
}
made_up& of(const ibv_device* d) {
  for (made_up* m : machine())
    if (&m->device == d) return *m;
  std::abort();
}
made_up& of(const ibv_context* c) { return of(c->device); }

ibv_device** get_list(int* count) {
  *count = static_cast<int>(machine().size());
  auto** const list = new ibv_device*[machine().size() + 1]();
  for (std::size_t i = 0; i < machine().size(); ++i) list[i] = &machine()[i]->device;
  return list;
}
void free_list(ibv_device** list) { delete[] list; }
const char* name_of(ibv_device* d) { return d->name; }
ibv_context* open_it(ibv_device* d) {
  made_up& m = of(d);
  if (m.open_error != 0) {
    errno = m.open_error;
    return nullptr;
  }
  ++m.opened;
  m.context.device = d;
  return &m.context;
}
int close_it(ibv_context* c) { return ++of(c).closed, 0; }
int query_it(ibv_context* c, ibv_device_attr* a) {
  *a = {};
  a->phys_port_cnt = static_cast<std::uint8_t>(of(c).ports.size());
  return 0;
}
int query_port(ibv_context* c, std::uint8_t port, ibv_port_attr* a) {
  *a = of(c).ports.at(port - 1u);
  return 0;
}
int query_gid(ibv_context* c, std::uint8_t, int index, ibv_gid* gid) {
  *gid = {};
  for (const auto& [i, g] : of(c).gids)
    if (i == index) *gid = g;
  return 0;
}

int query_pkey(ibv_context* c, std::uint8_t, int index, __be16* key) {
  *key = htobe16(of(c).pkeys.at(static_cast<std::size_t>(index)));
  return 0;
}

/// The inline limit is looked for with these; a device without protection domains has none.
ibv_pd* no_pd(ibv_context*) { return nullptr; }

calls made_up_calls() {
  calls c{};
  c.library = "made up";
  c.get_device_list = get_list;
  c.free_device_list = free_list;
  c.get_device_name = name_of;
  c.open_device = open_it;
  c.close_device = close_it;
  c.query_device = query_it;
  c.query_port = query_port;
  c.query_gid = query_gid;
  c.query_pkey = query_pkey;
  c.alloc_pd = no_pd;
  return c;
}
const calls table = made_up_calls();

ibv_port_attr port(ibv_port_state state, std::uint8_t layer = IBV_LINK_LAYER_INFINIBAND) {
  ibv_port_attr a{};
  a.state = state;
  a.link_layer = layer;
  a.active_mtu = a.max_mtu = IBV_MTU_4096;
  a.gid_tbl_len = 4;
  a.lid = 17;
  return a;
}
made_up device_called(const char* name, std::vector<ibv_port_attr> ports) {
  made_up m;
  std::strcpy(m.device.name, name);
  m.device.transport_type = IBV_TRANSPORT_IB;
  m.ports = std::move(ports);
  return m;
}

result<device> open_with(std::vector<made_up*> devices, settings s = {}) {
  machine() = std::move(devices);
  const calls* const libraries[] = {&table};
  return open_device_of(libraries, s);
}
settings asking(std::string name) {
  settings s;
  s.device = std::move(name);
  return s;
}
/// What sysfs says of a device, in a folder that is removed at the end.
class sysfs_folder {
 public:
  explicit sysfs_folder(made_up& m) {
    char name[] = "/tmp/penstock-sysfs.XXXXXX";
    root_ = ::mkdtemp(name);
    std::filesystem::create_directories(root_ / "device");
    std::strcpy(m.device.ibdev_path, (root_ / "device").c_str());
  }
  ~sysfs_folder() { std::filesystem::remove_all(root_); }
  sysfs_folder(const sysfs_folder&) = delete;
  sysfs_folder& operator=(const sysfs_folder&) = delete;
  void write(const std::string& path, const std::string& text) const {
    const auto file = root_ / "device" / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  /// The PCI device behind it.
  void behind(const std::string& address) const {
    std::filesystem::create_directories(root_ / address);
    std::filesystem::create_symlink(root_ / address, root_ / "device" / "device");
  }

 private:
  std::filesystem::path root_;
};

bool says(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("auto takes the first device with an active port, and the port that is") {
  made_up down = device_called("dead0", {port(IBV_PORT_DOWN)});
  made_up second = device_called("ib1", {port(IBV_PORT_DOWN), port(IBV_PORT_ACTIVE)});
  made_up third = device_called("ib2", {port(IBV_PORT_ACTIVE)});
  {
    auto d = open_with({&down, &second, &third});
    REQUIRE(d);
    CHECK(d->name == "ib1");
    CHECK(d->self.port == 2);
    CHECK(d->self.lid == 17);
    CHECK(d->self.is_global == 0);
    CHECK(says(d->reason, "ib1 is the first usable device, port 2 is active"));
    CHECK(says(d->reason, "dead0 (port 1 is down)"));
    CHECK(down.closed == down.opened);
    CHECK(second.closed == 0);
  }
  CHECK(second.closed == 1);
}

TEST_CASE("a device and its port can be asked for by name") {
  made_up one = device_called("ib0", {port(IBV_PORT_ACTIVE)});
  made_up two = device_called("ib1", {port(IBV_PORT_ACTIVE), port(IBV_PORT_ACTIVE)});
  auto d = open_with({&one, &two}, asking("ib1:2"));
  REQUIRE(d);
  CHECK(d->name == "ib1");
  CHECK(d->self.port == 2);
  CHECK(says(d->reason, "ib1 as asked, port 2 as asked"));
  settings by_number = asking("ib1");
  by_number.port = 2;
  auto same = open_with({&one, &two}, by_number);
  REQUIRE(same);
  CHECK(same->self.port == 2);
}

TEST_CASE("a name that does not exist is answered with those that do") {
  made_up one = device_called("ib0", {port(IBV_PORT_ACTIVE)});
  made_up two = device_called("ib1", {port(IBV_PORT_ACTIVE)});
  auto d = open_with({&one, &two}, asking("mlx5_7"));
  REQUIRE_FALSE(d);
  CHECK(says(d.error().message(), "no device mlx5_7"));
  CHECK(says(d.error().message(), "ib0, ib1"));
  CHECK(one.opened == 0);
}

TEST_CASE("a port that is missing or down is an error that says so") {
  made_up one = device_called("ib0", {port(IBV_PORT_DOWN)});
  auto absent = open_with({&one}, asking("ib0:3"));
  REQUIRE_FALSE(absent);
  CHECK(says(absent.error().message(), "it has 1 port(s), not 3"));
  auto down = open_with({&one}, asking("ib0:1"));
  REQUIRE_FALSE(down);
  CHECK(says(down.error().message(), "port 1 is down"));
  CHECK(one.opened == one.closed);
}

TEST_CASE("what follows the colon must be a port number") {
  for (const char* text : {"ib0:", "ib0:x", "ib0:0", "ib0:256", "ib0:1x"}) {
    CAPTURE(text);
    auto d = open_with({}, asking(text));
    REQUIRE_FALSE(d);
    CHECK(says(d.error().message(), "NAME:PORT"));
  }
}

TEST_CASE("with nothing usable auto says what spoke against each device") {
  made_up closed = device_called("ib0", {port(IBV_PORT_ACTIVE)});
  closed.open_error = EACCES;
  made_up iwarp = device_called("iw0", {port(IBV_PORT_ACTIVE, IBV_LINK_LAYER_ETHERNET)});
  iwarp.device.transport_type = IBV_TRANSPORT_IWARP;
  auto d = open_with({&closed, &iwarp});
  REQUIRE_FALSE(d);
  CHECK(says(d.error().message(), "ib0 (it cannot be opened: Permission denied)"));
  CHECK(says(d.error().message(), "iw0 (iWARP"));
  auto nothing = open_with({});
  REQUIRE_FALSE(nothing);
  CHECK(says(nothing.error().message(), "there is: none"));
}

TEST_CASE(
    "an Ethernet port without a GID cannot be used, and a GID index that is empty is refused") {
  made_up bare = device_called("roce0", {port(IBV_PORT_ACTIVE, IBV_LINK_LAYER_ETHERNET)});
  auto d = open_with({&bare}, asking("roce0"));
  REQUIRE_FALSE(d);
  CHECK(says(d.error().message(), "has no GID"));
  bare.gids = {{0, link_local(1)}, {2, ipv4(5)}};
  settings s = asking("roce0");
  s.gid_index = 1;
  auto empty = open_with({&bare}, s);
  REQUIRE_FALSE(empty);
  CHECK(says(empty.error().message(), "no GID at index 1"));
  CHECK(says(empty.error().message(), "10.0.0.5"));
  s.gid_index = 2;
  auto good = open_with({&bare}, s);
  REQUIRE(good);
  CHECK(good->self.gid_index == 2);
  CHECK(good->self.is_global == 1);
}

TEST_CASE(
    "the best GID is RoCE v2 with an IPv4 address, then routable, then any v2, then the first") {
  const gid_row v1{0, ipv4(1), gid_kind::roce_v1};
  const gid_row local{1, link_local(1), gid_kind::roce_v2};
  const gid_row wide{2, routable(1), gid_kind::roce_v2};
  const gid_row mapped{3, ipv4(1), gid_kind::roce_v2};
  const auto best = [](std::vector<gid_row> rows) {
    const gid_row* const r = best_gid(rows);
    return r == nullptr ? -1 : r->index;
  };
  CHECK(best({v1, local, wide, mapped}) == 3);
  CHECK(best({v1, local, wide}) == 2);
  CHECK(best({v1, local}) == 1);
  CHECK(best({v1}) == 0);
  CHECK(best({}) == -1);
  const gid_row second{7, ipv4(2), gid_kind::roce_v2};
  CHECK(best({mapped, second}) == 3);
}

TEST_CASE("a path goes by LID within an InfiniBand subnet and with the GID between subnets") {
  device d;
  d.self.port = 1;
  d.self.gid.global.subnet_prefix = 1;
  address remote;
  remote.lid = 42;
  remote.gid.global.subnet_prefix = 1;
  ibv_ah_attr a = d.path_to(remote);
  CHECK(a.dlid == 42);
  CHECK(a.is_global == 0);
  CHECK(a.port_num == 1);
  remote.gid.global.subnet_prefix = 2;
  a = d.path_to(remote);
  CHECK(a.is_global == 1);
  CHECK(a.grh.dgid.global.subnet_prefix == 2);
  CHECK(a.grh.hop_limit > 1);
}

TEST_CASE("an MTU below the port's is taken, one above it is not") {
  made_up one = device_called("ib0", {port(IBV_PORT_ACTIVE)});
  for (const auto& row : {std::pair{0u, IBV_MTU_4096},
                          {256u, IBV_MTU_256},
                          {1024u, IBV_MTU_1024},
                          {2048u, IBV_MTU_2048},
                          {4096u, IBV_MTU_4096}}) {
    CAPTURE(row.first);
    settings s;
    s.mtu = row.first;
    auto d = open_with({&one}, s);
    REQUIRE(d);
    CHECK(d->self.mtu == row.second);
  }
  one.ports[0].active_mtu = IBV_MTU_1024;
  settings s;
  s.mtu = 4096;
  auto d = open_with({&one}, s);
  REQUIRE(d);
  CHECK(d->self.mtu == IBV_MTU_1024);
}

TEST_CASE("a path carries what the settings say of the fabric") {
  made_up one = device_called("roce0", {port(IBV_PORT_ACTIVE, IBV_LINK_LAYER_ETHERNET)});
  one.gids = {{1, ipv4(1)}};
  settings s;
  s.service_level = 5;
  s.traffic_class = 4 * 26;
  s.hop_limit = 9;
  s.flow_label = 0x54321;
  auto d = open_with({&one}, s);
  REQUIRE(d);
  ibv_ah_attr a = d->path_to(d->self, 1);
  CHECK(a.sl == 5);
  CHECK(a.grh.traffic_class == 4 * 26);
  CHECK(a.grh.hop_limit == 9);
  CHECK(a.grh.flow_label == 0x54321);
  auto plain = open_with({&one});
  REQUIRE(plain);
  a = plain->path_to(plain->self, 1);
  CHECK(a.sl == 0);
  CHECK(a.grh.traffic_class == 0);
  CHECK(a.grh.hop_limit == 64);
  CHECK(a.grh.flow_label == 0);
}

TEST_CASE("spread flows have labels that differ, stay the same, and are never 0") {
  made_up one = device_called("roce0", {port(IBV_PORT_ACTIVE, IBV_LINK_LAYER_ETHERNET)});
  one.gids = {{1, ipv4(1)}};
  settings s;
  s.flow_spread = true;
  auto d = open_with({&one}, s);
  REQUIRE(d);
  // Ports of RoCE v2 are made of the label's lower and upper bits; both are to differ.
  std::set<std::uint32_t> labels, low;
  for (std::uint32_t qpn = 0; qpn < 1000; ++qpn) {
    const ibv_ah_attr a = d->path_to(d->self, flow_of(17, qpn));
    CHECK(a.grh.flow_label != 0);
    CHECK(a.grh.flow_label <= 0xfffff);
    CHECK(a.grh.flow_label == d->path_to(d->self, flow_of(17, qpn)).grh.flow_label);
    labels.insert(a.grh.flow_label);
    low.insert(a.grh.flow_label & 0xff);
  }
  CHECK(labels.size() > 990);
  CHECK(low.size() > 240);
}

TEST_CASE("a partition key is looked for in the port's table, whatever its membership bit") {
  made_up one = device_called("ib0", {port(IBV_PORT_ACTIVE)});
  one.pkeys = {0xffff, 0x8002, 0x0003};
  one.ports[0].pkey_tbl_len = 3;
  settings s = asking("ib0");
  for (const auto& [number, row] : {std::pair{0u, 0}, {0x8002u, 1}, {2u, 1}, {0x8003u, 2}}) {
    const auto key = number;  // Clang 14 captures no structured binding
    CAPTURE(key);
    s.pkey = key;
    auto d = open_with({&one}, s);
    REQUIRE(d);
    CHECK(d->paths.pkey_index == row);
  }
  s.pkey = 0x8007;
  auto none = open_with({&one}, s);
  REQUIRE_FALSE(none);
  CHECK(says(none.error().message(),
             "port 1 has no partition key 0x8007; it has 0xffff 0x8002 0x0003"));
}

TEST_CASE("a device is found by its PCI address, with and without domain and port") {
  made_up one = device_called("mlx5_0", {port(IBV_PORT_ACTIVE)});
  made_up two = device_called("mlx5_1", {port(IBV_PORT_ACTIVE), port(IBV_PORT_ACTIVE)});
  const sysfs_folder a(one), b(two);
  a.behind("0000:03:00.0");
  b.behind("0000:03:00.1");
  for (const char* name : {"0000:03:00.1", "03:00.1", "0000:03:00.1:2", "03:00.1:2"}) {
    CAPTURE(name);
    auto d = open_with({&one, &two}, asking(name));
    REQUIRE(d);
    CHECK(d->name == "mlx5_1");
    CHECK(d->self.port == (std::string_view(name).ends_with(":2") ? 2 : 1));
    CHECK(says(d->reason, "mlx5_1 is 0"));
  }
  CHECK_FALSE(open_with({&one, &two}, asking("0000:03:00.2")));
}

TEST_CASE("a device is found by its network interface, and takes that one's port and GIDs") {
  made_up one = device_called("mlx5_0", {port(IBV_PORT_ACTIVE, IBV_LINK_LAYER_ETHERNET)});
  made_up two = device_called("mlx5_1", {port(IBV_PORT_ACTIVE, IBV_LINK_LAYER_ETHERNET),
                                         port(IBV_PORT_ACTIVE, IBV_LINK_LAYER_ETHERNET)});
  made_up ib = device_called("mlx4_0", {port(IBV_PORT_ACTIVE), port(IBV_PORT_ACTIVE)});
  one.gids = two.gids = {{0, ipv4(1)}, {3, ipv4(2)}};
  const sysfs_folder a(one), b(two);
  a.write("ports/1/gid_attrs/ndevs/0", "eth0");
  b.write("ports/1/gid_attrs/ndevs/0", "eth1");
  b.write("ports/2/gid_attrs/ndevs/0", "eth2");
  b.write("ports/2/gid_attrs/ndevs/3", "eth2.100");
  auto d = open_with({&one, &two}, asking("eth2.100"));
  REQUIRE(d);
  CHECK(d->name == "mlx5_1");
  CHECK(d->self.port == 2);
  CHECK(d->self.gid_index == 3);
  d = open_with({&one, &two}, asking("eth2"));
  REQUIRE(d);
  CHECK(d->self.port == 2);
  CHECK(d->self.gid_index == 0);
  auto wrong_port = open_with({&one, &two}, asking("eth2:1"));
  REQUIRE_FALSE(wrong_port);
  CHECK(says(wrong_port.error().message(), "port 1 has no GID"));
  CHECK(says(open_with({&one, &two}, asking("eth7")).error().message(), "there is no device eth7"));
  const sysfs_folder c(ib);
  c.behind("0000:05:00.0");
  c.write("device/net/ib1/dev_port", "1");
  d = open_with({&one, &two, &ib}, asking("ib1"));
  REQUIRE(d);
  CHECK(d->self.port == 2);
}

TEST_CASE("names behind commas are rails, numbers behind commas are further ports") {
  const auto named = [](const char* device, const char* faults = "none") {
    settings s = asking(device);
    s.shm_fault = faults;
    std::string all;
    for (const settings& r : nic::rails_of(s)) all += r.device + "[" + r.shm_fault + "] ";
    return all;
  };
  CHECK(named("auto") == "auto[none] ");
  CHECK(named("mlx5_0,mlx5_1") == "mlx5_0[none] mlx5_1[none] ");
  CHECK(named("mlx5_0:1,2+mlx5_1") == "mlx5_0:1,2+mlx5_1[none] ");
  CHECK(named("mlx5_0:1,mlx5_0:2") == "mlx5_0:1[none] mlx5_0:2[none] ");
  CHECK(named("a:1,2+b,c:1,2,tcp0") == "a:1,2+b[none] c:1,2[none] tcp0[none] ");
  CHECK(named("a,") == "a[none] [none] ");  // which no device is called
  CHECK(named("a,b,c", "gone=2s/none") == "a[gone=2s] b[none] c[none] ");
  CHECK(named("a,b", "gone=2s") == "a[gone=2s] b[gone=2s] ");
}

TEST_CASE("of several devices auto takes the first that is near this process's processors") {
  made_up far = device_called("ib0", {port(IBV_PORT_ACTIVE)});
  made_up near = device_called("ib1", {port(IBV_PORT_ACTIVE)});
  const sysfs_folder a(far), b(near);
  a.write("device/local_cpulist", "1022-1023");
  b.write("device/local_cpulist", "0-1021");
  auto d = open_with({&far, &near});
  REQUIRE(d);
  CHECK(d->name == "ib1");
  near.ports[0].state = IBV_PORT_DOWN;
  d = open_with({&far, &near});
  REQUIRE(d);
  CHECK(d->name == "ib0");
  CHECK(says(d->reason, "though far"));
}

}  // namespace penstock::nic
