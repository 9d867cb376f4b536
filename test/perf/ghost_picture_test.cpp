#include <doctest/doctest.h>
#include <png.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "perf/ghost/picture.hpp"

using namespace penstock::ghost;

namespace {

struct scratch {
  std::filesystem::path path;
  explicit scratch(const char* name)
      : path(std::filesystem::temp_directory_path() /
             ("penstock-" + std::to_string(getpid()) + name)) {}
  ~scratch() { std::filesystem::remove(path); }
};

/// A dark square with one bright cell, column 3, row 1.
std::vector<double> one_bright() {
  std::vector<double> t(64);
  t[1 * 8 + 3] = 1;
  return t;
}

int brightness(const std::vector<unsigned char>& rgb, unsigned edge, unsigned x, unsigned y) {
  const unsigned char* p = rgb.data() + (y * edge + x) * 3;
  return p[0] + p[1] + p[2];
}

void check_picture(const std::vector<unsigned char>& rgb, unsigned edge) {
  REQUIRE(edge == 384);  // 8 cells, 48 pixels each
  CHECK(brightness(rgb, edge, 3 * 48, 48) > 700);
  CHECK(brightness(rgb, edge, 4 * 48 - 1, 2 * 48 - 1) > 700);
  CHECK(brightness(rgb, edge, 4 * 48, 48) < 100);
  CHECK(brightness(rgb, edge, 48, 3 * 48) < 100);
}

}  // namespace

TEST_CASE("A PNG holds the slice, enlarged by a whole factor") {
  const scratch file(".png");
  REQUIRE(write_picture(file.path, one_bright(), 8));
  png_image head{};
  head.version = PNG_IMAGE_VERSION;
  REQUIRE(png_image_begin_read_from_file(&head, file.path.c_str()) != 0);
  head.format = PNG_FORMAT_RGB;
  std::vector<unsigned char> rgb(PNG_IMAGE_SIZE(head));
  REQUIRE(png_image_finish_read(&head, nullptr, rgb.data(), 0, nullptr) != 0);
  CHECK(head.width == head.height);
  check_picture(rgb, head.width);
}

TEST_CASE("A PPM holds the same") {
  const scratch file(".ppm");
  REQUIRE(write_picture(file.path, one_bright(), 8));
  std::FILE* f = std::fopen(file.path.c_str(), "rb");
  REQUIRE(f != nullptr);
  unsigned w = 0, h = 0;
  CHECK(std::fscanf(f, "P6 %u %u 255", &w, &h) == 2);
  std::fgetc(f);
  std::vector<unsigned char> rgb(std::size_t{w} * h * 3 + 1);
  CHECK(std::fread(rgb.data(), 1, rgb.size(), f) == rgb.size() - 1);
  std::fclose(f);
  check_picture(rgb, w);
}

TEST_CASE("Temperatures beyond the scale, and none at all, give colours of the scale") {
  const scratch file(".ppm");
  CHECK(write_picture(
      file.path, std::vector<double>{-5, 7, std::numeric_limits<double>::quiet_NaN(), 0.5}, 2));
}

TEST_CASE("A file that cannot be written is an error that names it") {
  for (const char* name : {"/nonexistent/x.png", "/nonexistent/x.ppm"}) {
    const auto r = write_picture(name, one_bright(), 8);
    REQUIRE_FALSE(r);
    CHECK(r.error().message().find(name) != std::string::npos);
  }
}

TEST_CASE("Only names of pictures count as such") {
  CHECK(is_picture_name("a.png"));
  CHECK(is_picture_name("dir/b.ppm"));
  CHECK_FALSE(is_picture_name(".png"));
  CHECK_FALSE(is_picture_name("c.jpg"));
}
