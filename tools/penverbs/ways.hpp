// The ways in which a program can be made to find shm0 through the stock libibverbs. Each needs a
// small tree in place of /sys, a character device of the name and number that this tree gives, and
// three environment variables. /dev/null is the device: the provider never uses it.
#pragma once

#include <infiniband/verbs.h>

#include <string>
#include <vector>

#include "nic/shm/traits.hpp"

namespace penverbs {

/// Where and how libibverbs will find the device.
struct way {
  std::string tree;               ///< for $SYSFS_PATH
  bool by_name = false;           ///< the preloaded library stands in for the device
  bool leaves_something = false;  ///< something has to be removed when the command has ended
};

/// A device's name ends in its number.
inline constexpr const char* device_prefix = "/dev/infiniband/uverbs";
inline std::string device_name(unsigned number) { return device_prefix + std::to_string(number); }

/// What the tree shows.
struct shown_devices {
  std::vector<penstock::nic::shm::device_traits> all;
  bool lids = false;  ///< ports of InfiniBand, else of RoCE
  bool tcp = false;   ///< tcp0 in place of shm0
  ibv_gid gid{};      ///< of tcp0: this host's address
};
/// Fixed before any way is tried.
extern shown_devices shown;

/// Writes the tree into a folder that exists. False with errno.
bool write_tree(const std::string& folder);

/// Gives this process and its children a view of /dev of their own, which contains the device and
/// the tree; it ends with the last of them. False: the kernel does not allow it, and `why` says
/// what.
bool enter_namespace(way& w, std::string& why);

/// A new folder for this command alone, in the user's run-time folder or in /tmp; empty with errno.
std::string make_own_folder();

/// Makes a link in /dev, for users who may write there, and the tree beside it; both are shared
/// with all commands that see this /dev. False: it is not possible, and `why` says what.
bool make_link(way& w, std::string& why);
/// Removes both if no other command needs them.
void remove_link();

/// The tree in a folder for this command alone.
bool make_tree(way& w, std::string& why);
void remove_tree(const way& w);

}  // namespace penverbs
