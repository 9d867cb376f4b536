#include "lib/base/trace.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "lib/base/clock.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/base/log.hpp"
#include "lib/base/shortage.hpp"

namespace penstock {
namespace {

constexpr std::size_t enough_to_write = 64 << 10;
constexpr std::uint64_t longest_kept_ns = 100'000'000;

long thread_number() noexcept {
  thread_local const long id = ::syscall(SYS_gettid);
  return id;
}

std::uint64_t mix(std::uint64_t h, std::uint64_t word) noexcept {
  h ^= word + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdu;
  return h ^ h >> 33;
}

}  // namespace

result<std::unique_ptr<trace>> trace::open(const std::string& path, std::uint32_t rank,
                                           std::uint64_t events, const std::string& mask) {
  const int fd = above_stdio(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (fd < 0) return failure{"the trace file " + path, errno, what_to_raise(errno)};
  std::unique_ptr<trace> t(new trace(fd, rank, events, mask));
  char host[256] = {};
  (void)::gethostname(host, sizeof host - 1);
  timespec wall{};
  ::clock_gettime(CLOCK_REALTIME, &wall);
  const std::uint64_t real = static_cast<std::uint64_t>(wall.tv_sec) * 1'000'000'000u +
                             static_cast<std::uint64_t>(wall.tv_nsec);
  const std::lock_guard hold(t->lock_);
  t->text_ = "[\n";
  // pentrace reads the first event, since each host has a clock of its own.
  t->add(
      "{\"ph\":\"M\",\"name\":\"penstock_clock\",\"pid\":%u,\"args\":{\"host\":\"%s\","
      "\"now_ns\":%" PRIu64 ",\"real_ns\":%" PRIu64 "}}",
      rank, host, now_ns(), real);
  t->add(",\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"rank %u\"}}",
         rank, rank);
  t->add(
      ",\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%u,\"args\":{\"sort_index\":%u}}",
      rank, rank);
  t->write();
  return t;
}

trace::~trace() {
  flush();
  if (dropped_ != 0)
    log(log_level::warning,
        "the trace is full: %" PRIu64
        " later events are not in it; raise "
        "PENSTOCK_TRACE_EVENTS",
        dropped_);
  ::close(fd_);
}

// True if the mask has the category's letter; the letters are GASNet's.
bool trace::wants(const char* category) const noexcept {
  static constexpr struct {
    const char* category;
    char letter;
  } letters[] = {{"message", 'A'}, {"put", 'P'},        {"get", 'G'},
                 {"barrier", 'B'}, {"connection", 'C'}, {"stall", 'I'}};
  if (mask_.find('*') != std::string::npos) return true;
  for (const auto& l : letters)
    if (std::strcmp(l.category, category) == 0) return mask_.find(l.letter) != std::string::npos;
  return true;
}

void trace::sent(const message& m, std::uint64_t begun) {
  if (!wants("message")) return;
  const std::lock_guard hold(lock_);
  const std::uint64_t id = number(out_, m);
  if (!room()) return;
  const std::uint64_t now = now_ns();
  span(m.reply ? "reply" : "request", begun, now);
  add(",\"name\":\"%s%s to %s\",\"args\":{\"to\":%u,\"bytes\":%zu}}", m.kind,
      m.reply ? " reply" : "", m.handler.c_str(), m.to, m.bytes);
  if (m.from != m.to) flow("s", m, id, begun);
  maybe_write(now);
}

std::uint64_t trace::arrived(const message& m) {
  const std::lock_guard hold(lock_);
  return number(in_, m);
}

void trace::handled(const message& m, std::uint64_t id, std::uint64_t begun) {
  if (!wants("message")) return;
  const std::lock_guard hold(lock_);
  if (!room()) return;
  const std::uint64_t now = now_ns();
  span("handler", begun, now);
  add(",\"name\":\"%s\",\"args\":{\"from\":%u,\"kind\":\"%s%s\",\"bytes\":%zu}}", m.handler.c_str(),
      m.from, m.kind, m.reply ? " reply" : "", m.bytes);
  if (m.from != m.to) flow("f", m, id, begun);
  maybe_write(now);
}

void trace::event(const char* category, const char* name, std::uint32_t peer, std::uint64_t begun,
                  std::size_t bytes) {
  if (!wants(category)) return;
  const std::lock_guard hold(lock_);
  if (!room()) return;
  const std::uint64_t now = now_ns();
  if (begun == 0)
    head("i", category, now);
  else
    span(category, begun, now);
  add(",\"name\":\"%s\",\"args\":{", name);
  if (peer != nobody) add("\"rank\":%u,", peer);
  add("\"bytes\":%zu}}", bytes);
  maybe_write(now);
}

void trace::apart(const char* category, std::uint32_t peer, std::uint64_t begun) {
  if (!wants(category)) return;
  const std::lock_guard hold(lock_);
  if (!room()) return;
  const std::uint64_t now = now_ns(), id = ++apart_;
  for (const char* phase : {"b", "e"}) {
    head(phase, category, *phase == 'b' && begun != 0 ? begun : now);
    add(",\"name\":\"%s\",\"id\":\"%u.%" PRIu64 "\",\"args\":{\"rank\":%u}}", category, rank_, id,
        peer);
  }
  maybe_write(now);
}

void trace::flush() {
  const std::lock_guard hold(lock_);
  if (!text_.empty()) write();
}

// A number that no other message has: from the message's names, and its number among those with the
// same names.
std::uint64_t trace::number(uses& of, const message& m) {
  const std::uint64_t names =
      mix(mix(mix(m.reply ? 1 : 2, m.from), m.to), std::uint64_t{m.domain} << 32 | m.chunk);
  return mix(names, ++of[names]);
}

// Begins an event.
void trace::head(const char* phase, const char* category, std::uint64_t at) {
  add(",\n{\"ph\":\"%s\",\"cat\":\"%s\",\"pid\":%u,\"tid\":%ld,\"ts\":%" PRIu64 ".%03u", phase,
      category, rank_, thread_number(), at / 1000, static_cast<unsigned>(at % 1000));
}

void trace::span(const char* category, std::uint64_t begun, std::uint64_t ended) {
  head("X", category, begun);
  const std::uint64_t lasted = ended - begun;
  add(",\"dur\":%" PRIu64 ".%03u", lasted / 1000, static_cast<unsigned>(lasted % 1000));
}

void trace::flow(const char* phase, const message& m, std::uint64_t id, std::uint64_t at) {
  head(phase, m.reply ? "reply" : "request", at);
  add(",\"name\":\"message\",\"bp\":\"e\",\"id\":\"0x%" PRIx64 "\"}", id);
}

void trace::add(const char* format, ...) {
  char part[512];
  va_list ap;
  va_start(ap, format);
  const int n = std::vsnprintf(part, sizeof part, format, ap);
  va_end(ap);
  text_.append(part,
               std::min<std::size_t>(n < 0 ? 0 : static_cast<std::size_t>(n), sizeof part - 1));
}

bool trace::room() noexcept {
  if (left_ == 0) return ++dropped_, false;
  --left_;
  return true;
}

void trace::maybe_write(std::uint64_t now) {
  if (text_.size() >= enough_to_write || now - written_ns_ >= longest_kept_ns) write();
}

// Writes the new events over the closing bracket of the last time.
void trace::write() {
  constexpr const char* bracket = "\n]\n";
  const std::size_t n = text_.size();
  text_ += bracket;
  std::size_t done = 0;
  while (done < text_.size()) {
    const ssize_t w =
        ::pwrite(fd_, text_.data() + done, text_.size() - done, static_cast<off_t>(end_ + done));
    if (w < 0 && errno == EINTR) continue;
    if (w <= 0) {
      if (left_ != 0)
        log(log_level::warning, "the trace file cannot be written: %s", std::strerror(errno));
      left_ = 0;
      break;
    }
    done += static_cast<std::size_t>(w);
  }
  end_ += n;
  text_.clear();
  written_ns_ = now_ns();
}

}  // namespace penstock
