// See solve.hpp.
#include "perf/ghost/solve.hpp"

namespace penstock::ghost {

field alone(std::uint32_t edge, std::uint32_t steps) {
  box all;
  all.hi = {edge, edge, edge};
  field f(all, edge);
  std::vector<double> layer;
  for (std::uint32_t step = 0; step < steps; ++step) {
    for (unsigned i = 0; i < 6; ++i) {
      layer.resize(f.face_size(face_of(i)));
      f.pack(step, face_of(i), 0, layer);
      f.unpack(step, face_of(i).opposite(), 0, std::as_bytes(std::span(layer)));
    }
    f.advance(step, all);
  }
  return f;
}

}  // namespace penstock::ghost
