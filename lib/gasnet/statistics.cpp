#include "lib/gasnet/statistics.hpp"

#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include "lib/base/descriptors.hpp"
#include "lib/base/log.hpp"
#include "lib/base/output_path.hpp"
#include "lib/base/rank_list.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {

statistics* statistics::mine_ = nullptr;

namespace {

bool is_stream(const std::string& path) {
  return path == "-" || path == "stderr" || path == "stdout";
}

std::string file_name() {
  std::string path = self.options.stats_file;
  const std::string number = std::to_string(GASNETC_(mynode));
  if (path.find('%') == std::string::npos && GASNETC_(nodes) > 1) path += ".%";
  for (std::size_t at = 0; (at = path.find('%', at)) != std::string::npos; at += number.size())
    path.replace(at, 1, number);
  return path;
}

// The lines of the file, each with its letter of GASNET_STATSMASK.
class lines {
 public:
  [[gnu::format(printf, 3, 4)]] void add(char letter, const char* format, ...) {
    const std::string& mask = self.options.stats_mask;
    if (mask.find('*') == std::string::npos && mask.find(letter) == std::string::npos) return;
    char text[256];
    va_list ap;
    va_start(ap, format);
    std::vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    all_.append(1, '(').append(1, letter).append(") ").append(text) += '\n';
  }
  [[nodiscard]] const std::string& text() const { return all_; }
  void head(const std::string& line) { all_ += line + "\n"; }

 private:
  std::string all_;
};

void messages(lines& out, const char* name, const message_counters& c) {
  out.add('A',
          "%s: %" PRIu64 " Shorts, %" PRIu64 " Mediums of %" PRIu64 " bytes, %" PRIu64
          " Longs of %" PRIu64 " bytes",
          name, c.shorts, c.mediums, c.medium_bytes, c.longs, c.long_bytes);
}

}  // namespace

result<void> statistics::begin() {
  const settings& s = self.options;
  if (s.stats_file == "0" || !lists_rank(s.stats_nodes, GASNETC_(mynode))) return {};
  if (!is_stream(s.stats_file))
    if (auto r = can_write("PENSTOCK_STATS_FILE", file_name()); !r) return r;
  mine_ = new statistics;  // never freed
  return {};
}

void statistics::sizes::add(std::uint64_t n) noexcept {
  // relaxed, all of it: the counts are only written to the file
  count.fetch_add(1, std::memory_order_relaxed);
  bytes.fetch_add(n, std::memory_order_relaxed);
  for (std::uint64_t seen = least.load(std::memory_order_relaxed);
       n < seen && !least.compare_exchange_weak(seen, n, std::memory_order_relaxed);) {
  }
  for (std::uint64_t seen = most.load(std::memory_order_relaxed);
       n > seen && !most.compare_exchange_weak(seen, n, std::memory_order_relaxed);) {
  }
}

void statistics::transfer(what w, std::size_t bytes) noexcept { transfers_[w].add(bytes); }
void statistics::barrier(std::uint64_t waited_ns) noexcept { barriers_.add(waited_ns); }

void statistics::write() const {
  lines out;
  char host[256] = {};
  (void)::gethostname(host, sizeof host - 1);
  out.head("Penstock statistics of node " + std::to_string(GASNETC_(mynode)) + " of " +
           std::to_string(GASNETC_(nodes)) + ", process " + std::to_string(::getpid()) + " on " +
           host);
  const auto read = [](const std::atomic<std::uint64_t>& n) {
    return n.load(std::memory_order_relaxed);
  };
  constexpr struct {
    char letter;
    const char* name;
  } rows[kinds] = {{'P', "puts"}, {'G', "gets"}, {'P', "memsets"}};
  for (unsigned w = 0; w < kinds; ++w) {
    const sizes& s = transfers_[w];
    const std::uint64_t n = read(s.count);
    out.add(rows[w].letter,
            "%s: %" PRIu64 ", bytes avg/min/max/total = %" PRIu64 "/%" PRIu64 "/%" PRIu64
            "/%" PRIu64,
            rows[w].name, n, n == 0 ? 0 : read(s.bytes) / n, n == 0 ? 0 : read(s.least),
            read(s.most), read(s.bytes));
  }
  const std::uint64_t n = read(barriers_.count);
  const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) * 1e-3; };
  out.add('B', "barriers: %" PRIu64 ", us waited avg/min/max/total = %.3f/%.3f/%.3f/%.3f", n,
          n == 0 ? 0 : us(read(barriers_.bytes) / n), n == 0 ? 0 : us(read(barriers_.least)),
          us(read(barriers_.most)), us(read(barriers_.bytes)));
  if (self.engine) {
    const endpoint_counters c = self.engine->counters();
    peer_counters sum;
    for (const peer_counters& p : c.peers) {
      for (const auto& d : direction_rows)
        for (const auto& row : message_counter_rows)
          sum.*d.field.*row.field += p.*d.field.*row.field;
      sum.stalls += p.stalls, sum.waits += p.waits, sum.wait_ns += p.wait_ns;
    }
    messages(out, "requests sent", sum.requests_sent);
    messages(out, "requests handled", sum.requests_handled);
    messages(out, "replies sent", sum.replies_sent);
    messages(out, "replies handled", sum.replies_handled);
    out.add('C',
            "connections: %" PRIu64 "; requests that waited: %" PRIu64 ", for credits %" PRIu64
            ", us in all %.3f",
            c.connections, sum.waits, sum.stalls, us(sum.wait_ns));
    out.add('C',
            "registrations: %" PRIu64 " made, %" PRIu64 " found, %" PRIu64 " given up, %" PRIu64
            " lost",
            c.registrations, c.registration_hits, c.evictions, c.invalidations);
  }
  const std::string path = self.options.stats_file;
  const bool named = !is_stream(path);
  std::FILE* const to = named              ? open_file(file_name().c_str(), "w").release()
                        : path == "stdout" ? stdout
                                           : stderr;
  bool written = to != nullptr && std::fputs(out.text().c_str(), to) >= 0;
  if (to != nullptr) written = (named ? std::fclose(to) : std::fflush(to)) == 0 && written;
  if (!written)
    log(log_level::warning, "GASNET_STATSFILE: cannot write %s: %s", file_name().c_str(),
        std::strerror(errno));
}

}  // namespace penstock::gasnet::PENSTOCK_ABI
