// Reads the files of settings and the environment once, by the rows of settings_table.cpp.
#include "lib/base/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/nearest.hpp"
#include "lib/base/setting_files.hpp"
#include "lib/base/settings_table.hpp"

namespace penstock {
namespace {

constexpr std::string_view prefix = "PENSTOCK_", gasnet_prefix = "GASNET_";

using environment_map = std::map<std::string_view, std::string_view>;

// Calls f(alias) for each word of the row's aliases until one call says true.
template <class F>
bool any_alias(const setting_row& row, F f) {
  std::string_view rest = row.aliases;
  while (!rest.empty()) {
    const auto end = std::min(rest.find(' '), rest.size());
    if (f(rest.substr(0, end))) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

bool named(const setting_row& row, std::string_view name) {
  std::string_view bare = name;
  if (bare.starts_with(prefix)) bare.remove_prefix(prefix.size());
  return bare == row.name || any_alias(row, [&](std::string_view a) { return a == name; });
}

std::string unknown_text(std::string_view name) {
  std::string_view bare = name;
  if (bare.starts_with(prefix)) bare.remove_prefix(prefix.size());
  const std::string near = nearest_setting(bare);
  if (near.empty())
    return std::string(name) + " is not a setting (peninfo --settings --all lists them)";
  return std::string(name) + " is not a setting; did you mean " + std::string(prefix) + near + "?";
}

// True if another process of the job writes the warnings, which are to be written once a job:
// penrun writes them itself, and else the first process that another launcher has started. It is
// decided when a process first reads its settings: when it joins the job, penrun's variable is
// removed from the environment.
bool somebody_else_warns(const settings& s) {
  static std::atomic<bool> asked{false};
  if (asked.exchange(true, std::memory_order_relaxed)) return true;
  return !s.launch.empty() || (!s.launcher_rank.empty() && s.launcher_rank != "0");
}

bool known_elsewhere(std::string_view name) {
  const auto& gone = settings_not_applicable();
  const auto& known = settings_read_elsewhere();
  return name.starts_with("GASNET_SPAWN") ||
         std::any_of(gone.begin(), gone.end(), [&](const auto& g) { return name == g.name; }) ||
         std::any_of(known.begin(), known.end(), [&](const char* k) { return name == k; });
}

// Why a line of a file has no effect.
void warn_of_line(const setting_line& line) {
  for (const auto& gone : settings_not_applicable())
    if (line.name == gone.name)
      return log(log_level::warning, "%s: %s has no meaning on verbs; instead: %s",
                 line.where.c_str(), gone.name, gone.instead);
  if (known_elsewhere(line.name))
    return log(log_level::warning, "%s: %s is read from the environment alone", line.where.c_str(),
               line.name.c_str());
  log(log_level::warning, "%s: %s", line.where.c_str(), unknown_text(line.name).c_str());
}

// Sets what the lines of files say; those that say nothing to any row are left in `strangers`.
result<void> take_lines(setting_files& files, settings& s, std::vector<setting_line>& strangers) {
  const auto rows = settings_table();
  for (setting_line& line : files.lines) {
    bool known = false;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].has(of_launchers) || !named(rows[i], line.name)) continue;
      known = true;
      if (rows[i].has(not_in_files))
        return failure{line.where + ": a file of settings cannot name another one", 0, ""};
      if (auto r = parse_setting(rows[i], line.where + ": " + line.name, line.value, s); !r)
        return r.error();
      s.sources[i] = line.where;
    }
    if (!known) strangers.push_back(std::move(line));
  }
  s.files = std::move(files.read);
  return {};
}

setting_places places_of(const environment_map& env, std::span<const setting_override> overrides,
                         const std::string& system) {
  const auto text = [&](std::string_view name) {
    const auto at = env.find(name);
    return at == env.end() ? std::string_view{} : at->second;
  };
  setting_places at{text("PENSTOCK_CONFIG"), text("XDG_CONFIG_HOME"), text("HOME"), system};
  for (const auto& [name, value] : overrides)
    if (name == "CONFIG" || name == "PENSTOCK_CONFIG") at.config = value;
  return at;
}

void warn_of_strangers(const environment_map& env) {
  const auto rows = settings_table();
  std::string others;  // of GASNet, in one line: some may be meant for the client
  for (const auto& entry : env) {
    const std::string_view name = entry.first;
    if (!name.starts_with(prefix) && !name.starts_with(gasnet_prefix)) continue;
    if (std::any_of(rows.begin(), rows.end(), [&](const auto& r) { return named(r, name); }))
      continue;
    if (name.starts_with(prefix)) {
      log(log_level::warning, "%s", unknown_text(name).c_str());
    } else if (!known_elsewhere(name)) {
      const std::string near = nearest_setting(name);
      others += (others.empty() ? "" : ", ") + std::string(name);
      if (!near.empty()) others += " (did you mean " + near + "?)";
    }
  }
  if (!others.empty()) log(log_level::warning, "not known, and without effect: %s", others.c_str());
  for (const auto& gone : settings_not_applicable())
    if (env.contains(gone.name))
      log(log_level::warning, "%s has no meaning on verbs; instead: %s", gone.name, gone.instead);
}

}  // namespace

std::string nearest_setting(std::string_view name) {
  const bool of_gasnet = name.starts_with(gasnet_prefix);
  std::vector<std::string_view> known;
  const auto add = [&known](std::string_view word) { return known.push_back(word), false; };
  for (const auto& row : settings_table()) {
    if (row.has(of_launchers)) continue;
    of_gasnet ? any_alias(row, add) : add(row.name);
  }
  if (of_gasnet)
    for (const char* word : settings_read_elsewhere()) add(word);
  const std::size_t letters = name.size() - (of_gasnet ? gasnet_prefix.size() : 0);
  return std::string(nearest(name, known, std::max<std::size_t>(2, letters / 3)));
}

result<settings> read_settings(std::span<const setting_override> overrides,
                               std::span<const char* const> environment,
                               const std::string& system_file) {
  environment_map env;
  for (const char* entry : environment) {
    const std::string_view text = entry;
    const auto equals = text.find('=');
    if (equals != text.npos) env.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  const auto rows = settings_table();
  settings s;
  s.sources.assign(rows.size(), "default");
  auto files = read_setting_files(places_of(env, overrides, system_file));
  if (!files) return files.error();
  std::vector<setting_line> strangers;
  if (auto r = take_lines(*files, s, strangers); !r) return r.error();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    // A name set to nothing counts as not set, so that a script can clear one.
    const auto take = [&](std::string_view name) {
      const auto it = env.find(name);
      if (it == env.end() || it->second.empty()) return false;
      s.sources[i] = name;
      return true;
    };
    if (!take(std::string(prefix) + rows[i].name) && !any_alias(rows[i], take)) continue;
    const std::string& name = s.sources[i];
    if (auto r = parse_setting(rows[i], name, std::string(env[name]), s); !r) return r.error();
  }
  for (const auto& [name, text] : overrides) {
    bool known = false;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!named(rows[i], name)) continue;  // a name shared by two rows sets both
      known = true;
      s.sources[i] = "override";
      if (auto r = parse_setting(rows[i], name, text, s); !r) return r.error();
    }
    if (!known) return failure{unknown_text(name), 0, ""};
  }
  if (somebody_else_warns(s)) return s;
  for (const std::string& why : files->warnings) log(log_level::warning, "%s", why.c_str());
  for (const setting_line& line : strangers) warn_of_line(line);
  warn_of_strangers(env);
  return s;
}

result<settings> read_settings(std::span<const setting_override> overrides) {
  std::size_t n = 0;
  while (environ != nullptr && environ[n] != nullptr) ++n;
  return read_settings(overrides, std::span<const char* const>(environ, n), system_settings);
}

namespace {

// Breaks the text into lines of at most 100 columns, and puts four spaces before each.
std::string indented(const std::string& text) {
  constexpr std::size_t columns = 100, margin = 4;
  std::string out;
  std::size_t used = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const bool fits = used != 0 && used + 1 + (end - at) <= columns;
    if (!fits) {
      if (used != 0) out += '\n';
      out.append(margin, ' ');
      used = margin;
    } else {
      out += ' ';
      ++used;
    }
    out.append(text, at, end - at);
    used += end - at;
    at = end + 1;
  }
  return out + '\n';
}

}  // namespace

std::string settings_text(const settings& s, bool all) {
  const auto rows = settings_table();
  const settings defaults;
  std::string out;
  const auto column = [&out](const std::string& text, std::size_t width) {
    out += text;
    out.append(text.size() < width ? width - text.size() : 1, ' ');
  };
  const auto line = [&](const std::string& name, const std::string& value,
                        const std::string& standard, const std::string& source) {
    column(name, 34);
    column(value, 12);
    column(standard, 12);
    out += source + "\n";
  };
  const auto print = [&](const std::string& heading, auto&& chosen) {
    std::string_view before = heading;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto& row = rows[i];
      const std::string source = i < s.sources.size() ? s.sources[i] : "default";
      if (row.has(of_launchers) || !chosen(row, source)) continue;
      out += std::exchange(before, "");
      line(std::string(prefix) + row.name, format_setting(row, s), format_setting(row, defaults),
           source);
      out += indented(std::string(row.help) + " [" + allowed_values(row) + "]");
      if (row.aliases[0] != '\0') out += indented(std::string("Also: ") + row.aliases);
    }
  };
  const auto with = [](setting_level l) {
    return [l](const setting_row& row, const std::string&) { return level_of(row) == l; };
  };
  std::string files = "\nFiles of settings that were read, the later above the earlier:\n";
  for (const std::string& path : s.files) files += "    " + path + "\n";
  if (s.files.empty()) files += "    none\n";
  line("NAME", "VALUE", "DEFAULT", "SOURCE");
  print("", with(setting_level::user));
  if (!all) {
    print("\nOthers that are set:\n", [](const setting_row& row, const std::string& source) {
      return level_of(row) != setting_level::user && source != "default";
    });
    return out + files +
           "\nWith --all come those for who runs the machines or tunes the library.\n";
  }
  print("\nFor who runs the machines:\n", with(setting_level::operators));
  print("\nFor who tunes or develops the library:\n", with(setting_level::developer));
  out += "\nNot applicable, and what replaces them:\n";
  for (const auto& gone : settings_not_applicable()) {
    column(gone.name, 34);
    out += std::string(gone.instead) + "\n";
  }
  return out + files;
}

}  // namespace penstock
