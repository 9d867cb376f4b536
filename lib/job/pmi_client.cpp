// A process that was started by a launcher that speaks PMI-1 or PMI-2 over a socket (pmi.hpp):
// mpiexec.hydra, srun --mpi=pmi2. Such a launcher announces no deaths: it ends the job itself when
// a process ends without finalize.
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <numeric>

#include "lib/base/descriptors.hpp"
#include "lib/base/forked.hpp"
#include "lib/job/launchers.hpp"
#include "lib/job/pmi.hpp"
#include "lib/job/stream.hpp"
#include "lib/job/wire.hpp"
#include "lib/job/witness.hpp"

namespace penstock::job {
namespace {

template <class T>
bool read_number(std::string_view text, T& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc{} && end == text.data() + text.size();
}

// True if an MPI library runs in this process. It uses the same socket to the launcher, and it is
// the one that finalizes then.
bool mpi_is_running() {
  const auto said = [](const char* name) {
    int yes = 0;
    if (void* const f = ::dlsym(RTLD_DEFAULT, name)) reinterpret_cast<int (*)(int*)>(f)(&yes);
    return yes != 0;
  };
  return said("MPI_Initialized") && !said("MPI_Finalized");
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string out;
  out.reserve(2 * bytes.size());
  for (const std::byte b : bytes) {
    out += hex_digits[std::to_integer<unsigned>(b) >> 4];
    out += hex_digits[std::to_integer<unsigned>(b) & 15];
  }
  return out;
}

bool from_hex(std::string_view text, std::vector<std::byte>& out) {
  if (text.size() % 2 != 0) return false;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    std::uint8_t byte = 0;
    if (std::from_chars(text.data() + i, text.data() + i + 2, byte, 16).ptr != text.data() + i + 2)
      return false;
    out.push_back(std::byte{byte});
  }
  return true;
}

// Connects a socket to "HOST:PORT".
result<int> connect_to(const std::string& where, std::uint64_t limit_ns) {
  const auto colon = where.rfind(':');
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (colon == where.npos || ::getaddrinfo(where.substr(0, colon).c_str(),
                                           where.substr(colon + 1).c_str(), &hints, &found) != 0)
    return failure{"PMI_PORT=" + where + " names no host and port", 0, ""};
  int fd = -1;
  for (const addrinfo* a = found; a != nullptr && fd < 0; a = a->ai_next) {
    fd = opened("socket", ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
    const timeval limit{static_cast<time_t>(limit_ns / 1'000'000'000), 1};
    if (fd >= 0) ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (fd < 0 || ::connect(fd, a->ai_addr, a->ai_addrlen) == 0) continue;
    ::close(fd);
    fd = -1;
  }
  ::freeaddrinfo(found);
  if (fd < 0) return failure{"the launcher at PMI_PORT=" + where + " cannot be reached", errno, ""};
  return fd;
}

// Of a process that has left, hydra says nothing any more but its code. GASNet's ends come here
// twice, by finalize() and at exit.
void say_code(int code) {
  static std::atomic<bool> said{false};
  // relaxed: nothing is read because of it
  if (code != 0 && !said.exchange(true, std::memory_order_relaxed))
    log(log_level::error, "has left the job, and ends with code %d", code);
}

// hydra ends its processes as soon as it is told to, and what it has not read by then of their
// lines is lost: it gets up to 200 ms to read this process's last one.
void wait_until_read() noexcept {
  int unread = 0;
  for (int ms = 0; ms < 200 && ::ioctl(STDERR_FILENO, FIONREAD, &unread) == 0 && unread > 0; ++ms)
    ::poll(nullptr, 0, 1);
}

class pmi_job final : public job {
 public:
  // The launcher takes the end of the connection without finalize for a failure.
  ~pmi_job() override {
    if (fd_ >= 0) ::close(fd_);
  }

  result<void> open(const settings& s) {
    pmi_place place;
    read_number(s.pmi_rank, place.rank);
    read_number(s.pmi_size, place.size);
    if (auto r = s.pmi_fd.empty() ? call(s, place) : inherit(s); !r) return r;
    if (auto r = agree(s); !r) return r;
    if (auto r = speech_->begin(place); !r) return r;
    if (auto r = check_place("PMI", place.rank, place.size); !r) return r;
    inside_ = true;
    rank_ = place.rank;
    size_ = place.size;
    find_host(speech_->mapping());
    // The launcher's name for the job can be guessed; the random one of rank 0 cannot.
    const std::string mine = rank_ == 0 ? random_name() : std::string();
    auto names = exchange(std::as_bytes(std::span(mine)));
    if (!names) return names.error();
    auto name = name_from((*names)[0]);
    if (!name) return name.error();
    name_ = std::move(*name);
    ::on_exit(&at_exit, nullptr);
    // An MPI library tells hydra by the same connection how it ends.
    if (size_ > 1 && !mpi_is_running()) witness_.watch(fd_, &outlived, this);
    return {};
  }

  // A value is "BYTES:hex", in pieces of a length that the launcher takes.
  result<std::vector<std::vector<std::byte>>> exchange(std::span<const std::byte> mine) override {
    if (fence_begun_) return fence_given_up();
    const std::uint32_t round = round_++;
    std::string text = std::to_string(mine.size()) + ":" + to_hex(mine);
    const std::size_t most = speech_->longest_value();
    for (std::size_t at = 0, piece = 0; at < text.size(); at += most, ++piece)
      if (auto r = speech_->put(key(round, rank_, piece), text.substr(at, most)); !r)
        return r.error();
    if (auto r = speech_->fence(); !r) return r.error();
    std::vector<std::vector<std::byte>> out;
    for (std::uint32_t peer = 0; peer < size_; ++peer) {
      std::vector<std::byte>& theirs = out.emplace_back();
      if (peer == rank_) {
        theirs.assign(mine.begin(), mine.end());
      } else if (auto r = fetch(round, peer, theirs); !r) {
        return r.error();
      }
    }
    return out;
  }

  result<void> fence() override {
    if (fence_begun_) return fence_given_up();
    return speech_->fence();
  }

  result<void> begin_fence() override {
    if (fence_begun_) return fence_given_up();
    fence_begun_ = true;
    return speech_->begin_fence();
  }

  result<bool> fence_is_over() override {
    pollfd answer{fd_, POLLIN, 0};
    if (::poll(&answer, 1, 0) == 0) return false;
    auto over = speech_->step_fence();
    if (!over || *over) fence_begun_ = false;
    return over;
  }

  // Hydra's proxy also writes the answer to a fence to a process that has gone, fails, and ends the
  // job.
  [[nodiscard]] bool outlives_leavers() const noexcept override { return false; }

  void finalize(int code) override {  // the exit code is the process's own
    if (!inside_) return;
    inside_ = false;
    witness_.dismiss();
    say_code(code);
    if (!mpi_is_running()) speech_->finalize();
  }

 protected:
  void tell_abort(int code) noexcept override {
    if (!inside_) return;
    witness_.dismiss();
    wait_until_read();
    speech_->tell_abort(code);
  }

 private:
  // exit(3) and return from main. Of a process that has not left, hydra sees the end of its
  // connection and its death in either order, and says something, or gives the job code 0.
  static void at_exit(int code, void*) {
    if (is_forked()) return;
    auto* const me = static_cast<pmi_job*>(joined());  // null: the world has gone
    if (me == nullptr || !me->inside_) return say_code(code);
    if (code == 0) code = 1;
    log(log_level::error, "ends without leaving the job: code %d", code);
    me->tell_abort(code);
  }
  // The same in the witness, for what ended by _exit(2).
  static void outlived(void* self, int code) noexcept {
    auto* const me = static_cast<pmi_job*>(self);
    log_identity(me->rank_, me->size_);
    if (code < 0)
      log(log_level::error, "has ended without leaving the job");
    else
      log(log_level::error, "has ended without leaving the job, by _exit: code %d", code);
    if (code <= 0) code = 1;
    wait_until_read();
    me->speech_->tell_abort(code);
  }

  static std::string key(std::uint32_t round, std::uint32_t rank, std::size_t piece) {
    return "penstock-" + std::to_string(round) + "-" + std::to_string(rank) + "-" +
           std::to_string(piece);
  }

  result<void> fetch(std::uint32_t round, std::uint32_t peer, std::vector<std::byte>& into) {
    auto text = speech_->get(key(round, peer, 0));
    if (!text) return text.error();
    const auto colon = text->find(':');
    std::size_t bytes = 0;
    bool good = colon != text->npos &&
                read_number(std::string_view(*text).substr(0, colon), bytes) &&
                bytes <= max_contribution;
    for (std::size_t piece = 1; good && text->size() - colon - 1 < 2 * bytes; ++piece) {
      auto next = speech_->get(key(round, peer, piece));
      if (!next) return next.error();
      good = !next->empty();
      *text += *next;
    }
    if (!good || !from_hex(std::string_view(*text).substr(colon + 1), into) || into.size() != bytes)
      return failure{
          "what rank " + std::to_string(peer) + " put into PMI's table came back changed", 0, ""};
    return {};
  }

  // The inherited descriptor stays open, too: an MPI library in this process may use it.
  result<void> inherit(const settings& s) {
    int fd = -1;
    if (!read_number(s.pmi_fd, fd) || ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
      return failure{"PMI_FD=" + s.pmi_fd + " is no open descriptor", errno,
                     "the programs that a process of a job starts are not of the job: unset PMI_FD "
                     "for them"};
    fd_ = asked("fcntl", ::fcntl(fd, F_DUPFD_CLOEXEC, 3));
    if (fd_ < 0) return failure{"dup of PMI_FD", errno, ""};
    return {};
  }

  result<void> call(const settings& s, pmi_place& place) {
    auto fd = connect_to(s.pmi_port, s.connect_timeout_ns);
    if (!fd) return fd.error();
    fd_ = *fd;
    const std::string hello = "cmd=initack pmiid=" + (s.pmi_id.empty() ? "0" : s.pmi_id) + "\n";
    if (!send_all(fd_, hello.data(), hello.size())) return pmi_is_gone();
    auto line = pmi_read_line(fd_);
    if (line && pmi_word(*line, "cmd", ' ') != "initack") return pmi_refused(hello, *line);
    for (int lines = 0; line && lines < 3; ++lines) {  // "cmd=set size=4" and so on
      line = pmi_read_line(fd_);
      if (!line) break;
      read_number(pmi_word(*line, "size", ' '), place.size);
      read_number(pmi_word(*line, "rank", ' '), place.rank);
    }
    if (!line) return line.error();
    return {};
  }

  result<void> agree(const settings& s) {
    const std::uint32_t wanted = s.pmi_version;
    constexpr struct {
      std::uint32_t version;
      int subversion;
    } offers[] = {{1, 1}, {2, 0}};
    for (const auto& o : offers) {
      if (wanted != 0 && wanted != o.version) continue;
      auto taken = pmi_agree_on(fd_, static_cast<int>(o.version), o.subversion);
      if (!taken) return taken.error();
      if (!*taken) continue;
      speech_ = o.version == 1 ? speak_pmi1(fd_) : speak_pmi2(fd_, s.pmi_jobid);
      return {};
    }
    return failure{
        "the launcher speaks " + std::string(wanted == 0 ? "neither PMI-1 nor PMI-2"
                                                         : "no PMI-" + std::to_string(wanted)),
        0, "use a PMIx launcher, or penrun"};
  }

  // The text is "(vector,(FIRST,HOSTS,EACH),...)": HOSTS hosts from number FIRST on have the next
  // EACH ranks each; the list is repeated until all ranks are placed. Where the launcher does not
  // tell, each process counts as a host of its own.
  void find_host(std::string_view text) {
    std::vector<std::uint32_t> numbers;
    for (std::size_t at = 0; at < text.size();) {
      std::uint32_t n = 0;
      const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), n);
      if (error != std::errc{}) {
        ++at;
        continue;
      }
      numbers.push_back(n);
      at = static_cast<std::size_t>(end - text.data());
    }
    std::vector<std::uint32_t> host_of;
    while (host_of.size() < size_) {
      const std::size_t before = host_of.size();
      for (std::size_t i = 0; i + 2 < numbers.size(); i += 3)
        for (std::uint32_t h = 0;
             h < numbers[i + 1] && numbers[i + 2] != 0 && host_of.size() < size_; ++h)
          for (std::uint32_t k = 0; k < numbers[i + 2] && host_of.size() < size_; ++k)
            host_of.push_back(numbers[i] + h);
      if (host_of.size() == before) break;
    }
    host_ranks_.clear();
    for (std::uint32_t r = 0; host_of.size() == size_ && r < size_; ++r)
      if (host_of[r] == host_of[rank_]) host_ranks_.push_back(r);
    if (host_ranks_.empty()) host_ranks_ = {rank_};
    const auto self = std::find(host_ranks_.begin(), host_ranks_.end(), rank_);
    host_rank_ = static_cast<std::uint32_t>(self - host_ranks_.begin());
  }

  int fd_ = -1;
  std::unique_ptr<pmi_speech> speech_;
  witness witness_;
  std::uint32_t round_ = 0;
  bool inside_ = false;
  bool fence_begun_ = false;  // and not over: another collective would take its answer
};

}  // namespace

result<std::unique_ptr<job>> join_pmi(const settings& s) {
  auto j = std::make_unique<pmi_job>();
  if (auto r = j->open(s); !r) return r.error();
  return std::unique_ptr<job>(std::move(j));
}

}  // namespace penstock::job
