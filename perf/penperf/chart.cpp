// See chart.hpp.
#include "perf/penperf/chart.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <utility>
#include <vector>

#include "perf/svg.hpp"

namespace penstock::penperf {
namespace {

constexpr double left = 96, right = 856, bottom_room = 60, inner_height = 300;
constexpr const char *our_colour = "#c0392b", *tail_colour = "#e59866", *twin_colour = "#2471a3";

struct curve {
  std::string name, colour;
  std::vector<std::pair<double, double>> points{};
};

/// Where a value lies on an axis; its values are logarithms of the quantity drawn.
struct axis {
  double low = 0, high = 1;
  std::vector<std::pair<double, std::string>> ticks{};

  [[nodiscard]] double at(double v, double from, double to) const {
    return from + (to - from) * (v - low) / (high - low);
  }
};

std::string rounded(double v) {
  constexpr std::pair<double, const char*> units[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [unit, name] : units)
    if (v >= unit) return svg::number(v / unit) + name;
  return svg::number(v);
}
std::string bytes(double v) {
  constexpr std::pair<double, const char*> units[] = {{1u << 20, "M"}, {1u << 10, "K"}};
  for (const auto& [unit, name] : units)
    if (v >= unit && std::fmod(v, unit) == 0) return svg::number(v / unit) + name;
  return svg::number(v);
}
std::string time(double ns) {
  constexpr std::pair<double, const char*> units[] = {{1e9, " s"}, {1e6, " ms"}, {1e3, " µs"}};
  for (const auto& [unit, name] : units)
    if (ns >= unit) return svg::number(ns / unit) + name;
  return svg::number(ns) + " ns";
}

/// Ticks at 1, 2 and 5 times powers of 10, or at the powers alone where those are many.
axis decimal_axis(double least, double most, std::string (*name)(double)) {
  axis a{std::log10(least), std::log10(most)};
  const bool few = a.high - a.low < 3.2;
  const auto near = [&](double v, bool up) {
    const double power = std::pow(10, std::floor(v + (up ? -1e-9 : 1e-9)));
    const double over = std::pow(10, v) / power;
    const double steps[] = {1, 2, 5, 10};
    if (!few) return std::log10(up ? power * 10 : power);
    if (up)
      return std::log10(
          power * *std::find_if(steps, steps + 3, [&](double s) { return s >= over * 0.999; }));
    return std::log10(power * (over >= 4.999 ? 5 : over >= 1.999 ? 2 : 1));
  };
  a.low = near(a.low, false), a.high = near(a.high, true);
  if (a.high - a.low < 0.3) a.high = a.low + 1;
  for (double p = std::floor(a.low); p <= a.high; ++p)
    for (const double s : {1.0, 2.0, 5.0}) {
      const double v = p + std::log10(s);
      if ((s == 1 || few) && v > a.low - 1e-6 && v < a.high + 1e-6)
        a.ticks.emplace_back(v, name(s * std::pow(10, p)));
    }
  return a;
}

axis size_axis(double least, double most) {
  axis a{std::floor(std::log2(least)), std::ceil(std::log2(most))};
  a.high = std::max(a.high, a.low + 1);
  const double each = a.high - a.low > 13 ? 2 : 1;
  for (double p = a.low; p <= a.high; p += each) a.ticks.emplace_back(p, bytes(std::exp2(p)));
  return a;
}

/// Of shares of `count` samples, as -log10 of what is above them.
axis share_axis(double count) {
  axis a{0, std::max(2.0, std::ceil(std::log10(count) - 1e-9))};
  a.ticks = {{0, "0 %"}, {std::log10(2), "50 %"}, {1, "90 %"}, {2, "99 %"}};
  std::string nines = "99.";
  for (double p = 3; p <= a.high; ++p) a.ticks.emplace_back(p, (nines += "9") + " %");
  return a;
}

std::string line_between(double x1, double y1, double x2, double y2) {
  return "<line stroke=\"#ddd\" x1=\"" + svg::number(x1) + "\" y1=\"" + svg::number(y1) +
         "\" x2=\"" + svg::number(x2) + "\" y2=\"" + svg::number(y2) + "\"/>\n";
}

struct picture {
  std::string title, across, up;  ///< across and up name the axes
  axis x, y;
  std::vector<curve> curves;
  bool dots = true;

  [[nodiscard]] bool write(const std::string& path) const {
    constexpr std::size_t names_in_a_row = 6;
    const double rows = std::ceil(static_cast<double>(curves.size()) / names_in_a_row);
    const double top = 44 + 16 * rows, bottom = top + inner_height;
    std::string out = svg::begin(right + 40, bottom + bottom_room, title);
    for (const auto& [v, name] : x.ticks) {
      const double at = x.at(v, left, right);
      out += line_between(at, top, at, bottom) + svg::text_at(at, bottom + 16, name, "middle");
    }
    for (const auto& [v, name] : y.ticks) {
      const double at = y.at(v, bottom, top);
      out += line_between(left, at, right, at) + svg::text_at(left - 6, at + 4, name, "end");
    }
    for (std::size_t i = 0; i < curves.size(); ++i) {
      const curve& c = curves[i];
      std::string points, circles;
      for (const auto& [px, py] : c.points) {
        const std::string cx = svg::number(x.at(px, left, right)),
                          cy = svg::number(y.at(py, bottom, top));
        points += cx + "," + cy + " ";
        if (dots) circles += "<circle r=\"2.5\" cx=\"" + cx + "\" cy=\"" + cy + "\"/>\n";
      }
      const double name_x = left + 130 * static_cast<double>(i % names_in_a_row),
                   name_y = 42 + 16 * static_cast<double>(i / names_in_a_row);
      out += "<polyline fill=\"none\" stroke=\"" + c.colour + "\" points=\"" + points +
             "\"/>\n<g fill=\"" + c.colour + "\">\n<rect x=\"" + svg::number(name_x) + "\" y=\"" +
             svg::number(name_y - 5) + "\" width=\"14\" height=\"3\"/>\n" + circles +
             svg::text_at(name_x + 18, name_y, c.name) + "</g>\n";
    }
    out += svg::text_at((left + right) / 2, bottom + 40, across, "middle") +
           "<g transform=\"translate(16 " + svg::number((top + bottom) / 2) + ") rotate(-90)\">" +
           svg::text_at(0, 0, up, "middle") + "</g>\n</svg>\n";
    std::ofstream file(path);
    file << out;
    return static_cast<bool>(file.flush());
  }
};

std::string heading(const perf::measurement& m, const std::string& what) {
  return m.bench + " " + m.kind + ", " + m.device + ", " + m.mode + ": " + what;
}

/// Curves by size; their points are sizes and values, both above 0.
bool draw_by_size(const std::string& title, const std::string& up, std::vector<curve> curves,
                  std::string (*name)(double), const std::string& path) {
  double least = 1e300, most = 0, small = 1e300, large = 0;
  for (const curve& c : curves)
    for (const auto& [size, value] : c.points) {
      least = std::min(least, value), most = std::max(most, value);
      small = std::min(small, size), large = std::max(large, size);
    }
  if (most == 0) return false;
  for (curve& c : curves)
    for (auto& [size, value] : c.points) size = std::log2(size), value = std::log10(value);
  return picture{title,
                 "payload of an operation, bytes",
                 up,
                 size_axis(small, large),
                 decimal_axis(least, most, name),
                 std::move(curves)}
      .write(path);
}

}  // namespace

bool draw(std::span<const perf::measurement> all, const std::string& path) {
  if (all.empty()) return false;
  const bool latency = all.front().is_latency;
  std::vector<curve> curves =
      latency ? std::vector<curve>{{"Penstock's median", our_colour},
                                   {"its 99th percentile", tail_colour},
                                   {"twin's median", twin_colour}}
              : std::vector<curve>{{"Penstock", our_colour}, {"twin", twin_colour}};
  for (const perf::measurement& m : all) {
    const auto size = static_cast<double>(m.size);
    const double values[] = {latency ? m.ns.p50 : m.bytes_per_s(),
                             latency ? m.ns.p99 : m.twin_rate * size, m.twin_ns};
    for (std::size_t i = 0; i < curves.size(); ++i)
      if (size > 0 && values[i] > 0) curves[i].points.emplace_back(size, values[i]);
  }
  const std::string what = latency ? "time of an operation" : "bytes a second";
  return draw_by_size(heading(all.front(), what + ", by size"), what, std::move(curves),
                      latency ? &time : &rounded, path);
}

bool draw_rate(std::span<const perf::measurement> all, const std::string& path) {
  if (all.empty()) return false;
  std::vector<curve> curves{{"Penstock", our_colour}, {"twin", twin_colour}};
  for (const perf::measurement& m : all) {
    const double values[] = {m.rate, m.twin_rate};
    for (std::size_t i = 0; i < curves.size(); ++i)
      if (m.size > 0 && values[i] > 0)
        curves[i].points.emplace_back(static_cast<double>(m.size), values[i]);
  }
  return draw_by_size(heading(all.front(), "operations a second, by size"), "operations a second",
                      std::move(curves), &rounded, path);
}

bool draw_spread(std::span<const perf::measurement> all, const std::string& path) {
  double least = 1e300, most = 0, samples = 1;
  std::vector<curve> curves;
  const auto add = [&](const std::string& name, const std::string& colour,
                       const perf::distribution& d) {
    const auto parts = d.parts();
    if (parts.empty()) return;
    const auto count = static_cast<double>(d.count());
    samples = std::max(samples, count);
    least = std::min(least, parts.front().from), most = std::max(most, parts.back().to);
    curve c{name, colour};
    double seen = 0, height = 0;
    for (const auto& p : parts) {
      c.points.emplace_back(std::log10(p.from), height);  // no samples since the last one
      seen += static_cast<double>(p.count);
      // Nothing is above the largest sample; it is drawn where half a sample would be.
      const double above = std::max(count - seen, 0.5) / count;
      height = -std::log10(above);
      c.points.emplace_back(std::log10(p.to), height);
    }
    curves.push_back(std::move(c));
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    const perf::measurement& m = all[i];
    if (all.size() == 1) {
      add("Penstock", our_colour, m.ns.spread);
      add("twin", twin_colour, m.twin_spread);
    } else {
      const double hue = 300 * static_cast<double>(i) / static_cast<double>(all.size());
      add(bytes(static_cast<double>(m.size)) + (m.size == 1 ? " byte" : " bytes"),
          "hsl(" + svg::number(hue) + ",70%,40%)", m.ns.spread);
    }
  }
  if (curves.empty()) return false;
  return picture{heading(all.front(), "share of the samples that took at most a time"),
                 "time of an operation",
                 "share of the samples",
                 decimal_axis(least, most, &time),
                 share_axis(2 * samples),
                 std::move(curves),
                 false}
      .write(path);
}

}  // namespace penstock::penperf
