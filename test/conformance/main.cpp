// conformance_test [--device=NAME] [doctest options]. The device is also taken from
// PENSTOCK_DEVICE.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "test/conformance/differences.hpp"
#include "test/conformance/rig.hpp"

int main(int argc, char** argv) {
  using namespace penstock::conformance;
  constexpr const char option[] = "--device=";
  if (const char* e = std::getenv("PENSTOCK_DEVICE")) set_device_name(e);
  for (int i = 1; i < argc; ++i)
    if (std::strncmp(argv[i], option, sizeof option - 1) == 0)
      set_device_name(argv[i] + sizeof option - 1);
  try {
    const std::string device = learn_device();
    std::printf("device: %s\nexpected: %s\n", device.c_str(), here().name);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "conformance_test: %s\n", e.what());
    return 2;
  }
  doctest::Context context(argc, argv);
  return context.run();
}
