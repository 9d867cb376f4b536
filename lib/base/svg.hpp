// Charts as SVG, for tools that report: a heat map and lines. The functions return the text, and
// the caller writes the file. The libraries do not use it.
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
  std::string title, across;
  std::vector<std::pair<std::string, std::vector<double>>> lines;  ///< name and values

  /// The picture; each line is scaled to its own largest value, which its legend names.
  [[nodiscard]] std::string draw() const {
    static const char* const colours[] = {"#c0392b", "#2471a3", "#1e8449", "#7d3c98"};
    std::string out = begin(860, 400, title);
    out += "<rect x=\"60\" y=\"40\" width=\"760\" height=\"300\" fill=\"none\" stroke=\"#999\"/>\n";
    for (std::size_t k = 0; k < lines.size(); ++k) {
      const auto& [name, values] = lines[k];
      const char* const colour = colours[k % std::size(colours)];
      double most = 0;
      for (const double v : values) most = std::max(most, v);
      std::string points;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double steps = std::max<double>(1, static_cast<double>(values.size()) - 1);
        points += number(60 + 760 * static_cast<double>(i) / steps) + "," +
                  number(340 - 290 * (most > 0 ? values[i] / most : 0)) + " ";
      }
      out += "<polyline fill=\"none\" stroke=\"" + std::string(colour) + "\" points=\"" + points +
             "\"/>\n<g fill=\"" + colour + "\">" +
             text_at(70 + 250 * static_cast<double>(k), 360, name + ", top " + number(most)) +
             "</g>\n";
    }
    return out + text_at(60, 385, across) + "</svg>\n";
  }
};

}  // namespace penstock::svg
