// What handlers are called in traces, lines and counters: by the name that the program gave, by
// that of the function, or by the number alone. Slow paths only; any thread.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "lib/base/function_name.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class handler_names {
 public:
  /// The handler of that number is called so. Without a name that of `function` is looked for when
  /// the first text needs it; null: it has none.
  void set(unsigned index, std::string_view name, const void* function = nullptr) {
    std::string clean;
    for (const char c : name.substr(0, longest))
      clean += c < ' ' || c > '~' || c == '"' || c == '\\' ? '?' : c;
    const std::lock_guard hold(lock_);
    all_[index] = {std::move(clean), name.empty() ? function : nullptr};
  }
  /// The name alone, of at most 64 printable characters without quotes; empty if there is none.
  [[nodiscard]] std::string of(unsigned index) const {
    const std::lock_guard hold(lock_);
    const auto at = all_.find(index);
    if (at == all_.end()) return {};
    if (at->second.function != nullptr)
      at->second = {name_of_function(at->second.function).substr(0, longest), nullptr};
    return at->second.name;
  }
  /// "3 on_hit", or "3" without a name.
  [[nodiscard]] std::string numbered(unsigned index) const {
    const std::string name = of(index);
    return std::to_string(index) + (name.empty() ? "" : " ") + name;
  }

 private:
  static constexpr std::size_t longest = 64;
  struct entry {
    std::string name;
    const void* function = nullptr;  ///< whose name it will have
  };
  mutable std::mutex lock_;
  mutable std::map<unsigned, entry> all_;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
