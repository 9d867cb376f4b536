// endpoint::quiet(): waits until the other ranks have handled all requests of this process. It asks
// each rank that a request was sent to how many it has handled, until all are. It is not
// collective: the other ranks answer while they poll.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

#include "lib/base/status.hpp"
#include "lib/base/token_table.hpp"
#include "penstock/mode.hpp"

namespace penstock::PENSTOCK_ABI {
class token;
}  // namespace penstock::PENSTOCK_ABI

namespace penstock::conduit::PENSTOCK_ABI {

class core;
class engine;

class quiescence {
 public:
  /// Registers its handlers with e. Before start().
  quiescence(engine& e, core& c) noexcept;
  ~quiescence();
  quiescence(const quiescence&) = delete;
  quiescence& operator=(const quiescence&) = delete;
  /// Waits until all requests sent so far have been handled, and polls meanwhile. Any thread.
  /// timed_out: the next call goes on with the same questions.
  status wait() noexcept;

 private:
  // A question to one rank.
  struct question {
    std::uint32_t rank = 0;
    std::uint64_t sent = 0;  // requests to it when it was asked
    std::atomic<std::uint64_t> answer{none};
    bool asked = false;  // and the answer has not been read
    bool done = false;   // the rank has handled what was sent before the question
    static constexpr std::uint64_t none = ~0ull;
  };
  // All questions of one call. A call that times out leaves them in paused_ to the next call, and
  // one that fails leaves them in abandoned_, since answers may still come.
  struct questions {
    std::deque<question> of;
    questions* next = nullptr;
  };
  static void on_question(void* self, token&, const std::uint32_t* args, std::byte*, std::size_t);
  static void on_answer(void* self, token&, const std::uint32_t* args, std::byte*, std::size_t);
  [[nodiscard]] std::uint64_t sent_to(std::uint32_t rank) const noexcept;
  [[nodiscard]] std::uint64_t handled_of(std::uint32_t rank) const noexcept;
  void complete(questions& all) const;
  status ask(question& q) noexcept;
  status ask_until_handled(questions& all) noexcept;

  engine& engine_;
  core& core_;
  token_table<question> asked_;  // the other ranks know the questions by its tokens
  std::atomic<questions*> paused_{nullptr}, abandoned_{nullptr};
};

}  // namespace penstock::conduit::PENSTOCK_ABI
