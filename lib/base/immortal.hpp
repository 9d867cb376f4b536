// An object that is never destroyed, so that other threads, exit handlers and static objects of the
// program may use it to the end. It lies in place: making it asks for no memory that may be
// lacking.
//
//   static immortal<table> t;
//   return t.value;
#pragma once

namespace penstock {

template <class T>
union immortal {
  T value;
  constexpr immortal() : value() {}
  immortal(const immortal&) = delete;
  immortal& operator=(const immortal&) = delete;
  ~immortal() {}  // leaves `value` as it is
};

}  // namespace penstock
