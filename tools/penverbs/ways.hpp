// The ways in which a program can be made to find shm0 through the stock libibverbs. What it takes:
// a small tree in place of /sys, a character device of the name and number that this tree gives,
// and three environment variables. /dev/null is the device: the provider never uses it.
#pragma once

#include <string>

namespace penverbs {

/// Where and how libibverbs will find the device.
struct way {
  std::string tree;               ///< for $SYSFS_PATH
  bool by_name = false;           ///< the preloaded library stands in for the device
  bool leaves_something = false;  ///< something has to be removed when the command has ended
};

inline constexpr const char* device_name = "/dev/infiniband/uverbs0";

/// Writes the tree into a folder, which is there. False with errno.
bool write_tree(const std::string& folder);

/// A view of /dev of its own for this process and its children, in which the device and the tree
/// are; it goes with the last of them. False: the kernel does not allow it, `why` says what.
bool enter_namespace(way& w, std::string& why);

/// The user's own run-time folder (made if need be), or empty with errno; ENOENT: another command
/// has just removed it.
std::string runtime_folder();
/// A new folder in it, for this command alone, or empty with errno.
std::string make_own_folder();
/// Removes that folder, which is empty, and the run-time folder if no other command uses it.
void remove_own_folder(const std::string& own);

/// A link in /dev, for who may write there, and the tree in the run-time folder; shared with the
/// user's other commands. False: it is not possible, `why` says what.
bool make_link(way& w, std::string& why);
/// Removes both if no other command of the user needs them.
void remove_link();

/// The tree in the run-time folder, for this command alone.
bool make_tree(way& w, std::string& why);
void remove_tree(const way& w);

}  // namespace penverbs
