// The two versions of PMI's wire protocol, which launchers speak over a socket with the processes
// that they start: MPICH's hydra, Slurm's pmi2, Intel's and Cray's. Only pmi*.cpp use it. No libpmi
// is needed. Both versions have a table of keys and values that all processes fill, and a fence
// after which all may read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/result.hpp"

namespace penstock::job {

/// A process's place in its job, from its environment or from the launcher.
struct pmi_place {
  std::uint32_t rank = 0, size = 0;
};

/// One version of the protocol, over a connection that stays the caller's. One thread at a time
/// calls its functions; any thread may call tell_abort().
class pmi_speech {
 public:
  virtual ~pmi_speech() = default;
  /// Begins, after the versions were agreed on. It may correct the place.
  virtual result<void> begin(pmi_place& place) = 0;
  /// Puts a value. Neither key nor value may hold blanks, ';' or '='.
  virtual result<void> put(const std::string& key, const std::string& value) = 0;
  /// The first half of a fence of all processes: tells the launcher that this one is there, and
  /// does not wait.
  virtual result<void> begin_fence() = 0;
  /// The second half, in steps: waits for the launcher's next message, and is true when all are
  /// there.
  virtual result<bool> step_fence() = 0;
  result<void> fence() {
    if (auto begun = begin_fence(); !begun) return begun;
    for (;;) {
      const auto over = step_fence();
      if (!over) return over.error();
      if (*over) return {};
    }
  }
  /// Gets a value that was put before the last fence.
  virtual result<std::string> get(const std::string& key) = 0;
  /// Says which ranks run on which host, as "(vector,(0,2,4))"; empty if the launcher does not say.
  virtual std::string mapping() = 0;
  /// Takes leave of the launcher, and waits for its answer. It may be called between the halves of
  /// a fence.
  virtual void finalize() = 0;
  /// Asks the launcher to end the job. Async-signal-safe; does not wait.
  virtual void tell_abort(int code) noexcept = 0;
  /// The number of characters of the longest value.
  [[nodiscard]] std::size_t longest_value() const noexcept { return longest_value_; }

 protected:
  std::size_t longest_value_ = 512;
};

/// Agrees on a version by the line with which both versions begin. True: the launcher takes it.
result<bool> pmi_agree_on(int fd, int version, int subversion);
std::unique_ptr<pmi_speech> speak_pmi1(int fd);
/// job: the job's name from the environment, which some launchers want to get back.
std::unique_ptr<pmi_speech> speak_pmi2(int fd, std::string job);

/// Reads the launcher's next line, and returns it without its end. Fails when the launcher is gone.
result<std::string> pmi_read_line(int fd);
/// The value behind `name=` among the words of `text`, which `separator` divides; empty if there is
/// none.
std::string pmi_word(std::string_view text, std::string_view name, char separator);
/// The failure when the launcher has closed the connection.
failure pmi_is_gone();
/// The failure when the launcher's answer does not fit the question.
failure pmi_refused(std::string_view asked, std::string_view answer);

}  // namespace penstock::job
