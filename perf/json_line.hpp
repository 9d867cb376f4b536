// One JSON object on a line, for programs whose output other programs read. Behind it is nlohmann's
// JSON, compiled once and not in each of them.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace penstock::perf {

/// Members stand in the order in which they were added.
class json_line {
 public:
  json_line();
  json_line(json_line&&) noexcept;
  ~json_line();

  json_line& add(const char* name, const std::string& value);
  json_line& add(const char* name, double value);
  json_line& add(const char* name, std::same_as<bool> auto value) { return add_bool(name, value); }
  json_line& add(const char* name,
                 std::unsigned_integral auto value) requires(!std::same_as<decltype(value), bool>) {
    return add_count(name, value);
  }
  json_line& add(const char* name, std::nullptr_t);
  json_line& add(const char* name, const json_line& value);
  json_line& add_list(const char* name, std::span<const double> values);
  json_line& add_list(const char* name, std::span<const std::uint32_t> values);

  /// Without a line end.
  [[nodiscard]] std::string text() const;

 private:
  json_line& add_bool(const char* name, bool value);
  json_line& add_count(const char* name, std::uint64_t value);

  struct object;
  std::unique_ptr<object> object_;
};

}  // namespace penstock::perf
