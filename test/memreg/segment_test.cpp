// Segments: their promises about memory, sealing, peers and registration.
#include "memreg/segment.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "memreg/host_memory.hpp"
#include "test/memreg/fake_registrar.hpp"

using namespace penstock;
using namespace penstock::memreg;

namespace {

segment make(std::size_t bytes, commit_policy policy = commit_policy::automatic,
             std::size_t reserve = 0) {
  segment_options o;
  o.bytes = bytes;
  o.reserve = reserve;
  o.commit = policy;
  auto s = segment::create(o);
  REQUIRE_MESSAGE(s.has_value(), (s ? "" : s.error().message()));
  return std::move(*s);
}

std::uint64_t blocks_of(const segment& s) {
  struct stat info {};
  REQUIRE(fstat(s.fd(), &info) == 0);
  return static_cast<std::uint64_t>(info.st_blocks) * 512;
}

}  // namespace

TEST_CASE("a segment is rounded up to whole pages, aligned and zero-filled") {
  const segment s = make(3 * page_bytes() + 1);
  CHECK(s.bytes() == 4 * page_bytes());
  CHECK(reinterpret_cast<std::uintptr_t>(s.base()) % page_bytes() == 0);
  for (std::size_t i = 0; i < s.bytes(); i += 512) CHECK(s.base()[i] == std::byte{0});
}

TEST_CASE("a large segment is aligned for huge pages") {
  const segment s = make(std::size_t{32} << 20, commit_policy::lazy);
  if (huge_page_bytes() != 0)
    CHECK(reinterpret_cast<std::uintptr_t>(s.base()) % huge_page_bytes() == 0);
}

TEST_CASE("a small segment has its pages from the start, a lazy one has none") {
  CHECK(blocks_of(make(std::size_t{1} << 20)) == std::size_t{1} << 20);
  CHECK(blocks_of(make(std::size_t{1} << 20, commit_policy::lazy)) == 0);
}

TEST_CASE("a segment above the eager size stays lazy, and commit takes just the part asked for") {
  segment_options o;
  o.bytes = 64 * page_bytes();
  o.eager_bytes = 16 * page_bytes();
  auto s = segment::create(o);
  REQUIRE(s);
  CHECK(blocks_of(*s) == 0);
  REQUIRE(s->commit(8 * page_bytes(), 4 * page_bytes()));
  CHECK(blocks_of(*s) == 4 * page_bytes());
}

TEST_CASE("a huge lazy segment costs nothing until it is touched") {
  const segment s = make(std::size_t{2} << 30, commit_policy::lazy);
  s.base()[s.bytes() - 1] = std::byte{1};
  CHECK(blocks_of(s) <= 2 * (std::size_t{2} << 20));
}

TEST_CASE("a segment larger than the host's memory is refused with a size and a hint") {
  segment_options o;
  o.bytes = probe_host_memory().physical * 2;
  const auto s = segment::create(o);
  REQUIRE(!s);
  CHECK(s.error().code == ENOMEM);
  CHECK(s.error().message().find("GASNET_MAX_SEGSIZE") != std::string::npos);
}

TEST_CASE("committing outside the segment is refused") {
  segment s = make(4 * page_bytes(), commit_policy::lazy);
  CHECK(!s.commit(3 * page_bytes(), 2 * page_bytes()));
  CHECK(!s.commit(5 * page_bytes(), 0));
  CHECK(!s.commit(page_bytes(), SIZE_MAX));
}

TEST_CASE("committing more than is available fails before it takes anything") {
  segment_options o;
  o.bytes = probe_host_memory().physical - page_bytes();
  o.commit = commit_policy::eager;
  o.huge_pages = false;
  const auto s = segment::create(o);
  REQUIRE(!s);
  CHECK(s.error().code == ENOMEM);
  CHECK(s.error().message().find("available") != std::string::npos);
}

TEST_CASE("a segment of no bytes is refused") { CHECK(!segment::create({})); }

TEST_CASE("contains is right at the edges and for lengths that wrap") {
  const segment s = make(page_bytes());
  CHECK(s.contains(s.base(), page_bytes()));
  CHECK(s.contains(s.base() + page_bytes(), 0));
  CHECK_FALSE(s.contains(s.base(), page_bytes() + 1));
  CHECK_FALSE(s.contains(s.base() + 1, page_bytes()));
  CHECK_FALSE(s.contains(s.base() + 8, SIZE_MAX));
  CHECK_FALSE(s.contains(s.base() - 1, 1));
  CHECK_FALSE(segment{}.contains(nullptr, 0));
}

TEST_CASE("whoever has its descriptor maps the same pages") {
  const segment s = make(4 * page_bytes());
  void* const there = mmap(nullptr, s.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, s.fd(), 0);
  REQUIRE(there != MAP_FAILED);
  std::strcpy(static_cast<char*>(there) + 5000, "written by the peer");
  CHECK(std::strcmp(reinterpret_cast<char*>(s.base()) + 5000, "written by the peer") == 0);
  munmap(there, s.bytes());
}

TEST_CASE("a segment cannot be cut short or grown by whoever holds its descriptor") {
  const segment s = make(4 * page_bytes());
  CHECK(ftruncate(s.fd(), 0) == -1);
  CHECK(errno == EPERM);
  CHECK(ftruncate(s.fd(), static_cast<off_t>(8 * page_bytes())) == -1);
}

TEST_CASE("attach registers the whole segment once, and destruction deregisters it") {
  fake_registrar device;
  {
    segment s = make(8 * page_bytes());
    REQUIRE(s.attach(device, access::all));
    CHECK(device.live().size() == 1);
    CHECK(device.covers(s.keys().lkey, s.base(), s.bytes()));
    CHECK(device.declared == 1);
    CHECK(!s.attach(device));
    segment moved = std::move(s);
    CHECK(moved.attached());
    CHECK_FALSE(s.attached());
    CHECK(device.live().size() == 1);
  }
  CHECK(device.live().empty());
  CHECK(device.wrong == 0);
  CHECK(device.declared == 0);
}

TEST_CASE("a thread that uses a segment while it is extended finds keys for all bytes it sees") {
  fake_registrar device;
  segment s = make(page_bytes(), commit_policy::automatic, 64 * page_bytes());
  REQUIRE(s.attach(device));
  std::atomic<bool> over{false};
  std::thread user([&] {
    while (!over && !s.contains(s.base(), 64 * page_bytes()))
      if (!device.covers(s.keys().lkey, s.base(), page_bytes())) break;
    CHECK(device.covers(s.keys().lkey, s.base(), s.bytes()));
  });
  CHECK(s.extend(64 * page_bytes()));
  over = true;
  user.join();
  s.detach();
  CHECK(device.live().empty());
}

TEST_CASE("a segment whose extension is refused is as it was, and may be extended later") {
  fake_registrar device;
  segment s = make(page_bytes(), commit_policy::automatic, 4 * page_bytes());
  REQUIRE(s.attach(device));
  const std::uint32_t key = s.keys().lkey;
  device.refuse = true;
  CHECK(!s.extend(2 * page_bytes()));
  CHECK(s.bytes() == page_bytes());
  CHECK(s.keys().lkey == key);
  device.refuse = false;
  CHECK(s.extend(2 * page_bytes()));
  CHECK(s.bytes() == 2 * page_bytes());
  CHECK(device.covers(s.keys().lkey, s.base(), 2 * page_bytes()));
  CHECK(device.covers(key, s.base(), page_bytes()));
}

TEST_CASE("a refused registration leaves the segment usable and detached") {
  fake_registrar device;
  device.refuse = true;
  segment s = make(page_bytes());
  const auto r = s.attach(device);
  REQUIRE(!r);
  CHECK(r.error().code == ENOMEM);
  CHECK_FALSE(s.attached());
  CHECK(device.declared == 0);
  device.refuse = false;
  CHECK(s.attach(device));
}
