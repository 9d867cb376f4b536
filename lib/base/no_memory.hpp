// What happens where the system gives no memory. Set-up answers with a failure. Elsewhere an
// allocation that fails leaves a function that promises not to throw: the process then ends with a
// line that says what was being done, instead of "terminate called".
#pragma once

#include <cstddef>
#include <new>
#include <utility>

#include "lib/base/result.hpp"

namespace penstock {

/// Thrown in place of std::bad_alloc by code that knows what it asked for. `what` is a literal.
class no_memory_for final : public std::bad_alloc {
 public:
  no_memory_for(std::size_t bytes, const char* what) noexcept;
  [[nodiscard]] const char* what() const noexcept override { return text_; }

 private:
  char text_[112];
};

/// What this thread does while the object lives, for the line; a literal such as "connecting".
class doing {
 public:
  explicit doing(const char* what) noexcept;
  ~doing();
  doing(const doing&) = delete;
  doing& operator=(const doing&) = delete;

 private:
  const char* before_;
};

/// From now on a lack of memory that nobody has handled ends this process by fatal(). All other
/// exceptions end it as before, by the handler of std::terminate that was installed then. Any
/// thread; once is enough.
void end_by_a_line_without_memory() noexcept;

/// The failure that stands for a lack of memory. Where there is none for its text either, the
/// process ends with the line.
failure failure_of(const char* what, const std::bad_alloc& e) noexcept;

/// Runs f, which returns a result; a lack of memory becomes its failure.
template <class F>
auto or_no_memory(const char* what, F&& f) -> decltype(f()) {
  end_by_a_line_without_memory();
  const doing now{what};
  try {
    return std::forward<F>(f)();
  } catch (const std::bad_alloc& e) {
    return failure_of(what, e);
  }
}

}  // namespace penstock
