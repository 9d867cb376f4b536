// What a set-up call returns: a value, or an error that says what failed and what the user can do.
// The caller decides whether to print it. Calls of the data path return a status (status.hpp).
#pragma once

#include <cstdlib>
#include <string>
#include <utility>
#include <variant>

namespace penstock {

/// Why a set-up call failed.
struct failure {
  std::string what;  ///< what failed, e.g. "ibv_reg_mr of 64 MiB on rxe0"
  int code = 0;      ///< errno, or 0 where none applies
  std::string hint;  ///< what the user can do, e.g. "raise ulimit -l"

  /// "what: strerror(code); hint" on one line.
  [[nodiscard]] std::string message() const;
};

/// A value or an error. It costs one branch, and throws no exception.
template <class T>
class [[nodiscard]] result {
 public:
  /// Implicit on purpose: a call returns its value, or the failure that it met.
  ///@{
  result(T value) : v_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit on purpose
  result(failure e) : v_(std::in_place_index<1>, std::move(e)) {}    // NOLINT: implicit on purpose

  ///@}
  /// True if there is a value.
  ///@{
  explicit operator bool() const noexcept { return v_.index() == 0; }
  [[nodiscard]] bool has_value() const noexcept { return v_.index() == 0; }
  ///@}

  /// The value; only if there is one.
  ///@{
  T& operator*() & { return *std::get_if<0>(&v_); }
  const T& operator*() const& { return *std::get_if<0>(&v_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&v_)); }
  T* operator->() { return std::get_if<0>(&v_); }
  const T* operator->() const { return std::get_if<0>(&v_); }
  ///@}

  /// The error; only if there is one.
  [[nodiscard]] const failure& error() const { return *std::get_if<1>(&v_); }

 private:
  std::variant<T, failure> v_;
};

/// The result of a call that has no value.
template <>
class [[nodiscard]] result<void> {
 public:
  result() = default;  ///< success
  /// Implicit on purpose, as in result<T>.
  result(failure e) : e_(std::move(e)), ok_(false) {}  // NOLINT: implicit on purpose
  /// True if the call did not fail.
  ///@{
  explicit operator bool() const noexcept { return ok_; }
  [[nodiscard]] bool has_value() const noexcept { return ok_; }
  ///@}
  /// The error; only if there is one.
  [[nodiscard]] const failure& error() const { return e_; }

 private:
  failure e_;
  bool ok_ = true;
};

}  // namespace penstock
