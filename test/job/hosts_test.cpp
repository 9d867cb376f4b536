// The hosts that penrun is told in a file.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "test/job/run.hpp"

using namespace testing;

TEST_CASE("hosts may stand in a file, as mpirun writes it") {
  const auto file = std::filesystem::temp_directory_path() / ("hosts." + std::to_string(getpid()));
  std::ofstream(file) << "# ours\n\nlocalhost slots=2 max_slots=4\n";
  const auto o = run(penrun({"-n", "2", "--hostfile", file, PROBE, "exchange"}));
  CAPTURE(o.err);
  CHECK(o.code == 0);
  CHECK(o.out.find("exchanged 1 of 2 host 1 of 2") != o.out.npos);
  const auto full = run(penrun({"-n", "3", "--machinefile", file, "true"}));
  CHECK(full.code == 2);
  CHECK(full.err.find("has room for 2 processes, not 3") != full.err.npos);
  for (const char* wrong : {"localhost slots=two", "localhost slots=", "localhost room=2"}) {
    std::ofstream(file) << wrong << "\n";
    const auto said = run(penrun({"-n", "1", "--hostfile", file, "true"}));
    CHECK(said.code == 2);
    CHECK(said.err.find("--hostfile " + file.string() + ": \"" + wrong + "\" is not HOST or") !=
          said.err.npos);
  }
  std::filesystem::remove(file);
  for (const char* endless : {"/dev/zero", "/dev/urandom"}) {
    const auto refused = run(penrun({"-n", "2", "--hostfile", endless, "true"}));
    CHECK(refused.code == 2);
    CHECK(refused.err.find("is no list of hosts") != refused.err.npos);
  }
  CHECK(run(penrun({"-n", "2", "--hostfile", "/dev/null", "true"})).err.find("names no host") !=
        std::string::npos);
}
