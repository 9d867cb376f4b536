// See pairs.hpp.
#include "perf/pairs.hpp"

#include <algorithm>
#include <cstring>

namespace penstock::perf {

namespace {

struct fixed_part {
  double rate = 0, min = 0, max = 0, twin_ns = 0, twin_rate = 0;
  std::uint64_t iters = 0, buckets = 0, twin_buckets = 0;
};
struct bucket_count {
  std::int64_t bucket = 0;
  std::uint64_t count = 0;
};

template <class T>
void append(std::vector<std::byte>& to, const T& value) {
  const auto* const p = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), p, p + sizeof value);
}
template <class T>
bool take(std::span<const std::byte>& from, T& value) {
  if (from.size() < sizeof value) return false;
  std::memcpy(&value, from.data(), sizeof value);
  from = from.subspan(sizeof value);
  return true;
}
bool take(std::span<const std::byte>& from, std::uint64_t buckets, distribution& into) {
  for (bucket_count b; buckets > 0; --buckets) {
    if (!take(from, b)) return false;
    into.add_bucket(static_cast<int>(b.bucket), b.count);
  }
  return true;
}

}  // namespace

std::vector<std::byte> packed(std::span<const measurement> rounds) {
  std::vector<std::byte> out;
  for (const measurement& m : rounds) {
    append(out, fixed_part{m.rate, m.ns.min, m.ns.max, m.twin_ns, m.twin_rate, m.iters,
                           m.ns.spread.buckets().size(), m.twin_spread.buckets().size()});
    for (const distribution* d : {&m.ns.spread, &m.twin_spread})
      for (const auto& [bucket, n] : d->buckets()) append(out, bucket_count{bucket, n});
  }
  return out;
}

std::vector<measurement> combined(std::span<const measurement> own,
                                  std::span<const std::vector<std::byte>> of_pairs) {
  std::vector<std::span<const std::byte>> rest(of_pairs.begin(), of_pairs.end());
  std::vector<measurement> all;
  for (const measurement& heading : own) {
    measurement m = heading;
    m.ns = {};
    m.twin_spread = {};
    m.rate = m.twin_rate = m.twin_ns = 0;
    m.iters = 0;
    double twin_ns = 0;
    for (auto& from : rest) {
      fixed_part p;
      if (!take(from, p) || !take(from, p.buckets, m.ns.spread) ||
          !take(from, p.twin_buckets, m.twin_spread))
        return all;
      m.rate += p.rate, m.twin_rate += p.twin_rate, m.iters += p.iters;
      m.ns.min = m.ns.min == 0 ? p.min : std::min(m.ns.min, p.min);
      m.ns.max = std::max(m.ns.max, p.max);
      twin_ns += p.twin_ns / static_cast<double>(rest.size());
    }
    const auto at = [&](double share) {
      return std::clamp(m.ns.spread.at(share), m.ns.min, m.ns.max);
    };
    m.ns.p50 = at(0.5), m.ns.p90 = at(0.9), m.ns.p99 = at(0.99), m.ns.p999 = at(0.999);
    m.twin_ns = m.twin_spread.count() > 0 ? m.twin_spread.at(0.5) : twin_ns;
    all.push_back(std::move(m));
  }
  return all;
}

}  // namespace penstock::perf
