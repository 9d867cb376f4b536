// doctest itself, compiled once for all test programs.
// A signal ends the program. doctest would take away the handler that a test has set.
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
