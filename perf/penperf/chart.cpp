#include "perf/penperf/chart.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <utility>
#include <vector>

#include "lib/base/svg.hpp"

namespace penstock::penperf {
namespace {

constexpr double left = 80, right = 840, top = 60, bottom = 360;

struct curve {
  std::string name;
  const char* colour;
  std::vector<std::pair<double, double>> points;  // size and value, both above 0
};

// Where a value lies on an axis of whole powers of a base.
struct axis {
  double base, low, high, from, to;

  axis(double b, double least, double most, double begin, double end)
      : base(b),
        low(std::floor(std::log(least) / std::log(b))),
        high(std::max(low + 1, std::ceil(std::log(most) / std::log(b)))),
        from(begin),
        to(end) {}
  [[nodiscard]] double at(double v) const {
    return from + (to - from) * (std::log(v) / std::log(base) - low) / (high - low);
  }
};

std::string rounded(double v) {
  constexpr std::pair<double, const char*> units[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [unit, name] : units)
    if (v >= unit) return svg::number(v / unit) + name;
  return svg::number(v);
}

std::string line_between(double x1, double y1, double x2, double y2) {
  return "<line stroke=\"#ddd\" x1=\"" + svg::number(x1) + "\" y1=\"" + svg::number(y1) +
         "\" x2=\"" + svg::number(x2) + "\" y2=\"" + svg::number(y2) + "\"/>\n";
}

std::vector<curve> curves_of(std::span<const perf::measurement> all) {
  const bool latency = all.front().is_latency;
  std::vector<curve> curves =
      latency ? std::vector<curve>{{"median", "#c0392b", {}},
                                   {"99th percentile", "#e59866", {}},
                                   {"twin's median", "#2471a3", {}}}
              : std::vector<curve>{{"ours", "#c0392b", {}}, {"twin", "#2471a3", {}}};
  for (const perf::measurement& m : all) {
    const auto bytes = static_cast<double>(m.size);
    const double values[] = {latency ? m.ns.p50 : m.bytes_per_s(),
                             latency ? m.ns.p99 : m.twin_rate * bytes, m.twin_ns};
    for (std::size_t i = 0; i < curves.size(); ++i)
      if (bytes > 0 && values[i] > 0) curves[i].points.emplace_back(bytes, values[i]);
  }
  return curves;
}

std::string drawn(const curve& c, const axis& x, const axis& y) {
  std::string points, dots;
  for (const auto& [size, value] : c.points) {
    points += svg::number(x.at(size)) + "," + svg::number(y.at(value)) + " ";
    dots += "<circle r=\"2.5\" cx=\"" + svg::number(x.at(size)) + "\" cy=\"" +
            svg::number(y.at(value)) + "\"><title>" + rounded(size) + " bytes: " + rounded(value) +
            "</title></circle>\n";
  }
  return "<polyline fill=\"none\" stroke=\"" + std::string(c.colour) + "\" points=\"" + points +
         "\"/>\n<g fill=\"" + c.colour + "\">" + dots + "</g>\n";
}

}  // namespace

bool draw(std::span<const perf::measurement> all, const std::string& path) {
  if (all.empty()) return false;
  const std::vector<curve> curves = curves_of(all);
  double least = 1e300, most = 0, small = 1e300, large = 0;
  for (const curve& c : curves)
    for (const auto& [size, value] : c.points) {
      least = std::min(least, value), most = std::max(most, value);
      small = std::min(small, size), large = std::max(large, size);
    }
  if (most == 0) return false;
  const axis x(2, small, large, left, right), y(10, least, most, bottom, top);
  const perf::measurement& m = all.front();
  std::string out = svg::begin(860, 420,
                               m.bench + " " + m.kind + ", " + m.device + ", " + m.mode +
                                   (m.is_latency ? ": nanoseconds" : ": bytes a second"));
  for (double p = x.low; p <= x.high; ++p) {
    const double v = std::pow(2, p);
    out += line_between(x.at(v), top, x.at(v), bottom);
    if (static_cast<int>(p - x.low) % 2 == 0)
      out += svg::text_at(x.at(v), bottom + 14, svg::number(v), "middle");
  }
  for (double p = y.low; p <= y.high; ++p) {
    const double v = std::pow(10, p);
    out += line_between(left, y.at(v), right, y.at(v));
    out += svg::text_at(left - 6, y.at(v) + 4, rounded(v), "end");
  }
  double at = left;
  for (const curve& c : curves) {
    out += drawn(c, x, y);
    out += "<g fill=\"" + std::string(c.colour) + "\">" + svg::text_at(at, 46, c.name) + "</g>\n";
    at += 130;
  }
  out += svg::text_at((left + right) / 2, bottom + 34, "bytes", "middle") + "</svg>\n";
  std::ofstream file(path);
  file << out;
  return static_cast<bool>(file.flush());
}

}  // namespace penstock::penperf
