// Trials that run side by side, each of which breaks something of a job in another way.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace testing {

/// Runs verdict(i) for i below n, three at a time, and prints a line for each: its name, and what
/// went wrong, if verdict says so. Returns how many failed.
inline int run_trials(std::size_t n, const std::function<std::string(std::size_t)>& name,
                      const std::function<std::string(std::size_t)>& verdict) {
  std::atomic<std::size_t> next{0};
  std::mutex lock;
  int failures = 0;
  const auto work = [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < n;) {
      const std::string wrong = verdict(i);
      const std::lock_guard hold(lock);
      std::printf("%s: %s%s%s\n", wrong.empty() ? "ok" : "FAILED", name(i).c_str(),
                  wrong.empty() ? "" : ": the job ", wrong.c_str());
      std::fflush(stdout);
      failures += wrong.empty() ? 0 : 1;
    }
  };
  std::vector<std::thread> workers;
  for (int i = 0; i < 3; ++i) workers.emplace_back(work);
  for (auto& w : workers) w.join();
  std::printf("%zu trials, %d failures\n", n, failures);
  return failures;
}

}  // namespace testing
