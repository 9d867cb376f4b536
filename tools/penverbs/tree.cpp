// The tree, and the run-time folder that holds it where no namespace does.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <utility>

#include "tools/penverbs/ways.hpp"

namespace penverbs {
namespace fs = std::filesystem;

bool write_tree(const std::string& folder) {
  const std::initializer_list<std::pair<const char*, const char*>> files = {
      {"class/infiniband_verbs/abi_version", "6\n"},
      {"class/infiniband_verbs/uverbs0/ibdev", "shm0\n"},
      {"class/infiniband_verbs/uverbs0/abi_version", "1\n"},
      {"class/infiniband_verbs/uverbs0/dev", "1:3\n"},  // /dev/null's
      {"class/infiniband/shm0/node_type", "1: CA\n"},
      {"class/infiniband/shm0/node_guid", "0050:5348:4d30:0001\n"},
      {"class/infiniband/shm0/sys_image_guid", "0050:5348:4d30:0001\n"},
      {"class/infiniband/shm0/fw_ver", "1\n"},
      {"class/infiniband/shm0/ports/1/link_layer", "Ethernet\n"},
      {"class/infiniband/shm0/ports/1/state", "4: ACTIVE\n"},
      {"class/infiniband/shm0/ports/1/pkeys/0", "0xffff\n"},
      {"class/infiniband/shm0/ports/1/gid_attrs/types/0", "RoCE v2\n"},
  };
  std::error_code e;
  for (const auto& [name, text] : files) {
    const fs::path file = fs::path(folder) / name;
    fs::create_directories(file.parent_path(), e);
    std::ofstream out(file);
    out << text;
    out.close();
    if (!out) return errno = e ? e.value() : EIO, false;
  }
  return true;
}

std::string runtime_folder() {
  const uid_t me = ::geteuid();
  std::string base = "/run/user/" + std::to_string(me);
  if (::access(base.c_str(), W_OK | X_OK) != 0) base = "/tmp";
  const std::string mine = base + "/penverbs-" + std::to_string(me);
  if (::mkdir(mine.c_str(), 0700) != 0 && errno != EEXIST) return {};
  // In /tmp any user could have made it.
  struct stat st {};
  if (::lstat(mine.c_str(), &st) != 0) return {};
  if (!S_ISDIR(st.st_mode) || st.st_uid != me || (st.st_mode & 077) != 0)
    return errno = EACCES, std::string();
  return mine;
}

std::string make_own_folder() {
  for (;;) {
    const std::string mine = runtime_folder();
    if (mine.empty() && errno != ENOENT) return {};
    std::string own = mine + "/XXXXXX";
    if (!mine.empty() && ::mkdtemp(own.data()) != nullptr) return own;
    if (errno != ENOENT) return {};  // else another command has just removed the run-time folder
  }
}

void remove_own_folder(const std::string& own) {
  ::rmdir(own.c_str());
  ::rmdir(fs::path(own).parent_path().c_str());  // only if no other command uses it
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
  remove_own_folder(w.tree);
}

}  // namespace penverbs
