// PMI-2: six digits with the length, then words "cmd=kvs-put;key=...;value=...;".
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <utility>

#include "lib/job/pmi.hpp"
#include "lib/job/stream.hpp"

namespace penstock::job {
namespace {

// Frames a text as in "     8cmd=abort"; no text is ever longer than six digits can say.
std::string framed(const std::string& text) {
  char length[8];
  std::snprintf(length, sizeof length, "%6u", static_cast<unsigned>(text.size() % 1'000'000));
  return length + text;
}

class pmi2 final : public pmi_speech {
 public:
  pmi2(int fd, std::string job) : fd_(fd), job_(std::move(job)) {}

  result<void> begin(pmi_place& place) override {
    auto answer = ask("cmd=fullinit;pmijobid=" + job_ + ";pmirank=" + std::to_string(place.rank) +
                          ";threaded=FALSE;",
                      "fullinit-response");
    if (!answer) return answer.error();
    for (const auto& [name, into] : {std::pair{"rank", &place.rank}, {"size", &place.size}}) {
      const std::string text = pmi_word(*answer, name, ';');
      std::from_chars(text.data(), text.data() + text.size(), *into);
    }
    auto job = ask("cmd=job-getid;", "job-getid-response");
    if (!job) return job.error();
    job_ = pmi_word(*job, "jobid", ';');
    place_ = place;
    return {};
  }

  result<void> put(const std::string& key, const std::string& value) override {
    return done(ask("cmd=kvs-put;key=" + key + ";value=" + value + ";", "kvs-put-response"));
  }

  // Slurm answers a fence when all processes are there, but hydra answers at once: it only delays
  // the answer to a get of a value that no process has put yet. So each process puts a value of its
  // own, and gets those of all others.
  result<void> begin_fence() override {
    met_ = 0;
    ++fences_;
    if (auto here = put(here_key(place_.rank), "1"); !here) return here;
    return say("cmd=kvs-fence;");
  }
  result<bool> step_fence() override {
    if (met_ == 0) {
      if (auto heard = hear("cmd=kvs-fence;", "kvs-fence-response"); !heard) return heard.error();
    } else if (auto heard = hear(question(here_key(met_ - 1)), "kvs-get-response"); !heard) {
      return heard.error();
    }
    if (met_ == place_.size) return true;
    if (auto said = say(question(here_key(met_++))); !said) return said.error();
    return false;
  }

  result<std::string> get(const std::string& key) override {
    auto answer = ask(question(key), "kvs-get-response");
    if (!answer) return answer.error();
    if (pmi_word(*answer, "found", ';') != "TRUE") return pmi_refused(question(key), *answer);
    return pmi_word(*answer, "value", ';');
  }

  std::string mapping() override {
    const auto answer =
        ask("cmd=info-getjobattr;key=PMI_process_mapping;wait=FALSE;", "info-getjobattr-response");
    return answer ? pmi_word(*answer, "value", ';') : "";
  }

  void finalize() override {
    if (!say("cmd=finalize;")) return;
    for (auto answer = hear(); answer && pmi_word(*answer, "cmd", ';').starts_with("kvs-");)
      answer = hear();  // the one before was the answer to a fence that was given up
  }

  // This version of the protocol does not carry the code: the launcher gets it when the process
  // ends.
  void tell_abort(int code) noexcept override {
    char text[96];
    const int n = std::snprintf(
        text, sizeof text, "    42cmd=abort;isworld=TRUE;msg=exit code %6d;", code % 1'000'000);
    if (n == 48) send_all(fd_, text, 48);
  }

 private:
  [[nodiscard]] std::string here_key(std::uint32_t rank) const {
    return "penstock-here-" + std::to_string(fences_) + "-" + std::to_string(rank);
  }

  [[nodiscard]] std::string question(const std::string& key) const {
    return "cmd=kvs-get;jobid=" + job_ + ";srcid=-1;key=" + key + ";";
  }

  [[nodiscard]] result<void> say(const std::string& question) const {
    const std::string message = framed(question);
    errno = 0;
    if (!send_all(fd_, message.data(), message.size())) return pmi_is_gone();
    return {};
  }

  result<std::string> ask(const std::string& question, std::string_view expected) {
    if (auto said = say(question); !said) return said.error();
    return hear(question, expected);
  }

  // Reads the next message, whichever question it answers.
  [[nodiscard]] result<std::string> hear() const {
    errno = 0;
    char digits[7] = "";
    if (!receive_all(fd_, digits, 6)) return pmi_is_gone();
    const char* first = digits;  // blanks stand before the number (hydra) or behind it (Slurm)
    while (*first == ' ') ++first;
    std::size_t n = 0;
    const char* const end = std::from_chars(first, digits + 6, n).ptr;
    if (end == first ||
        std::any_of(end, static_cast<const char*>(digits + 6), [](char c) { return c != ' '; }))
      return pmi_refused("length", digits);
    std::string answer(n, '\0');
    if (!receive_all(fd_, answer.data(), n)) return pmi_is_gone();
    return answer;
  }

  [[nodiscard]] result<std::string> hear(const std::string& question,
                                         std::string_view expected) const {
    auto answer = hear();
    if (!answer) return answer;
    const std::string rc = pmi_word(*answer, "rc", ';');
    if (pmi_word(*answer, "cmd", ';') != expected || !(rc.empty() || rc == "0"))
      return pmi_refused(question, *answer);
    return answer;
  }

  static result<void> done(const result<std::string>& answer) {
    if (!answer) return answer.error();
    return {};
  }

  int fd_;
  std::string job_;
  pmi_place place_;
  std::uint32_t fences_ = 0, met_ = 0;  // met_: ranks whose value of the last fence has come
};

}  // namespace

std::unique_ptr<pmi_speech> speak_pmi2(int fd, std::string job) {
  return std::make_unique<pmi2>(fd, std::move(job));
}

}  // namespace penstock::job
