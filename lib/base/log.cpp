#include "lib/base/log.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace penstock {
namespace {

// Written at start-up by one thread, read by all; relaxed, since a line with an old prefix is
// harmless.
std::atomic<unsigned> rank_{0};
std::atomic<unsigned> size_{0};
std::atomic<long> east_of_utc_s_{0};
std::atomic<int> threshold_{static_cast<int>(log_level::warning)};
std::atomic<fatal_hook> hook_{nullptr};
std::atomic<void (*)() noexcept> witness_{nullptr};

void write_line(const char* tag, const char* format, va_list ap) noexcept {
  char line[1024];
  const unsigned size = size_.load(std::memory_order_relaxed);
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const long s = (now.tv_sec + east_of_utc_s_.load(std::memory_order_relaxed)) % 86'400;
  int n = size == 0
              ? std::snprintf(line, sizeof line, "penstock: %s", tag)
              : std::snprintf(line, sizeof line, "penstock[%u/%u %02ld:%02ld:%02ld.%03ld]: %s",
                              rank_.load(std::memory_order_relaxed), size, s / 3600, s / 60 % 60,
                              s % 60, now.tv_nsec / 1'000'000, tag);
  const int room = static_cast<int>(sizeof line) - n - 1;
  const int body = std::vsnprintf(line + n, static_cast<std::size_t>(room), format, ap);
  n += body < room ? body : room - 1;
  line[n++] = '\n';
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line, static_cast<std::size_t>(n));
}

}  // namespace

void log_identity(unsigned rank, unsigned size) noexcept {
  // The time zone is asked for now, since a line may be written where localtime_r() must not be
  // called.
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  if (::localtime_r(&now, &local) != nullptr)
    east_of_utc_s_.store(local.tm_gmtoff, std::memory_order_relaxed);
  rank_.store(rank, std::memory_order_relaxed);
  size_.store(size, std::memory_order_relaxed);
}
void log_threshold(log_level level) noexcept {
  threshold_.store(static_cast<int>(level), std::memory_order_relaxed);
}
bool log_enabled(log_level level) noexcept {
  return static_cast<int>(level) <= threshold_.load(std::memory_order_relaxed);
}

void log(log_level level, const char* format, ...) noexcept {
  if (!log_enabled(level)) return;
  static constexpr const char* tags[] = {"error: ", "warning: ", "", "debug: "};
  va_list ap;
  va_start(ap, format);
  write_line(tags[static_cast<int>(level)], format, ap);
  va_end(ap);
}

// W3 hook  release hook_  -> W4: what it needs is set up
void set_fatal_hook(fatal_hook hook) noexcept { hook_.store(hook, std::memory_order_release); }

void set_fatal_witness(void (*witness)() noexcept) noexcept {
  // W1 witness  release witness_  -> W2: what it needs is set up
  witness_.store(witness, std::memory_order_release);
}

void fatal(int exit_code, const char* format, ...) noexcept {
  va_list ap;
  va_start(ap, format);
  write_line("fatal: ", format, ap);
  va_end(ap);
  // W2 witness  acq_rel witness_  <- W1: one thread calls it, once
  if (auto* witness = witness_.exchange(nullptr, std::memory_order_acq_rel)) witness();
  // W4 hook  acq_rel hook_  <- W3: a hook that itself fails fatally must not call itself again
  if (auto* hook = hook_.exchange(nullptr, std::memory_order_acq_rel)) hook(exit_code);
  ::_exit(exit_code);
}

}  // namespace penstock
