// PMI-1: lines of words "cmd=put kvsname=... key=... value=...". The functions that both versions
// share are here, too.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "lib/job/pmi.hpp"
#include "lib/job/stream.hpp"

namespace penstock::job {

failure pmi_is_gone() {
  return failure{"the launcher does not answer by PMI any more", errno,
                 "it has ended, or MPI_Finalize has taken its leave of it for this process"};
}

failure pmi_refused(std::string_view asked, std::string_view answer) {
  return failure{"the launcher answers \"" + std::string(answer.substr(0, 200)) + "\" to PMI's \"" +
                     std::string(asked.substr(0, asked.find_first_of(" ;\n"))) + "\"",
                 0, ""};
}

result<std::string> pmi_read_line(int fd) {
  // The line is peeked at first, and no more than it is taken: what follows may be of the other
  // version.
  std::string line;
  errno = 0;
  for (;;) {
    char text[1024];
    const auto n = ::recv(fd, text, sizeof text, MSG_PEEK);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return pmi_is_gone();
    const char* const end = std::find(text, text + n, '\n');
    const auto part = static_cast<std::size_t>(end - text);
    const bool whole = end != text + n;
    if (!receive_all(fd, text, part + (whole ? 1 : 0))) return pmi_is_gone();
    line.append(text, part);
    if (whole) return line;
    if (line.size() > 1u << 20) return pmi_refused("line", line);
  }
}

std::string pmi_word(std::string_view text, std::string_view name, char separator) {
  while (!text.empty()) {
    const auto end = std::min(text.find(separator), text.size());
    const auto word = text.substr(0, end);
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=')
      return std::string(word.substr(name.size() + 1));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return "";
}

result<bool> pmi_agree_on(int fd, int version, int subversion) {
  const std::string hello = "cmd=init pmi_version=" + std::to_string(version) +
                            " pmi_subversion=" + std::to_string(subversion) + "\n";
  if (!send_all(fd, hello.data(), hello.size())) return pmi_is_gone();
  const auto answer = pmi_read_line(fd);
  if (!answer) return answer.error();
  if (pmi_word(*answer, "cmd", ' ') != "response_to_init") return pmi_refused(hello, *answer);
  return pmi_word(*answer, "rc", ' ') == "0" &&
         pmi_word(*answer, "pmi_version", ' ') == std::to_string(version);
}

namespace {

class pmi1 final : public pmi_speech {
 public:
  explicit pmi1(int fd) : fd_(fd) {}

  result<void> begin(pmi_place&) override {
    auto maxes = ask("cmd=get_maxes", "maxes");
    if (!maxes) return maxes.error();
    const std::string longest = pmi_word(*maxes, "vallen_max", ' ');
    std::size_t n = 0;
    std::from_chars(longest.data(), longest.data() + longest.size(), n);
    // Some launchers name a longer value, but cut the lines that they pass on at 1024 characters.
    longest_value_ = std::clamp<std::size_t>(n, 65, 769) - 1;
    auto name = ask("cmd=get_my_kvsname", "my_kvsname");
    if (!name) return name.error();
    table_ = pmi_word(*name, "kvsname", ' ');
    return {};
  }

  result<void> put(const std::string& key, const std::string& value) override {
    return done(ask("cmd=put kvsname=" + table_ + " key=" + key + " value=" + value, "put_result"));
  }

  result<void> begin_fence() override { return say("cmd=barrier_in"); }
  result<bool> step_fence() override {
    if (auto all = hear("cmd=barrier_in", "barrier_out"); !all) return all.error();
    return true;
  }

  result<std::string> get(const std::string& key) override {
    auto answer = ask("cmd=get kvsname=" + table_ + " key=" + key, "get_result");
    if (!answer) return answer.error();
    return pmi_word(*answer, "value", ' ');
  }

  std::string mapping() override {
    auto text = get("PMI_process_mapping");
    return text ? *text : "";
  }

  void finalize() override {
    if (!say("cmd=finalize")) return;
    for (auto line = pmi_read_line(fd_); line && pmi_word(*line, "cmd", ' ') == "barrier_out";)
      line = pmi_read_line(fd_);
  }

  void tell_abort(int code) noexcept override {
    char text[64];
    const int n = std::snprintf(text, sizeof text, "cmd=abort exitcode=%d\n", code);
    if (n > 0) send_all(fd_, text, static_cast<std::size_t>(n));
  }

 private:
  result<void> say(const std::string& question) const {
    const std::string line = question + "\n";
    if (!send_all(fd_, line.data(), line.size())) return pmi_is_gone();
    return {};
  }

  result<std::string> ask(const std::string& question, std::string_view expected) {
    if (auto said = say(question); !said) return said.error();
    return hear(question, expected);
  }

  [[nodiscard]] result<std::string> hear(const std::string& question,
                                         std::string_view expected) const {
    auto answer = pmi_read_line(fd_);
    if (!answer) return answer;
    const std::string rc = pmi_word(*answer, "rc", ' ');
    if (pmi_word(*answer, "cmd", ' ') != expected || !(rc.empty() || rc == "0"))
      return pmi_refused(question, *answer);
    return answer;
  }

  static result<void> done(const result<std::string>& answer) {
    if (!answer) return answer.error();
    return {};
  }

  int fd_;
  std::string table_;
};

}  // namespace

std::unique_ptr<pmi_speech> speak_pmi1(int fd) { return std::make_unique<pmi1>(fd); }

}  // namespace penstock::job
