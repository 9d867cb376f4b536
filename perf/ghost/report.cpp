// See report.hpp.
#include "perf/ghost/report.hpp"

#include <algorithm>
#include <cstring>

#include "lib/base/log.hpp"

namespace penstock::ghost {

report::report(endpoint& ep, std::uint32_t edge)
    : ep_(ep),
      edge_(edge),
      share_(ep.add<&report::on_share>(this)),
      row_(ep.add<&report::on_row>(this)) {
  if (ep.rank() != 0) return;
  shares_.resize(ep.size());
  slice_.resize(std::size_t{edge} * edge);
}

void report::on_share(token& t, share s) {
  if (shares_.empty()) fatal(1, "rank %u sent its share to the wrong process", t.source());
  shares_[t.source()] = s;
  // S1 store  fetch_add-release  -> S2: the share is written
  shares_here_.fetch_add(1, std::memory_order_release);
}

void report::on_row(token& t, std::span<std::byte> cells, std::uint32_t x, std::uint32_t y) {
  const std::size_t n = cells.size() / sizeof(double);
  if (slice_.empty() || y >= edge_ || n > edge_ || x > edge_ - n)
    fatal(1, "a row of the slice from rank %u does not fit", t.source());
  std::memcpy(slice_.data() + std::size_t{y} * edge_ + x, cells.data(), n * sizeof(double));
  // S3 cells  fetch_add-release  -> S4: the cells are written
  cells_here_.fetch_add(n, std::memory_order_release);
}

status report::gather(const share& mine, const field& f, std::uint32_t step, bool want_slice) {
  status s = ep_.request_short(0, share_, mine);
  const box& own = f.own();
  const std::uint32_t z = edge_ / 2;
  if (want_slice && z >= own.lo[2] && z < own.hi[2]) {
    std::vector<double> row(
        std::min<std::size_t>(own.extent(0), ep_.max_medium() / sizeof(double)));
    for (std::uint32_t y = own.lo[1]; y < own.hi[1] && !is_failure(s); ++y)
      for (std::uint32_t x = own.lo[0]; x < own.hi[0] && !is_failure(s);) {
        const auto n =
            std::min<std::uint32_t>(static_cast<std::uint32_t>(row.size()), own.hi[0] - x);
        for (std::uint32_t i = 0; i < n; ++i)
          row[i] = f.at(step, 0, x + i - own.lo[0], y - own.lo[1], z - own.lo[2]);
        s = ep_.request_medium(0, row_, std::as_bytes(std::span(row).first(n)), x, y);
        x += n;
      }
  }
  if (is_failure(s) || ep_.rank() != 0) return s;
  const std::uint64_t cells = want_slice ? std::uint64_t{edge_} * edge_ : 0;
  return ep_.wait_until([&] {
    // S2 load-acquire  <- S1
    // S4 load-acquire  <- S3
    return shares_here_.load(std::memory_order_acquire) == ep_.size() &&
           cells_here_.load(std::memory_order_acquire) == cells;
  });
}

share report::total() const noexcept {
  share sum;
  for (const share& s : shares_) {
    sum.checksum += s.checksum;
    sum.messages += s.messages;
    sum.bytes += s.bytes;
    sum.stalls += s.stalls;
  }
  return sum;
}

}  // namespace penstock::ghost
