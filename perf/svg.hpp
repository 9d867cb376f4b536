// Charts as SVG, for tools that report: a heat map and lines. The functions return the text, and
// the caller writes the file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace penstock::svg {

/// Escapes what XML would take for markup.
inline std::string escaped(const std::string& s) {
  std::string out;
  for (const char c : s) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

inline std::string number(double v) {
  std::string s = std::to_string(v);
  while (s.back() == '0') s.pop_back();
  if (s.back() == '.') s.pop_back();
  return s;
}

inline std::string text_at(double x, double y, const std::string& s, const char* anchor = "start") {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\">" +
         escaped(s) + "</text>\n";
}

inline std::string begin(double width, double height, const std::string& title) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width) + " " +
         number(height) + "\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" " +
         "height=\"100%\" fill=\"white\"/>\n" + text_at(60, 20, title);
}

/// From white (0) through orange to dark red (1).
inline std::string heat_colour(double v) {
  v = std::clamp(v, 0.0, 1.0);
  const auto channel = [](double c) { return std::to_string(static_cast<int>(c)); };
  return "rgb(" + channel(255 - 115 * v * v) + "," + channel(250 - 235 * std::min(1.0, v * 1.1)) +
         "," + channel(240 - 225 * std::min(1.0, v * 1.6)) + ")";
}

struct heat_map {
  std::string title, across, down;                ///< across and down name the axes
  std::vector<std::string> rows;                  ///< one label a row
  std::vector<std::vector<std::uint32_t>> cells;  ///< [row][column]

  /// The picture; colours run from 0 to the largest value.
  [[nodiscard]] std::string draw() const {
    std::size_t columns = 1;
    std::uint32_t most = 1;
    for (const auto& r : cells) {
      columns = std::max(columns, r.size());
      for (const std::uint32_t v : r) most = std::max(most, v);
    }
    const double w = std::max(2.0, 760.0 / static_cast<double>(columns));
    const double h = std::clamp(480.0 / static_cast<double>(cells.size() + 1), 3.0, 18.0);
    const double height = 80 + h * static_cast<double>(cells.size());
    std::string out = begin(80 + w * static_cast<double>(columns), height,
                            title + " (darkest: " + std::to_string(most) + ")");
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const double y = 40 + h * static_cast<double>(i);
      if (i < rows.size() && (h >= 10 || i % 8 == 0)) out += text_at(56, y + 9, rows[i], "end");
      for (std::size_t j = 0; j < cells[i].size(); ++j)
        out += "<rect x=\"" + number(60 + w * static_cast<double>(j)) + "\" y=\"" + number(y) +
               "\" width=\"" + number(w) + "\" height=\"" + number(h) + "\" fill=\"" +
               heat_colour(static_cast<double>(cells[i][j]) / most) + "\"><title>" +
               std::to_string(cells[i][j]) + "</title></rect>\n";
    }
    return out + text_at(60, height - 18, across) + text_at(60, 34, down) + "</svg>\n";
  }
};

struct line_chart {
  std::string title, across;  ///< across names what runs from left to right
  std::string up;   ///< what all lines count, on one scale; empty: each has a scale of its own
  double last = 0;  ///< where the axis of `across` ends; 0: it has no numbers
  std::vector<std::pair<std::string, std::vector<double>>> lines;  ///< name and values

  /// The picture. A line with a scale of its own goes up to its largest value, which its legend
  /// names. Legends stand below the axes, as many in a row as fit.
  [[nodiscard]] std::string draw() const {
    static const char* const colours[] = {"#c0392b", "#2471a3", "#1e8449", "#7d3c98",
                                          "#b7950b", "#117a65", "#5d6d7e", "#ca6f1e"};
    const auto top = [](const std::vector<double>& values) {
      double most = 0;
      for (const double v : values) most = std::max(most, v);
      return most;
    };
    double top_of_all = 0;
    for (const auto& line : lines) top_of_all = std::max(top_of_all, top(line.second));
    std::string body = axes(up.empty() ? 0 : top_of_all), legends;
    double x = 70, y = 395;
    for (std::size_t k = 0; k < lines.size(); ++k) {
      const auto& [name, values] = lines[k];
      const std::string colour = colours[k % std::size(colours)];
      const double most = up.empty() ? top(values) : top_of_all;
      std::string points;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double steps = std::max<double>(1, static_cast<double>(values.size()) - 1);
        points += number(60 + 760 * static_cast<double>(i) / steps) + "," +
                  number(340 - 290 * (most > 0 ? values[i] / most : 0)) + " ";
      }
      // More lines than colours are told apart by dashes.
      const std::string dashes = k < std::size(colours) ? "" : " stroke-dasharray=\"6 3\"";
      body += "<polyline fill=\"none\" stroke=\"" + colour + "\"" + dashes + " points=\"" + points +
              "\"/>\n";
      const std::string legend = name + ", top " + number(top(values));
      const double width = text_width(legend) + 30;
      if (x > 70 && x + width > 820) x = 70, y += 16;
      legends += "<line x1=\"" + number(x) + "\" y1=\"" + number(y - 4) + "\" x2=\"" +
                 number(x + 16) + "\" y2=\"" + number(y - 4) + "\" stroke=\"" + colour + "\"" +
                 dashes + "/>\n" + text_at(x + 20, y, legend);
      x += width;
    }
    return begin(860, y + 15, title) + body + legends + "</svg>\n";
  }

  /// At least the width of a text of this size of letters.
  static double text_width(const std::string& s) { return 6.6 * static_cast<double>(s.size()); }

 private:
  // The frame, and at both axes what they count; with numbers where they are known.
  [[nodiscard]] std::string axes(double top_of_all) const {
    std::string out =
        "<rect x=\"60\" y=\"40\" width=\"760\" height=\"300\" fill=\"none\" stroke=\"#999\"/>\n";
    const auto tick = [&out](double x1, double y1, double x2, double y2) {
      out += "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) +
             "\" y2=\"" + number(y2) + "\" stroke=\"#999\"/>\n";
    };
    for (const int quarter : {0, 1, 2, 3, 4}) {
      const double x = 60 + 190.0 * quarter, y = 340 - 72.5 * quarter;
      tick(x, 340, x, 345);
      tick(55, y, 60, y);
      if (last > 0) out += text_at(x, 356, number(last * quarter / 4), "middle");
      out += text_at(
          52, y + 4,
          top_of_all > 0 ? number(top_of_all * quarter / 4) : std::to_string(25 * quarter) + " %",
          "end");
    }
    return out + text_at(440, 374, across, "middle") +
           text_at(60, 34, top_of_all > 0 ? up : "of each line's top");
  }
};

}  // namespace penstock::svg
