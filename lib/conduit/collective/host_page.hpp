// A page in which barriers count, and which all processes of a job on one host share. Rank 0 makes
// it, the others open it through /proc, and it is used only if all have it: if one process cannot
// open it (in a container of its own, as another user, without /proc), no process uses it. This
// file sets it up; barrier.hpp and meeting.hpp use it.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/base/result.hpp"
#include "lib/conduit/collective/counting.hpp"
#include "penstock/mode.hpp"

namespace penstock::job {
class job;
}

namespace penstock::conduit::PENSTOCK_ABI {

class host_page {
 public:
  /// Says where rank 0 has the page; travels in its introduction. proof 0: there is no page.
  struct ticket {
    std::uint64_t proof = 0;
    std::int32_t pid = 0, fd = -1;
  };

  /// Makes a page. Null: the system refuses.
  static std::unique_ptr<host_page> make() noexcept;
  [[nodiscard]] ticket offer() const noexcept;
  /// Maps the page of another process's ticket. Null: it cannot be mapped.
  static std::unique_ptr<host_page> open(const ticket& t) noexcept;

  /// Collective, after all have rank 0's ticket; own is rank 0's page, and null elsewhere. The
  /// result is null, on all ranks, if one of them could not map the page.
  static result<std::unique_ptr<host_page>> share(job::job& j, const ticket& t,
                                                  std::unique_ptr<host_page> own);

  /// Ends the job, since a count in the page has been written over.
  [[noreturn, gnu::cold]] static void broken() noexcept;

  host_page(const host_page&) = delete;
  host_page& operator=(const host_page&) = delete;
  ~host_page();

  /// The counts of the C++ interface's barrier, and of gasnet.h's.
  [[nodiscard]] counting_words& meeting() noexcept { return whole_->meeting; }
  [[nodiscard]] counting_words& barrier() noexcept { return whole_->barrier; }

 private:
  struct alignas(cache_line) layout {
    std::uint64_t proof;
    alignas(cache_line) counting_words meeting, barrier;
  };
  static_assert(sizeof(layout) <= 4096);

  host_page() noexcept = default;
  bool map(int fd) noexcept;

  int fd_ = -1;  // on rank 0, until all have opened it
  layout* whole_ = nullptr;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
