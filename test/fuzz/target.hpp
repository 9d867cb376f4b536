// What a fuzz target is: a function of bytes, the same for libFuzzer and for driver.cpp; and how it
// reads them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes);

namespace fuzz {

/// Ends the process, with a line, where an oracle does not hold.
#define FUZZ_CHECK(ok)                                                      \
  do {                                                                      \
    if (!(ok)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #ok); \
      std::abort();                                                         \
    }                                                                       \
  } while (0)

/// Takes values off an input; behind its end all are 0.
class input {
 public:
  input(const std::uint8_t* data, std::size_t bytes) : data_(data), left_(bytes) {}
  template <class T>
  T take() {
    T v{};
    const std::size_t n = std::min(sizeof v, left_);
    if (n != 0) std::memcpy(&v, data_, n);
    data_ += n, left_ -= n;
    return v;
  }
  std::uint8_t byte() { return take<std::uint8_t>(); }
  [[nodiscard]] bool empty() const { return left_ == 0; }
  std::string_view rest() {
    const std::string_view r(reinterpret_cast<const char*>(data_), left_);
    left_ = 0;
    return r;
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

/// A file in memory with that text, by its path.
class memory_file {
 public:
  explicit memory_file(std::string_view text);
  ~memory_file();
  memory_file(const memory_file&) = delete;
  memory_file& operator=(const memory_file&) = delete;
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace fuzz
