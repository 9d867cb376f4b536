// penperf: becomes penperf-seq, penperf-parsync or penperf-par beside it, which is the same program
// linked with the library of that mode. Only the mode is read here; those programs read all other
// options.
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "perf/penperf/launch.hpp"

int main(int argc, char** argv) {
  std::string mode = "seq";
  std::vector<std::string> args = {"penperf"};
  for (int i = 1; i < argc; ++i) {
    const std::string_view a = argv[i];
    if (a == "--mode" && i + 1 < argc)
      mode = argv[++i];
    else if (a.starts_with("--mode="))
      mode = a.substr(7);
    else
      args.emplace_back(a);
  }
  if (mode != "seq" && mode != "parsync" && mode != "par") {
    std::fprintf(stderr, "penperf: --mode %s: seq, parsync or par is wanted\n", mode.c_str());
    return 2;
  }
  // In a build tree they lie beside this program; installed, in a folder that is not on the PATH.
  const std::string here = penstock::penperf::own_folder();
  const std::string why = penstock::penperf::become(
      {here + "/penperf-" + mode, here + "/" PENPERF_LIBEXEC "/penperf-" + mode}, args);
  std::fprintf(stderr, "penperf: %s\n", why.c_str());
  return 1;
}
