// A mount namespace with a /dev of its own; a user namespace around it where the user may not make
// one otherwise. It is a tmpfs that holds the device and the tree, and everything that /dev has.
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tools/penverbs/ways.hpp"

namespace penverbs {
namespace {

bool write_text(const char* file, const std::string& text) {
  const int fd = ::open(file, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool ok = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return ok;
}

/// The user keeps the same number, so files and peers see the same user as before.
bool enter() {
  if (::unshare(CLONE_NEWNS) == 0) return true;
  const std::string uid = std::to_string(::geteuid()), gid = std::to_string(::getegid());
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  write_text("/proc/self/setgroups", "deny");  // older kernels have no such file
  return write_text("/proc/self/uid_map", uid + " " + uid + " 1") &&
         write_text("/proc/self/gid_map", gid + " " + gid + " 1");
}

bool touch(const std::string& file) {
  const int fd = ::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  ::close(fd);
  return true;
}

bool show(const std::string& from, const std::string& at) {
  return ::mount(from.c_str(), at.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0;
}

/// Makes one entry of /dev in the new one. An entry that cannot be shown is left out; no other
/// process could use it either.
void carry_over(const std::string& from, const std::string& to) {
  struct stat st {};
  if (::lstat(from.c_str(), &st) != 0) return;
  if (S_ISLNK(st.st_mode)) {
    std::error_code e;
    const auto target = std::filesystem::read_symlink(from, e);
    if (!e) std::filesystem::create_symlink(target, to, e);
  } else if (S_ISDIR(st.st_mode)) {
    if (::mkdir(to.c_str(), 0755) == 0) show(from, to);
  } else if (touch(to)) {
    show(from, to);
  }
}

/// A file system in `folder` that has all that `of` has, but for names that begin with
/// "infiniband". True, or errno.
bool copy_of(const std::string& of, const std::string& folder) {
  if (::mount("penverbs", folder.c_str(), "tmpfs", MS_NOSUID, "mode=0755") != 0) return false;
  DIR* d = ::opendir(of.c_str());
  if (d == nullptr) return false;
  const std::string there = of + "/", here = folder + "/";
  while (const dirent* entry = ::readdir(d)) {
    const std::string name = entry->d_name;
    if (name != "." && name != ".." && !name.starts_with("infiniband"))
      carry_over(there + name, here + name);
  }
  ::closedir(d);
  return true;
}

bool put_over(const std::string& folder, const char* at) {
  return ::mount(folder.c_str(), at, nullptr, MS_MOVE, nullptr) == 0;
}

/// The new /dev, in a folder. True, or errno.
bool furnish(const std::string& folder) {
  const std::string ours = folder + "/infiniband", tree = ours + "/sys";
  if (!copy_of("/dev", folder) || ::mkdir(ours.c_str(), 0755) != 0) return false;
  for (unsigned i = 0; i < shown.all.size(); ++i) {
    const std::string device = ours + device_name(i).substr(std::strlen("/dev/infiniband"));
    if (!touch(device) || !show("/dev/null", device)) return false;
  }
  return ::mkdir(tree.c_str(), 0755) == 0 && write_tree(tree) && put_over(folder, "/dev");
}

/// /sys/class with the tree's classes in it: many programs do not ask libibverbs. Where that
/// cannot be done, /sys stays as it is.
void furnish_sys(const std::string& folder) {
  const std::string tree = "/dev/infiniband/sys/class/";
  bool done = copy_of("/sys/class", folder);
  for (const std::string name : {"infiniband", "infiniband_verbs", "infiniband_mad"})
    done = done && ::mkdir((folder + "/" + name).c_str(), 0755) == 0 &&
           show(tree + name, folder + "/" + name);
  if (!done || !put_over(folder, "/sys/class")) ::umount2(folder.c_str(), MNT_DETACH);
}

}  // namespace

bool enter_namespace(way& w, std::string& why) {
  const std::string folder = make_own_folder();
  if (folder.empty()) {
    why = std::string("no run-time folder: ") + std::strerror(errno);
    return false;
  }
  bool ok = enter();
  if (!ok) why = std::string("no mount namespace: ") + std::strerror(errno);
  // Its mounts are not seen outside; later mounts outside are still seen here.
  if (ok && !(::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0 && furnish(folder))) {
    why = std::string("the namespace has no mounts: ") + std::strerror(errno);
    ::umount2(folder.c_str(), MNT_DETACH);
    ok = false;
  }
  if (ok) furnish_sys(folder);
  ::rmdir(folder.c_str());
  if (!ok) return false;
  w.tree = "/dev/infiniband/sys";
  return true;
}

}  // namespace penverbs
