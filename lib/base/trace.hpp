// A trace of what this process does and when, in the JSON that Perfetto and chrome://tracing open.
// Each rank is a process there, and its threads are that process's. The engine writes a trace if
// the setting TRACE says so; tools/pentrace puts the files of a job together.
//
// A message is drawn as an arrow from its sending to its handler. Both sides compute the same name
// for it, so that none travels on the wire: from the sender and the target, the chunk that it
// travels with if it has one, and its number among all messages that agree in these. So both sides
// must see such messages in the same order, which rings and chunks guarantee.
//
// Any thread may call; each event takes a lock for about a microsecond. Events are written to the
// file every tenth of a second or 64 KB, and the file is always a whole JSON array.
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
  /// A message: its sender and target, its domain and its chunk (0: by a ring).
  struct message {
    std::uint32_t from = 0, to = 0;
    std::uint32_t domain = 0;
    std::uint32_t chunk = 0;
    bool reply = false;
    const char* kind = "";  ///< in words: "Short"
    std::string handler;    ///< in words: "on_hit", "handler 3", printable and without quotes
    std::size_t bytes = 0;
  };

  /// Creates the file. events: the most events that are written; later ones are only counted. mask:
  /// the letters of the categories that are written, as in the setting TRACE_MASK.
  static result<std::unique_ptr<trace>> open(const std::string& path, std::uint32_t rank,
                                             std::uint64_t events, const std::string& mask = "*");
  /// Writes the events that are not in the file yet.
  ~trace();
  trace(const trace&) = delete;
  trace& operator=(const trace&) = delete;

  /// Notes that a message was sent; begun is when its sending began (now_ns()).
  void sent(const message& m, std::uint64_t begun);
  /// Notes that a message has come, whose handler runs next. Returns the number for handled().
  [[nodiscard]] std::uint64_t arrived(const message& m);
  /// Notes that its handler has run from begun until now.
  void handled(const message& m, std::uint64_t flow, std::uint64_t begun);
  /// Notes another event, which lasted from begun until now or, if begun is 0, happened now.
  /// category and name are words without quotes. peer: the rank that it concerns, or nobody.
  void event(const char* category, const char* name, std::uint32_t peer, std::uint64_t begun,
             std::size_t bytes = 0);
  /// The same for events that may overlap others of their kind: each is drawn on a track of its
  /// own.
  void apart(const char* category, std::uint32_t peer, std::uint64_t begun);
  static constexpr std::uint32_t nobody = ~std::uint32_t{0};
  /// An event that lasts as long as the object lives, and is named as its category; to: null writes
  /// nothing.
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
  /// Writes all events noted so far to the file.
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
  std::uint64_t end_ = 0;         // offset of the closing bracket in the file
  std::uint64_t written_ns_ = 0;  // when the file was last written to
  std::string text_;              // events that are not in the file, each behind a comma
  uses out_, in_;
  std::uint64_t apart_ = 0;  // the number of events that apart() has noted
};

}  // namespace penstock
