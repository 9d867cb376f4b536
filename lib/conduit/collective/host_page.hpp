// A page that all processes of a job share, where they are on one host: what barriers count in.
// Made by rank 0, opened by the others through /proc, used only if all have got it; who cannot (a
// container of its own, another user, /proc forbidden) makes all do without. Set-up only: who uses
// it, and when, is barrier.hpp's and meeting.hpp's matter.
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
  /// Where rank 0 has it; travels in its introduction. proof 0: there is none.
  struct ticket {
    std::uint64_t proof = 0;
    std::int32_t pid = 0, fd = -1;
  };

  /// Null where the system refuses: then there is none.
  static std::unique_ptr<host_page> make() noexcept;
  [[nodiscard]] ticket offer() const noexcept;
  /// Maps the page of that ticket, another process's. Null where that cannot be.
  static std::unique_ptr<host_page> open(const ticket& t) noexcept;

  /// Collective, after all have rank 0's ticket; own is rank 0's page, and null elsewhere. Null if
  /// not all have it.
  static result<std::unique_ptr<host_page>> share(job::job& j, const ticket& t,
                                                  std::unique_ptr<host_page> own);

  /// Ends the job: what is counted there cannot be.
  [[noreturn, gnu::cold]] static void broken() noexcept;

  host_page(const host_page&) = delete;
  host_page& operator=(const host_page&) = delete;
  ~host_page();

  /// Of the C++ interface's barrier, and of gasnet.h's.
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

  int fd_ = -1;  // rank 0's, until all have opened it
  layout* whole_ = nullptr;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
