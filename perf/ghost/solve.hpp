// The steps of the heat equation over any exchange of faces, and the same cube in one process.
#pragma once

#include <cstdint>

#include "perf/ghost/field.hpp"

namespace penstock::ghost {

/// All steps. Faces has send(step), which sends the faces of a step, finish(step), which returns
/// when those of the neighbours are in the ghosts, and poll().
template <class Faces>
void solve(Faces& faces, field& f, std::uint32_t steps) {
  const auto outer = f.outer();
  const box inner = f.inner();
  for (std::uint32_t step = 0; step < steps; ++step) {
    faces.send(step);
    // The inner cells are computed while the faces travel, a plane at a time, so that the
    // neighbours' requests are answered meanwhile.
    for (std::uint32_t z = inner.lo[2]; z < inner.hi[2]; ++z) {
      box plane = inner;
      plane.lo[2] = z;
      plane.hi[2] = z + 1;
      f.advance(step, plane);
      faces.poll();
    }
    faces.finish(step);
    for (const box& b : outer) f.advance(step, b);
  }
}

/// The whole cube after so many steps, computed without messages.
field alone(std::uint32_t edge, std::uint32_t steps);

}  // namespace penstock::ghost
