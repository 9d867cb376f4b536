#include <doctest/doctest.h>

#include "test/nic/child.hpp"

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[0]) == "child") {
    ::alarm(100);              // no child outlives a test that has gone wrong
    doctest::Context outside;  // the rig's checks hold here too, and end the child
    outside.setAsDefaultForAssertsOutOfTestCases();
    outside.setAssertHandler([](const doctest::AssertData& a) {
      if (!a.m_failed) return;
      std::fprintf(stderr, "%s:%d: in the child: %s\n", a.m_file, a.m_line, a.m_expr);
      ::_exit(125);
    });
    return rig::play(argv[1]);
  }
  doctest::Context context;
  context.applyCommandLine(argc, argv);
  return context.run();
}
