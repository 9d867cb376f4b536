// Serves the processes of the job: collects their contributions, answers when all have come, and
// notes which leave in good order and which abort. It knows frames (lib/job/wire.hpp), but not how
// processes start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/job/wire.hpp"

namespace penrun {

/// One process as the service sees it.
class member {
 public:
  using speaker = std::function<void(std::span<const std::byte>)>;
  /// A process here, behind a socket that is ours to close.
  explicit member(int socket) : socket_(socket) {}
  /// A process on another host: `say` takes frames there.
  explicit member(speaker say) : say_(std::move(say)) {}
  [[nodiscard]] int fd() const noexcept { return socket_; }
  /// What was wrong with its messages, for a caller that has learned that something was.
  [[nodiscard]] const char* fault() const noexcept {
    return again_
               ? "has left the job, and a second program that it runs wants to join: a rank runs "
                 "one Penstock program"
               : "sent what no process of the job sends";
  }
  [[nodiscard]] bool has_output() const noexcept { return !out_.empty(); }

  bool joined = false;     ///< has sent any message
  bool gone = false;       ///< can take part in no collective any more
  bool hung_up = false;    ///< has closed its socket: its process is ending, or is another program
  bool finalized = false;  ///< has left in good order
  int final_code = 0;
  std::optional<int> abort_code;
  std::uint64_t abort_ns = 0;  ///< when; of this host's clock
  bool ordered = false;        ///< its code is the job's code, whatever it is

 private:
  friend class service;
  using bytes = std::vector<std::byte>;
  int socket_ = -1;
  speaker say_;
  bytes in_;
  std::deque<std::shared_ptr<const bytes>> out_;
  std::size_t out_sent_ = 0;
  bool again_ = false;
  std::optional<penstock::job::frame_kind> waiting_;
  bytes contribution_;
};

/// All members. Single thread; never waits.
class service {
 public:
  /// processes is their number in the job: a collective is complete when all of them take part,
  /// however many have been started. left: is called with each rank that leaves without the
  /// others. most: bytes that the answer of an exchange may have.
  service(std::vector<member>& members, std::uint32_t processes,
          std::function<void(std::uint32_t)> left, std::uint32_t most = penstock::job::max_exchange)
      : members_(members), left_(std::move(left)), processes_(processes), most_(most) {}

  /// Reads the messages that `rank` has sent, and acts. False if it sent one that no process of
  /// ours sends.
  [[nodiscard]] bool receive(std::uint32_t rank);
  /// The same for the messages of a process on another host.
  [[nodiscard]] bool take(std::uint32_t rank, std::span<const std::byte> text);
  /// Sends what is queued for `rank`.
  void flush(std::uint32_t rank);
  /// To be called when a member is gone: the processes that wait for it are answered "over".
  void give_up_if_incomplete();
  /// Answers all waiting processes "over".
  void give_up();
  /// Ranks that wait while at least one member is gone.
  [[nodiscard]] bool incomplete() const;

 private:
  using bytes = member::bytes;
  bool add(member& m, std::span<const std::byte> text);
  bool parse(member& m);
  bool handle(member& m, penstock::job::frame_kind kind, bytes body);
  void answer_if_complete();
  void answer(penstock::job::frame_kind kind, const bytes& body);
  void send(member& m, std::shared_ptr<const bytes> frame);

  std::vector<member>& members_;
  std::function<void(std::uint32_t)> left_;
  std::uint32_t processes_, most_;
};

}  // namespace penrun
