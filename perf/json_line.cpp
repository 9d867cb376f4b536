// See json_line.hpp.
#include "perf/json_line.hpp"

#include <nlohmann/json.hpp>

namespace penstock::perf {

struct json_line::object {
  nlohmann::ordered_json members = nlohmann::ordered_json::object();
};

json_line::json_line() : object_(std::make_unique<object>()) {}
json_line::json_line(json_line&&) noexcept = default;
json_line::~json_line() = default;

json_line& json_line::add(const char* name, const std::string& value) {
  object_->members[name] = value;
  return *this;
}
json_line& json_line::add(const char* name, double value) {
  object_->members[name] = value;
  return *this;
}
json_line& json_line::add(const char* name, std::nullptr_t) {
  object_->members[name] = nullptr;
  return *this;
}
json_line& json_line::add(const char* name, const json_line& value) {
  object_->members[name] = value.object_->members;
  return *this;
}
json_line& json_line::add_list(const char* name, std::span<const double> values) {
  auto& list = object_->members[name] = nlohmann::ordered_json::array();
  for (const double v : values) list.push_back(v);
  return *this;
}
json_line& json_line::add_list(const char* name, std::span<const std::uint32_t> values) {
  auto& list = object_->members[name] = nlohmann::ordered_json::array();
  for (const std::uint32_t v : values) list.push_back(v);
  return *this;
}
json_line& json_line::add_bool(const char* name, bool value) {
  object_->members[name] = value;
  return *this;
}
json_line& json_line::add_count(const char* name, std::uint64_t value) {
  object_->members[name] = value;
  return *this;
}

std::string json_line::text() const { return object_->members.dump(); }

}  // namespace penstock::perf
