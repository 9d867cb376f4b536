#include "lib/base/setting_files.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

#include "lib/base/descriptors.hpp"

namespace penstock {
namespace {

constexpr std::size_t longest_line = 4096;

std::string_view trimmed(std::string_view text) {
  constexpr const char* blank = " \t\r\n";
  const auto from = text.find_first_not_of(blank);
  return from == text.npos ? std::string_view{}
                           : text.substr(from, text.find_last_not_of(blank) - from + 1);
}

// Under sudo, for example, HOME may still be another user's, who then sets what this one runs with.
void warn_of_owner(const std::string& path, int fd, const setting_places& at, setting_files& into) {
  struct stat file {};
  if (::fstat(fd, &file) != 0 || file.st_uid == at.user) return;
  into.warnings.push_back("the settings file " + path + " is read, though it belongs to user " +
                          std::to_string(file.st_uid) + " and not to user " +
                          std::to_string(at.user) +
                          ", who runs this; PENSTOCK_CONFIG=none reads no file");
}

// Appends the lines of one file. Fails with the errno where it cannot be read.
result<void> read_file(const std::string& path, const setting_places& at, bool of_user,
                       setting_files& into) {
  const stdio_file file = open_file(path.c_str(), "r");
  if (!file) return failure{"the settings file " + path, errno, ""};
  if (of_user) warn_of_owner(path, ::fileno(file.get()), at, into);
  char text[longest_line];
  constexpr std::size_t last = longest_line - 1;
  for (unsigned number = 1;; ++number) {
    text[last] = '\n';  // stays so unless the line, which may have bytes of 0, fills the array
    if (std::fgets(text, sizeof text, file.get()) == nullptr) break;
    const std::string where = path + ":" + std::to_string(number);
    if (text[last] == '\0' && text[last - 1] != '\n')
      return failure{where + ": the line has more than 4,094 bytes", 0, ""};
    const std::string_view line = trimmed(text);
    if (line.empty() || line.starts_with('#')) continue;
    const auto equals = line.find('=');
    const std::string_view name = trimmed(line.substr(0, equals));
    const std::string_view value =
        equals == line.npos ? std::string_view{} : trimmed(line.substr(equals + 1));
    if (name.empty() || value.empty())
      return failure{where + ": \"" + std::string(line.substr(0, 100)) + "\" is not a setting", 0,
                     "a line is NAME = VALUE, or a comment that begins with #"};
    into.lines.push_back({where, std::string(name), std::string(value)});
  }
  if (std::ferror(file.get()) != 0) return failure{"the settings file " + path, errno, ""};
  into.read.push_back(path);
  return {};
}

}  // namespace

result<setting_files> read_setting_files(const setting_places& at) {
  setting_files all;
  if (at.config == "none") return all;
  std::string of_user;
  if (at.xdg_home.starts_with('/'))  // a path that is not absolute does not count, by the XDG rules
    of_user = std::string(at.xdg_home) + "/penstock.conf";
  else if (!at.home.empty())
    of_user = std::string(at.home) + "/.config/penstock.conf";
  for (const std::string& path : {at.system, of_user}) {
    if (path.empty()) continue;
    if (auto r = read_file(path, at, path != at.system, all); !r) {
      const int code = r.error().code;
      if (code == 0) return r.error();
      if (code != ENOENT && code != ENOTDIR) all.warnings.push_back(r.error().message());
    }
  }
  if (at.config.empty() || at.config == "auto") return all;
  if (auto r = read_file(std::string(at.config), at, false, all); !r)
    return failure{"PENSTOCK_CONFIG: " + r.error().what, r.error().code, r.error().hint};
  return all;
}

}  // namespace penstock
