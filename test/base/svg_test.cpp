// Charts: everything lies inside the picture, and each line can be told from the others.
#include "perf/svg.hpp"

#include <doctest/doctest.h>

#include <regex>
#include <set>

using namespace penstock;

namespace {

std::vector<std::smatch> all(const std::string& text, const char* pattern) {
  const std::regex r(pattern);
  return {std::sregex_iterator(text.begin(), text.end(), r), {}};
}

svg::line_chart chart_of(std::size_t lines) {
  svg::line_chart c;
  c.title = "a title";
  c.across = "time in steps";
  c.last = 2000;
  for (std::size_t k = 0; k < lines; ++k)
    c.lines.emplace_back("a rule with a name, number " + std::to_string(k),
                         std::vector<double>{0, 1234567.0 + static_cast<double>(k), 5});
  return c;
}

}  // namespace

TEST_CASE("the legends of up to twelve lines lie inside the picture, none over another") {
  for (std::size_t lines = 1; lines <= 12; ++lines) {
    const std::string picture = chart_of(lines).draw();
    const auto size = all(picture, "viewBox=\"0 0 ([0-9.]+) ([0-9.]+)\"");
    REQUIRE(size.size() == 1);
    const double width = std::stod(size[0][1]), height = std::stod(size[0][2]);
    const auto legends =
        all(picture, "<text x=\"([0-9.]+)\" y=\"([0-9.]+)\" text-anchor=\"start\">(a rule[^<]*)<");
    REQUIRE(legends.size() == lines);
    std::set<std::pair<double, double>> places;
    double end = 0, row = 0;
    for (const auto& l : legends) {
      const double x = std::stod(l[1]), y = std::stod(l[2]);
      const double right = x + svg::line_chart::text_width(l[3]);
      CHECK(right <= width);
      CHECK(y <= height - 5);
      CHECK((y > row || x > end));
      CHECK(places.emplace(x, y).second);
      end = right, row = y;
    }
  }
}

TEST_CASE("twelve lines differ by colour or dashes") {
  std::set<std::string> looks;
  const std::string picture = chart_of(12).draw();
  for (const auto& l : all(picture, "<polyline fill=\"none\" (stroke=[^p]*)points"))
    looks.insert(l[1]);
  CHECK(looks.size() == 12);
}

TEST_CASE("axes have names and numbers, and lines of one kind one scale") {
  svg::line_chart c = chart_of(1);
  c.up = "messages";
  c.lines = {{"half", {0, 50}}, {"whole", {0, 100}}};
  const std::string picture = c.draw();
  for (const char* text :
       {">messages<", ">time in steps<", ">2000<", ">1000<", ">100<", ">25<", ">0<"})
    CHECK(picture.find(text) != std::string::npos);
  CHECK(picture.find("820,195 ") != std::string::npos);  // 50 of 100, half way up
  CHECK(picture.find("820,50 ") != std::string::npos);
  c.up.clear();
  CHECK(c.draw().find("820,195 ") == std::string::npos);
  CHECK(c.draw().find(">100 %<") != std::string::npos);
}
