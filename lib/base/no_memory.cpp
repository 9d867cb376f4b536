// See no_memory.hpp.
#include "lib/base/no_memory.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "lib/base/log.hpp"
#include "lib/base/shortage.hpp"

namespace penstock {
namespace {

constexpr const char* hint = "free memory, or raise ulimit -v or the container's limit";
thread_local const char* activity = nullptr;
std::terminate_handler former_handler = nullptr;  // written once, before the handler is installed

const char* asked_for(const std::bad_alloc& e) noexcept {
  return dynamic_cast<const no_memory_for*>(&e) != nullptr ? e.what() : "an allocation";
}

// Does not allocate.
[[noreturn]] void without_memory() {
  if (const std::exception_ptr thrown = std::current_exception()) try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc& e) {
      fatal(1, "no memory for %s while %s; %s", asked_for(e),
            activity != nullptr ? activity : "the program runs", hint);
    } catch (...) {
    }
  // GCC ends the process so where an exception leaves a noexcept function that was inlined: what
  // was thrown cannot be asked. Where the library is at work it throws for want of memory alone.
  else if (std::uncaught_exceptions() > 0 && activity != nullptr)
    fatal(1, "no memory for an allocation while %s; %s", activity, hint);
  if (former_handler != nullptr) former_handler();
  std::abort();
}

}  // namespace

no_memory_for::no_memory_for(std::size_t bytes, const char* what) noexcept {
  std::snprintf(text_, sizeof text_, "%zu bytes of %s", bytes, what);
}

doing::doing(const char* what) noexcept : before_(std::exchange(activity, what)) {}
doing::~doing() { activity = before_; }

void end_by_a_line_without_memory() noexcept {
  static const bool done = [] {
    former_handler = std::get_terminate();
    std::set_terminate(without_memory);
    return true;
  }();
  (void)done;
}

failure failure_of(const char* what, const std::bad_alloc& e) noexcept {
  return {std::string(what) + ": no memory for " + asked_for(e), ENOMEM, hint};
}

}  // namespace penstock
