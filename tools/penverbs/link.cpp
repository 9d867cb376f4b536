// The way without a namespace, for root in a container: /dev/infiniband/uverbs0 is a link to
// /dev/null while any command needs it. A command that needs it holds a shared lock on a file
// beside the links, so that all who share this /dev share the lock.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "nic/shm/identity.hpp"
#include "tools/penverbs/ways.hpp"

namespace penverbs {
namespace {

int lock_fd = -1;
const std::string folder = "/dev/infiniband/penverbs", lock_file = folder + "/users";

bool make_folder(const char* name, mode_t mode) {
  return ::mkdir(name, mode) == 0 || errno == EEXIST;
}

/// Takes the shared lock. If the last user has just removed the file, it tries again.
bool take_lock() {
  for (int i = 0; i < 100; ++i) {
    const bool made = make_folder("/dev/infiniband", 0755) && make_folder(folder.c_str(), 0700);
    const int fd = made ? ::open(lock_file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600) : -1;
    if (fd < 0 && errno == ENOENT) continue;
    if (fd < 0 || ::flock(fd, LOCK_SH) != 0) return false;
    struct stat opened {
    }, named{};
    if (::fstat(fd, &opened) == 0 && ::stat(lock_file.c_str(), &named) == 0 &&
        opened.st_ino == named.st_ino) {
      lock_fd = fd;
      return true;
    }
    ::close(fd);
  }
  return errno = EAGAIN, false;
}

bool is_ours(const std::string& name) {
  char target[16] = {};
  return ::readlink(name.c_str(), target, sizeof target - 1) > 0 &&
         std::strcmp(target, "/dev/null") == 0;
}

bool link_devices() {
  for (unsigned i = 0; i < shown.all.size(); ++i) {
    if (::symlink("/dev/null", device_name(i).c_str()) == 0) continue;
    if (errno != EEXIST || !is_ours(device_name(i))) return false;
  }
  return true;
}

}  // namespace

bool make_link(way& w, std::string& why) {
  if (!take_lock()) {
    why = std::string("no lock in /dev/infiniband: ") + std::strerror(errno);
    return false;
  }
  if (!link_devices()) {
    why = std::string("no link ") + device_prefix + "…: " + std::strerror(errno);
    remove_link();
    return false;
  }
  w.tree = folder + "/sys";
  w.leaves_something = true;
  if (make_folder(w.tree.c_str(), 0755) && write_tree(w.tree)) return true;
  why = "no tree in " + folder + ": " + std::strerror(errno);
  remove_link();
  return false;
}

void remove_link() {
  if (::flock(lock_fd, LOCK_EX | LOCK_NB) == 0) {
    for (unsigned i = 0; i < penstock::nic::shm::most_devices; ++i)
      if (is_ours(device_name(i))) ::unlink(device_name(i).c_str());
    std::error_code e;
    std::filesystem::remove_all(folder + "/sys", e);
    ::unlink(lock_file.c_str());
    ::rmdir(folder.c_str());
    ::rmdir("/dev/infiniband");  // fails if it has other entries
  }
  ::close(lock_fd);
}

}  // namespace penverbs
