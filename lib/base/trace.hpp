// A trace of what this process does and when, in the JSON that Perfetto and chrome://tracing open:
// a process's track is a rank, its threads' are the rank's. The engine writes one if the setting
// TRACE says so; tools/pentrace puts the files of a job together.
//
// A message is drawn from the sending to the handler's run. Both sides name it alike without a word
// on the wire: by who sends it to whom, the chunk that it travels with where it has one, and which
// of all with the same names it is. So both sides must see messages of the same names in one order:
// rings and chunks see to that.
//
// Any thread; each event takes a lock for about a microsecond. Events are written to the file every
// tenth of a second or 64 KB, and what is in the file is always a whole JSON array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "lib/base/clock.hpp"
#include "lib/base/result.hpp"

namespace penstock {

class trace {
 public:
  /// A message: who sends it to whom, in which domain, by which chunk (0: by a ring).
  struct message {
    std::uint32_t from = 0, to = 0;
    std::uint32_t domain = 0;
    std::uint32_t chunk = 0;
    bool reply = false;
    const char* kind = "";  ///< as people say: "Short"
    unsigned handler = 0;
    bool own = false;  ///< of the library's own handlers
    std::size_t bytes = 0;
  };

  /// Creates the file. events: most that are written; later ones are counted. mask: letters of what
  /// is written, as in the setting TRACE_MASK.
  static result<std::unique_ptr<trace>> open(const std::string& path, std::uint32_t rank,
                                             std::uint64_t events, const std::string& mask = "*");
  /// Writes what there is to write.
  ~trace();
  trace(const trace&) = delete;
  trace& operator=(const trace&) = delete;

  /// A message goes out; begun is when its sending began (now_ns()).
  void sent(const message& m, std::uint64_t begun);
  /// A message has come, whose handler runs next: what handled() is told.
  [[nodiscard]] std::uint64_t arrived(const message& m);
  /// Its handler has run from begun on.
  void handled(const message& m, std::uint64_t flow, std::uint64_t begun);
  /// Something else lasted from begun until now, or, if begun is 0, happened. category and name are
  /// words without quotes. peer: the rank that it concerns, or nobody.
  void event(const char* category, const char* name, std::uint32_t peer, std::uint64_t begun,
             std::size_t bytes = 0);
  /// The same of what others of its kind may overlap, on a track of its own.
  void apart(const char* category, std::uint32_t peer, std::uint64_t begun);
  static constexpr std::uint32_t nobody = ~std::uint32_t{0};
  /// From here to its end something lasts, called as its category; to: null writes nothing.
  class lasting {
   public:
    lasting(trace* to, const char* category) noexcept
        : to_(to), category_(category), begun_(to != nullptr ? now_ns() : 0) {}
    ~lasting() {
      if (to_ != nullptr) to_->event(category_, category_, nobody, begun_);
    }
    lasting(const lasting&) = delete;
    lasting& operator=(const lasting&) = delete;

   private:
    trace* const to_;
    const char* const category_;
    const std::uint64_t begun_;
  };
  /// What has been told is in the file.
  void flush();

 private:
  trace(int fd, std::uint32_t rank, std::uint64_t events, const std::string& mask)
      : fd_(fd), rank_(rank), mask_(mask), left_(events) {}
  [[nodiscard]] bool wants(const char* category) const noexcept;
  using uses = std::unordered_map<std::uint64_t, std::uint64_t>;
  static std::uint64_t number(uses& of, const message& m);
  void head(const char* phase, const char* category, std::uint64_t at);
  void span(const char* category, std::uint64_t begun, std::uint64_t ended);
  void flow(const char* phase, const message& m, std::uint64_t id, std::uint64_t at);
  void add(const char* format, ...) __attribute__((format(printf, 2, 3)));
  bool room() noexcept;
  void maybe_write(std::uint64_t now);
  void write();

  const int fd_;
  const std::uint32_t rank_;
  const std::string mask_;
  std::mutex lock_;
  // under lock_
  std::uint64_t left_, dropped_ = 0;
  std::uint64_t end_ = 0;         // of what is in the file, before the closing bracket
  std::uint64_t written_ns_ = 0;  // when it was written to
  std::string text_;              // events that are not, each behind a comma
  uses out_, in_;
  std::uint64_t apart_ = 0;  // how many apart() has written
};

}  // namespace penstock
