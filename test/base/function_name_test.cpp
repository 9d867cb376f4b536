// name_of_function(): what the symbols of a program and of its libraries say.
#include <doctest/doctest.h>

#include <gnu/libc-version.h>

#include "lib/base/function_name.hpp"

using penstock::name_of_function;

namespace {

int in_this_file(int x) { return x + 1; }
template <class T>
int instance(T x) {
  return static_cast<int>(x) + 2;
}

}  // namespace

extern "C" int penstock_test_plain_c(int x) { return x + 3; }
namespace outer::inner {
int function(int x) { return x + 4; }
}  // namespace outer::inner

template <class F>
std::string name(F* f) {
  return name_of_function(reinterpret_cast<const void*>(f));
}

TEST_CASE("A function's name comes from the program's symbols, whatever its linkage") {
  int (*volatile keep[])(int) = {in_this_file, instance<int>, penstock_test_plain_c,
                                 outer::inner::function};
  CHECK(keep[0](1) == 2);
  CHECK(name(&in_this_file) == "in_this_file");
  CHECK(name(&penstock_test_plain_c) == "penstock_test_plain_c");
  CHECK(name(&outer::inner::function) == "outer::inner::function");
  CHECK(name(&instance<int>).find("instance<int>") != std::string::npos);
}

TEST_CASE("A function of a library has its name from there") {
  CHECK(name(&gnu_get_libc_version) == "gnu_get_libc_version");
}

TEST_CASE("What no symbol begins at has no name") {
  static int data;
  CHECK(name_of_function(nullptr).empty());
  CHECK(name_of_function(&data).empty());
  CHECK(name_of_function(reinterpret_cast<const char*>(&in_this_file) + 1).empty());
}
