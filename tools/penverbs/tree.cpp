// The tree, and the run-time folder that holds it where no namespace does.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "nic/shm/identity.hpp"
#include "tools/penverbs/ways.hpp"

namespace penverbs {
namespace fs = std::filesystem;

shown_devices shown;

namespace {

using files = std::vector<std::pair<std::string, std::string>>;

/// The processors of that node, as /sys writes them; all of them where it has no such node.
std::string cpus_near(int node) {
  const std::string nodes = "/sys/devices/system/node/node" + std::to_string(node) + "/cpulist";
  std::string list;
  for (const std::string& file : {nodes, std::string("/sys/devices/system/cpu/online")})
    if (std::ifstream in(file); std::getline(in, list)) return list;
  return list;
}

/// What the kernel shows of an adapter, as far as programs have been seen to read it.
void describe(files& all, unsigned number) {
  namespace shm = penstock::nic::shm;
  const shm::device_traits& traits = shown.all[number];
  const shm::identity& d = shm::device_identity(number);
  const std::string name = (shown.tcp ? "tcp" : "shm") + std::to_string(number),
                    guid = shm::guid_text(d);
  const std::string verbs = "class/infiniband_verbs/uverbs" + std::to_string(number) + "/";
  const std::string device = "class/infiniband/" + name + "/", port = device + "ports/1/";
  char lid[8];
  std::snprintf(lid, sizeof lid, "0x%x", shown.lids ? d.lid : 0u);
  all.insert(all.end(), {{verbs + "ibdev", name},
                         {verbs + "abi_version", "1"},
                         {verbs + "dev", "1:3"},  // /dev/null's
                         {device + "node_type", "1: CA"},
                         {device + "node_guid", guid},
                         {device + "sys_image_guid", guid},
                         {device + "node_desc", name},
                         {device + "fw_ver", "1"},
                         {device + "hw_rev", "1"},
                         {device + "hca_type", "PENSTOCK"},
                         {device + "board_id", "PENSTOCK"},
                         {device + "device/numa_node", std::to_string(traits.numa_node)},
                         {device + "device/local_cpulist", cpus_near(traits.numa_node)},
                         {device + "device/vendor", "0x70656e"},
                         {port + "link_layer", shown.lids ? "InfiniBand" : "Ethernet"},
                         {port + "state", "4: ACTIVE"},
                         {port + "phys_state", "5: LinkUp"},
                         {port + "rate", traits.rate->text},
                         {port + "lid", lid},
                         {port + "sm_lid", lid},
                         {port + "lid_mask_count", "0"},
                         {port + "sm_sl", "0"},
                         {port + "cap_mask", "0x00000000"},
                         {port + "pkeys/0", "0xffff"}});
  for (int row = 0; row < (shown.lids || shown.tcp ? 1 : shm::gid_rows); ++row) {
    const std::string n = std::to_string(row);
    const ibv_gid gid = shown.tcp ? shown.gid : d.gid(row);
    all.emplace_back(port + "gids/" + n, shm::gid_text(gid));
    all.emplace_back(port + "gid_attrs/types/" + n,
                     row % 2 == 0 && !shown.tcp ? "IB/RoCE v1" : "RoCE v2");
    if (!shown.lids) all.emplace_back(port + "gid_attrs/ndevs/" + n, shm::netdev_of(gid));
  }
}

}  // namespace

bool write_tree(const std::string& folder) {
  // ibstat asks for the second; it sends no management datagram.
  files all = {{"class/infiniband_verbs/abi_version", "6"},
               {"class/infiniband_mad/abi_version", "5"}};
  for (unsigned i = 0; i < shown.all.size(); ++i) describe(all, i);
  std::error_code e;
  for (const auto& [name, text] : all) {
    const fs::path file = fs::path(folder) / name;
    fs::create_directories(file.parent_path(), e);
    std::ofstream out(file);
    out << text << '\n';
    out.close();
    if (!out) return errno = e ? e.value() : EIO, false;
  }
  return true;
}

std::string make_own_folder() {
  std::string base = "/run/user/" + std::to_string(::geteuid());
  if (::access(base.c_str(), W_OK | X_OK) != 0) base = "/tmp";
  // No name that others can foresee: the root of a container that shares /tmp is another user.
  std::string own = base + "/penverbs-XXXXXX";
  return ::mkdtemp(own.data()) != nullptr ? own : std::string();
}

bool make_tree(way& w, std::string& why) {
  const std::string folder = make_own_folder();
  if (folder.empty() || !write_tree(folder)) {
    why = std::string("no run-time folder: ") + std::strerror(errno);
    return false;
  }
  w.tree = folder;
  w.by_name = w.leaves_something = true;
  return true;
}

void remove_tree(const way& w) {
  std::error_code e;
  fs::remove_all(w.tree, e);
}

}  // namespace penverbs
