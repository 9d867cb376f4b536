// See target.hpp.
#include <sys/mman.h>
#include <unistd.h>

#include "test/fuzz/target.hpp"

namespace fuzz {

memory_file::memory_file(std::string_view text) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
  FUZZ_CHECK(fd_ >= 0);
  FUZZ_CHECK(::write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}
memory_file::~memory_file() { ::close(fd_); }

}  // namespace fuzz
