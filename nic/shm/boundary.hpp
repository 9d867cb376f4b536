// Where C programs call the device: there a lack of memory becomes an errno. Inside it is an
// exception, and what has been made by then is destroyed by whoever owns it.
#pragma once

#include <cerrno>
#include <new>
#include <type_traits>

namespace penstock::nic::shm {

template <auto function>
struct boundary;
template <class R, class... A, R (*function)(A...)>
struct boundary<function> {
  static R call(A... a) noexcept {
    try {
      return function(a...);
    } catch (const std::bad_alloc&) {
      errno = ENOMEM;
      if constexpr (std::is_pointer_v<R>)
        return nullptr;
      else
        return ENOMEM;
    }
  }
};
/// The function as C programs call it: without memory it answers ENOMEM, or null with that errno.
template <auto function>
inline constexpr auto c_call = boundary<function>::call;

/// Puts a function into a table of C's. Each is noexcept: it asks for no memory, or ends the
/// process by a line if there is none (lib/base/no_memory.hpp); or it is a c_call.
template <class R, class... A>
constexpr void enter(R (*&place)(A...),
                     std::type_identity_t<R (*)(A...) noexcept> function) noexcept {
  place = function;
}

/// Of a std::unique_ptr whose object a verbs call has made, and another one takes apart.
template <auto function>
struct destroyed_by {
  void operator()(auto* object) const noexcept { (void)function(object); }
};

/// Memory for one more: the next push_back does not ask for it.
void make_room(auto& list) {
  if (list.size() == list.capacity()) list.reserve(2 * list.size() + 1);
}

}  // namespace penstock::nic::shm
