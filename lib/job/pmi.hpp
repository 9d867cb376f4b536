// The two versions of PMI's wire protocol, which launchers speak with the processes they start over
// a socket: MPICH's hydra, Slurm's pmi2, Intel's and Cray's. Used by pmi_client.cpp only. No libpmi
// is needed. Both offer a table of keys and values that all processes fill, and a fence after which
// all may read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/result.hpp"

namespace penstock::job {

/// A process's place, as its environment or the launcher tells it.
struct pmi_place {
  std::uint32_t rank = 0, size = 0;
};

/// One version of the protocol over a connection that stays its maker's. One thread at a time, but
/// tell_abort().
class pmi_speech {
 public:
  virtual ~pmi_speech() = default;
  /// After the versions were agreed on. May correct the place.
  virtual result<void> begin(pmi_place& place) = 0;
  /// Neither key nor value may hold blanks, ';' or '='.
  virtual result<void> put(const std::string& key, const std::string& value) = 0;
  /// Everybody's; the first half says that this process is there, and waits for nothing.
  virtual result<void> begin_fence() = 0;
  /// The second, in steps: waits for the launcher's next word, and is true when all are there.
  virtual result<bool> step_fence() = 0;
  result<void> fence() {
    if (auto begun = begin_fence(); !begun) return begun;
    for (;;) {
      const auto over = step_fence();
      if (!over) return over.error();
      if (*over) return {};
    }
  }
  /// A value that was put before the last fence.
  virtual result<std::string> get(const std::string& key) = 0;
  /// Which ranks run on which host, "(vector,(0,2,4))"; empty if the launcher does not say.
  virtual std::string mapping() = 0;
  /// Waits for the launcher's word. Also between the halves of a fence.
  virtual void finalize() = 0;
  /// Async-signal-safe; waits for nothing.
  virtual void tell_abort(int code) noexcept = 0;
  /// Characters of the longest value.
  [[nodiscard]] std::size_t longest_value() const noexcept { return longest_value_; }

 protected:
  std::size_t longest_value_ = 512;
};

/// Both begin with the same line, in which the version is agreed on: true if the launcher takes it.
result<bool> pmi_agree_on(int fd, int version, int subversion);
std::unique_ptr<pmi_speech> speak_pmi1(int fd);
/// job: how the environment names the job, for launchers that want to hear it again.
std::unique_ptr<pmi_speech> speak_pmi2(int fd, std::string job);

/// The next line that the launcher says, without its end. Fails when the launcher is gone.
result<std::string> pmi_read_line(int fd);
/// What stands behind `name=` among the words of `text`, which `separator` divides; empty if
/// nothing does.
std::string pmi_word(std::string_view text, std::string_view name, char separator);
/// Why nothing more comes.
failure pmi_is_gone();
/// What a launcher answered that was not what was asked for.
failure pmi_refused(std::string_view asked, std::string_view answer);

}  // namespace penstock::job
