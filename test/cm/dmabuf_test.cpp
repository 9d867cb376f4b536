// ibv_reg_dmabuf_mr(3) of memory files, reached over a connection. Run under penverbs; linked with
// the system's libraries alone.
#include <sys/mman.h>

#include "test/cm/cm_h.hpp"

using namespace cm_test;

namespace {

constexpr std::size_t page = 4096, pages = 4;
constexpr int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

struct memory_file {
  int fd = ::memfd_create("buffer", MFD_CLOEXEC);
  memory_file() { REQUIRE(::ftruncate(fd, pages * page) == 0); }
  memory_file(const memory_file&) = delete;
  ~memory_file() { ::close(fd); }
  std::string read(std::size_t at, std::size_t bytes) const {
    std::string text(bytes, '\0');
    CHECK(::pread(fd, text.data(), bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes));
    return text;
  }
};

/// A place of that many bytes where nothing is.
void* free_place() {
  void* at = ::mmap(nullptr, pages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(at != MAP_FAILED);
  ::munmap(at, pages * page);
  return at;
}

bool is_mapped(void* at) {
  unsigned char present;
  return ::mincore(at, page, &present) == 0;
}

std::uint64_t number(const void* at) { return reinterpret_cast<std::uint64_t>(at); }

/// Writes a text from the client to an address of the server.
void write_there(connection& c, const std::string& text, std::uint64_t to, std::uint32_t rkey) {
  std::string from = text;
  ibv_mr* mr = rdma_reg_msgs(c.client, from.data(), from.size());
  REQUIRE(mr != nullptr);
  REQUIRE(rdma_post_write(c.client, nullptr, from.data(), from.size(), mr, 0, to, rkey) == 0);
  ibv_wc wc{};
  CHECK(rdma_get_send_comp(c.client, &wc) == 1);
  CHECK(wc.status == IBV_WC_SUCCESS);
  rdma_dereg_mr(mr);
}

}  // namespace

TEST_CASE("a buffer that the program has mapped is written where it lies") {
  connection c;
  const memory_file file;
  void* at = ::mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
  REQUIRE(at != MAP_FAILED);
  ibv_mr* mr = ibv_reg_dmabuf_mr(c.server->pd, page, 2 * page, number(at) + page, file.fd, rights);
  REQUIRE(mr != nullptr);
  write_there(c, "into the file", number(at) + page + 5, mr->rkey);
  CHECK(file.read(page + 5, 13) == "into the file");
  CHECK(std::memcmp(static_cast<char*>(at) + page + 5, "into the file", 13) == 0);
  CHECK(ibv_dereg_mr(mr) == 0);
  CHECK(is_mapped(at));  // it is the program's
  ::munmap(at, pages * page);
}

TEST_CASE("a buffer that is not mapped lies at its iova as long as it is registered") {
  connection c;
  const memory_file file;
  void* at = free_place();
  ibv_mr* mr = ibv_reg_dmabuf_mr(c.server->pd, 0, pages * page, number(at), file.fd, rights);
  REQUIRE(mr != nullptr);
  write_there(c, "at its iova", number(at) + 3 * page, mr->rkey);
  CHECK(file.read(3 * page, 11) == "at its iova");
  ibv_sge s{number(at) + 3 * page, 11, mr->lkey};  // and it can be sent from there
  std::string to(11, '\0');
  ibv_mr* landing = rdma_reg_msgs(c.client, to.data(), to.size());
  REQUIRE(rdma_post_recv(c.client, nullptr, to.data(), to.size(), landing) == 0);
  REQUIRE(rdma_post_sendv(c.server, nullptr, &s, 1, 0) == 0);
  ibv_wc wc{};
  CHECK(rdma_get_recv_comp(c.client, &wc) == 1);
  CHECK(to == "at its iova");
  rdma_dereg_mr(landing);
  CHECK(ibv_dereg_mr(mr) == 0);
  CHECK_FALSE(is_mapped(at));
}

TEST_CASE("what cannot be registered of a buffer is refused") {
  connection c;
  const memory_file file;
  ibv_pd* pd = c.server->pd;
  const std::uint64_t at = number(free_place());
  const auto refused = [&](std::uint64_t offset, std::size_t bytes, std::uint64_t iova, int fd,
                           int access) {
    errno = 0;
    return ibv_reg_dmabuf_mr(pd, offset, bytes, iova, fd, access) == nullptr ? errno : 0;
  };
  CHECK(refused(0, (pages + 1) * page, at, file.fd, rights) == EINVAL);  // beyond its end
  CHECK(refused(0, 0, at, file.fd, rights) == EINVAL);
  CHECK(refused(0, page, at + 8, file.fd, rights) == EINVAL);  // not the same within a page
  CHECK(refused(0, page, at, -1, rights) == EBADF);
  CHECK(refused(0, page, 0, file.fd, rights) == EOPNOTSUPP);  // nothing can lie at 0
  std::vector<char> other(3 * page);                          // and not where something else is
  CHECK(refused(0, page, (number(other.data()) + page) / page * page, file.fd, rights) ==
        EOPNOTSUPP);
  CHECK(refused(0, page, at, file.fd, rights | IBV_ACCESS_MW_BIND) == EOPNOTSUPP);
  ibv_mr* mr = ibv_reg_dmabuf_mr(pd, 0, page, at, file.fd, rights);
  REQUIRE(mr != nullptr);
  CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0) != 0);
  CHECK(ibv_dereg_mr(mr) == 0);
}
