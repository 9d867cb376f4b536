// Where processes are that shm0 is to bring together; see direct.hpp.
#include <sys/stat.h>

#include <string>

#include "nic/shm/direct.hpp"
#include "nic/shm/wire.hpp"

namespace penstock::nic::shm {
namespace {

/// The kernel's number of a namespace of this process; 0 where /proc does not tell.
std::uint64_t number_of(const char* kind) {
  struct stat st {};
  return ::stat((std::string("/proc/self/ns/") + kind).c_str(), &st) == 0 ? st.st_ino : 0;
}

}  // namespace

whereabouts here() {
  return {.network = number_of("net"), .users = number_of("user"), .user = own_user()};
}

std::string why_apart(const whereabouts& mine, const whereabouts& his) {
  const bool told = mine.network != 0 && his.network != 0;
  if (told && mine.network != his.network)
    return "is in another network namespace, where shm0 does not find it; start the ranks of a "
           "host "
           "in one network namespace (in containers: --network=host), or use a NIC";
  // Numbers of users are comparable within a namespace of users only.
  if (mine.users != 0 && mine.users == his.users && mine.user != his.user)
    return "runs as user " + std::to_string(his.user) + ", and this one as user " +
           std::to_string(mine.user) + ": shm0 joins processes of one user only";
  return {};
}

}  // namespace penstock::nic::shm
