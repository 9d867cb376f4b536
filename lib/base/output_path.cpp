// See output_path.hpp.
#include "lib/base/output_path.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "lib/base/descriptors.hpp"

namespace penstock {

result<void> can_write(const char* setting, const std::string& path) {
  // As the file will be written: beside its place, then moved there.
  const std::string trial = path + ".new";
  struct stat s {};
  int code = 0;
  if (open_file(trial.c_str(), "w") == nullptr)
    code = errno;
  else
    ::unlink(trial.c_str());
  if (code == 0 && ::stat(path.c_str(), &s) == 0 && S_ISDIR(s.st_mode)) code = EISDIR;
  if (code == 0) return {};
  return failure{std::string(setting) + ": cannot write " + path, code, ""};
}

}  // namespace penstock
