// See exchange.hpp.
#include "perf/ghost/exchange.hpp"

#include <algorithm>

#include "lib/base/log.hpp"

namespace penstock::ghost {

exchange::exchange(endpoint& ep, const decomposition& cut, field& f, std::size_t piece_bytes)
    : ep_(ep),
      cut_(cut),
      field_(f),
      on_piece_(ep.add<&exchange::arrived>(this)),
      chunk_(std::min(ep.max_medium(), piece_bytes) / sizeof(double)) {
  for (unsigned i = 0; i < 6; ++i) expected_ += f.face_size(face_of(i));
}

void exchange::arrived(token& t, std::span<std::byte> payload, piece p) {
  if (p.face >= 6 || !field_.unpack(p.step, face_of(p.face), p.offset, payload))
    fatal(1, "a piece of a face from rank %u does not fit", t.source());
  // G1 arrived  fetch_add-release  -> G2: the ghosts are written (a progress thread may run this)
  arrived_[p.step % 2].fetch_add(payload.size() / sizeof(double), std::memory_order_release);
}

status exchange::send_face(std::uint32_t step, face f) {
  const std::uint32_t to = cut_.neighbour(ep_.rank(), f), total = field_.face_size(f);
  for (std::uint32_t at = 0; at < total;) {
    const std::span part =
        std::span(chunk_).first(std::min<std::size_t>(chunk_.size(), total - at));
    field_.pack(step, f, at, part);
    const auto bytes = std::as_bytes(part);
    if (to == ep_.rank()) {
      // A process that is its own neighbour: nothing to send.
      field_.unpack(step, f.opposite(), at, bytes);
      arrived_[step % 2].fetch_add(part.size(), std::memory_order_relaxed);
    } else {
      const status s =
          ep_.request_medium(to, on_piece_, bytes, piece{step, f.opposite().index(), at});
      if (is_failure(s)) return s;
      bytes_sent_ += bytes.size();
    }
    at += static_cast<std::uint32_t>(part.size());
  }
  return status::ok;
}

status exchange::send(std::uint32_t step) {
  // Ranks begin at different faces, so that not all send to the same neighbour first.
  for (unsigned i = 0; i < 6; ++i)
    if (const status s = send_face(step, face_of((i + ep_.rank()) % 6)); is_failure(s)) return s;
  return status::ok;
}

status exchange::finish(std::uint32_t step) {
  auto& here = arrived_[step % 2];
  // G2 load-acquire  <- G1
  const status s =
      ep_.wait_until([&] { return here.load(std::memory_order_acquire) == expected_; });
  here.store(0, std::memory_order_relaxed);  // not counted in before the next step but one
  return s;
}

}  // namespace penstock::ghost
