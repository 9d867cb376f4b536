// The C++20 interface of Penstock: processes of a job exchange active messages through endpoints.
// Link with penstock-seq (one thread), penstock-parsync (one at a time) or penstock-par (any
// number) and compile with PENSTOCK_MODE=seq, parsync or par, which CMake and pkg-config define;
// all that is here lies in an inline namespace of that name, so that only the library of that mode
// links. GASNet programs use gasnet.h instead.
//
//   auto w = penstock::world::join();                     // who is in the job
//   auto ep = penstock::endpoint::open(*w);               // a device, queues, credits
//   auto greet = ep->add<on_greet>();                     // handlers, in the same order everywhere
//   ep->start();                                          // collective; from here on messages flow
//   ep->request_short((ep->rank() + 1) % ep->size(), greet, 42);
//   ep->wait_until([&] { return greeted; });
//   ep->barrier();
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "penstock/counters.hpp"
#include "penstock/mode.hpp"
#include "penstock/result.hpp"
#include "penstock/status.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
class engine;
struct token_state;
}  // namespace penstock::conduit::PENSTOCK_ABI

namespace penstock::PENSTOCK_ABI {

/// Number of a process in its job, 0 … size-1.
using rank_id = std::uint32_t;

/// Most 32-bit argument words of one message.
inline constexpr unsigned max_args = 16;

class token;
class endpoint;

namespace detail {

/// Argument types: trivially copyable; each takes its size rounded up to 32-bit words.
template <class T>
concept argument = std::is_trivially_copyable_v<T> && !std::is_reference_v<T>;

template <class T>
inline constexpr unsigned words_of = (sizeof(T) + 3) / 4;

template <class... A>
inline constexpr unsigned total_words = (0u + ... + words_of<A>);

/// Packs arguments into words, in order.
template <argument... A>
struct packed {
  static_assert(total_words<A...> <= max_args, "more than 16 words of arguments");
  // Shorts and Mediums are read in pairs of words: there is room for an even number.
  std::array<std::uint32_t, total_words<A...> == 0 ? 2 : (total_words<A...> + 1) / 2 * 2> w{};
  explicit packed(const A&... a) noexcept {
    [[maybe_unused]] std::uint32_t* p = w.data();
    ((std::memcpy(p, &a, sizeof a), p += words_of<A>), ...);
  }
};

template <argument T>
T unpack(const std::uint32_t*& p) noexcept {
  T x;
  std::memcpy(static_cast<void*>(&x), p, sizeof x);  // x may have default member values
  p += words_of<T>;
  return x;
}

/// How the engine calls any handler: context, token, argument words, payload.
using raw_handler = void (*)(void* context, token&, const std::uint32_t* args, std::byte* payload,
                             std::size_t bytes);

}  // namespace detail

/// A registered handler without payload, called with arguments A.
template <detail::argument... A>
struct short_handler {
  std::uint8_t index = 0;  ///< in the table that all ranks have alike
};

/// A registered handler that also receives a payload (Medium and Long).
template <detail::argument... A>
struct payload_handler {
  std::uint8_t index = 0;  ///< in the table that all ranks have alike
};

/// The running handler's view of its message; valid only inside the handler, on its thread.
class token {
 public:
  /// The rank that sent the message.
  [[nodiscard]] rank_id source() const noexcept;
  /// True in the handler of a request, which may reply once; false in the handler of a reply.
  [[nodiscard]] bool is_request() const noexcept;
  /// The endpoint the message came to. Requests may not be sent on it from a handler.
  [[nodiscard]] endpoint& at() const noexcept;

  /// Replies; at most once, from the handler of a request. Never waits: the room was taken
  /// beforehand. The payload may be reused on return.
  ///@{
  template <detail::argument... A>
  status reply_short(short_handler<A...> h, std::type_identity_t<A>... args) {
    const detail::packed<A...> p(args...);
    return reply_short_raw(h.index, p.w.data(), detail::total_words<A...>);
  }
  template <detail::argument... A>
  status reply_medium(payload_handler<A...> h, std::span<const std::byte> payload,
                      std::type_identity_t<A>... args) {
    const detail::packed<A...> p(args...);
    return reply_medium_raw(h.index, p.w.data(), detail::total_words<A...>, payload.data(),
                            payload.size());
  }
  ///@}
  /// Puts payload at dest, an address in the requester's segment, then runs the handler there.
  template <detail::argument... A>
  status reply_long(payload_handler<A...> h, std::span<const std::byte> payload, void* dest,
                    std::type_identity_t<A>... args) {
    const detail::packed<A...> p(args...);
    return reply_long_raw(h.index, p.w.data(), detail::total_words<A...>, payload.data(),
                          payload.size(), dest);
  }

 private:
  friend struct conduit::token_state;
  explicit token(conduit::token_state& s) noexcept : s_(&s) {}
  status reply_short_raw(std::uint8_t index, const std::uint32_t* args, unsigned nargs) noexcept;
  status reply_medium_raw(std::uint8_t index, const std::uint32_t* args, unsigned nargs,
                          const void* payload, std::size_t bytes) noexcept;
  status reply_long_raw(std::uint8_t index, const std::uint32_t* args, unsigned nargs,
                        const void* payload, std::size_t bytes, void* dest) noexcept;
  conduit::token_state* s_;
};

namespace detail {

template <class F>
struct handler_traits;
template <class... A>
struct handler_traits<void (*)(token&, A...)> {
  using context = void;
  using ref = short_handler<A...>;
  static constexpr bool payload = false;
  static constexpr unsigned words = total_words<A...>;
  template <auto F>
  static void call(void*, token& t, const std::uint32_t* w, std::byte*, std::size_t) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      [[maybe_unused]] std::tuple<A...> a{unpack<A>(w)...};
      F(t, std::get<I>(a)...);
    }
    (std::index_sequence_for<A...>{});
  }
};
template <class... A>
struct handler_traits<void (*)(token&, std::span<std::byte>, A...)> {
  using context = void;
  using ref = payload_handler<A...>;
  static constexpr bool payload = true;
  static constexpr unsigned words = total_words<A...>;
  template <auto F>
  static void call(void*, token& t, const std::uint32_t* w, std::byte* p, std::size_t n) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      [[maybe_unused]] std::tuple<A...> a{unpack<A>(w)...};
      F(t, std::span<std::byte>(p, n), std::get<I>(a)...);
    }
    (std::index_sequence_for<A...>{});
  }
};
template <class C, class... A>
struct handler_traits<void (C::*)(token&, A...)> {
  using context = C;
  using ref = short_handler<A...>;
  static constexpr bool payload = false;
  static constexpr unsigned words = total_words<A...>;
  template <auto F>
  static void call(void* c, token& t, const std::uint32_t* w, std::byte*, std::size_t) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      [[maybe_unused]] std::tuple<A...> a{unpack<A>(w)...};
      (static_cast<C*>(c)->*F)(t, std::get<I>(a)...);
    }
    (std::index_sequence_for<A...>{});
  }
};
template <class C, class... A>
struct handler_traits<void (C::*)(token&, std::span<std::byte>, A...)> {
  using context = C;
  using ref = payload_handler<A...>;
  static constexpr bool payload = true;
  static constexpr unsigned words = total_words<A...>;
  template <auto F>
  static void call(void* c, token& t, const std::uint32_t* w, std::byte* p, std::size_t n) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      [[maybe_unused]] std::tuple<A...> a{unpack<A>(w)...};
      (static_cast<C*>(c)->*F)(t, std::span<std::byte>(p, n), std::get<I>(a)...);
    }
    (std::index_sequence_for<A...>{});
  }
};

}  // namespace detail

/// Settings by name (PENSTOCK_… or GASNET_…) that win over the environment.
using setting_overrides = std::vector<std::pair<std::string, std::string>>;

/// The job this process is part of. Joined from what penrun or PMIx left in the environment; a
/// process started by itself is a job of one. Join once per process; outlives its endpoints.
class world {
 public:
  /// overrides win over the environment. Fails where a launcher's variables make no sense.
  static result<world> join(const setting_overrides& overrides = {});
  /// Move only.
  ///@{
  world(world&&) noexcept;
  world& operator=(world&&) noexcept;
  ///@}
  ~world();
  /// This process's number in the job.
  [[nodiscard]] rank_id rank() const noexcept;
  /// Processes of the job.
  [[nodiscard]] rank_id size() const noexcept;
  /// Ends every process of the job: this one at once, the others when they next poll, or are killed
  /// when the grace (PENSTOCK_DEATH_GRACE) is over. The job's code is exactly code (0 to 255).
  [[noreturn]] void exit(int code) noexcept;
  /// Allgather of one blob per rank through the launcher. Collective; slow; for set-up.
  result<std::vector<std::vector<std::byte>>> exchange(std::span<const std::byte> mine);

  struct impl;
  /// The library's own use.
  [[nodiscard]] impl& internals() noexcept { return *impl_; }

 private:
  explicit world(std::unique_ptr<impl> i) noexcept;
  std::unique_ptr<impl> impl_;
};

/// What an endpoint has counted since start(); for people and benchmarks.
struct endpoint_statistics {
  std::uint64_t requests_sent = 0;     ///< requests of every kind
  std::uint64_t requests_handled = 0;  ///< request handlers run
  std::uint64_t replies_handled = 0;   ///< reply handlers run
  std::uint64_t credit_stalls = 0;     ///< requests that had to wait for credits
  std::uint64_t credit_messages = 0;   ///< messages that carried nothing but credits
  std::uint64_t credits_lent = 0;      ///< credits that this process has lent on demand
  std::uint64_t credits_revoked = 0;   ///< credits that others gave back to this process
  std::uint64_t credit_epochs = 0;     ///< epochs of credit statistics that have ended here
};

/// What memory of other ranks puts and gets (penstock/rma.hpp) may reach.
enum class remote_access : std::uint8_t {
  segments,    ///< segments only: the fastest
  everything,  ///< any memory: on a network device by registrations made on demand at the other end
};

/// A process's place in the exchange of active messages. Several may be open in one process. Move
/// only. Thread rules: in penstock-par any thread may call anything but open, add, start and the
/// destructor at any time; in penstock-parsync one at a time; in penstock-seq one thread only.
/// Requests wait (polling, which runs handlers) while credits, tickets or buffers are short. A
/// child made by fork() may exec or end: its calls fail with shut_down, its objects' destructors do
/// nothing, and its end is no news to the job.
class endpoint {
 public:
  /// Opens a device and makes the queues. Collective: all ranks open their endpoints in the same
  /// order.
  static result<endpoint> open(world& w, const setting_overrides& overrides = {});
  /// Move only; not while calls are in progress.
  ///@{
  endpoint(endpoint&&) noexcept;
  endpoint& operator=(endpoint&&) noexcept;
  ///@}
  /// Collective: all ranks destroy their endpoints after the same barriers, in the same order.
  /// Waits, polling, until all do: what was sent before is then handled. A rank that destroys its
  /// endpoint early (return from main, an exception) ends nobody by that: it waits for the exit
  /// limit (PENSTOCK_EXITTIMEOUT, 2 s and more by default) and leaves without the others. Their
  /// barriers that it has not begun fail at once with peer_dead, requests to it when it has gone,
  /// and so does a wait that hears nothing from any rank for the exit limit after that.
  ~endpoint();

  /// Registers a handler: a function void(token&, A...) for Shorts, or void(token&,
  /// std::span<std::byte>, A...) for Mediums and Longs; or such a member function with its object.
  /// Before start(); the same handlers in the same order on every rank. At most 255. The payload
  /// may be changed in place, and is gone when the handler returns (Medium).
  template <auto F>
  requires std::same_as < typename detail::handler_traits<decltype(F)>::context,
  void > auto add() { return enter<F>(nullptr); }
  /// The same for a member function; object must stay while the endpoint is open.
  template <auto F>
  auto add(typename detail::handler_traits<decltype(F)>::context* object) {
    return enter<F>(object);
  }

  /// Registers the segment, checks that all ranks agree, and lets messages flow. Collective.
  /// segment_bytes: this rank's share of remotely accessible memory, rounded up to pages; may be 0.
  /// access: the same on all ranks.
  result<void> start(std::size_t segment_bytes = 0, remote_access access = remote_access::segments);

  /// This process's number in the job.
  [[nodiscard]] rank_id rank() const noexcept;
  /// Processes of the job.
  [[nodiscard]] rank_id size() const noexcept;
  /// This rank's segment.
  [[nodiscard]] std::span<std::byte> segment() const noexcept;
  /// Where rank's segment lies in rank's own address space: for destinations of Longs.
  [[nodiscard]] std::span<std::byte> segment_of(rank_id rank) const noexcept;
  /// Largest payload of a Medium, in bytes.
  [[nodiscard]] std::size_t max_medium() const noexcept;
  /// Largest payload of a Long.
  [[nodiscard]] std::size_t max_long() const noexcept;

  /// Sends a request. ok: the payload may be reused. Failures leave nothing sent.
  ///@{
  template <detail::argument... A>
  status request_short(rank_id to, short_handler<A...> h, std::type_identity_t<A>... args) {
    const detail::packed<A...> p(args...);
    return request_short_raw(to, h.index, p.w.data(), detail::total_words<A...>);
  }
  template <detail::argument... A>
  status request_medium(rank_id to, payload_handler<A...> h, std::span<const std::byte> payload,
                        std::type_identity_t<A>... args) {
    const detail::packed<A...> p(args...);
    return request_medium_raw(to, h.index, p.w.data(), detail::total_words<A...>, payload.data(),
                              payload.size());
  }
  ///@}
  /// Puts payload at dest, an address in the target's segment, then runs the handler there.
  template <detail::argument... A>
  status request_long(rank_id to, payload_handler<A...> h, std::span<const std::byte> payload,
                      void* dest, std::type_identity_t<A>... args) {
    const detail::packed<A...> p(args...);
    return request_long_raw(to, h.index, p.w.data(), detail::total_words<A...>, payload.data(),
                            payload.size(), dest, false);
  }
  /// As request_long, but payload must stay unchanged until the reply's handler runs.
  template <detail::argument... A>
  status request_long_async(rank_id to, payload_handler<A...> h, std::span<const std::byte> payload,
                            void* dest, std::type_identity_t<A>... args) {
    const detail::packed<A...> p(args...);
    return request_long_raw(to, h.index, p.w.data(), detail::total_words<A...>, payload.data(),
                            payload.size(), dest, true);
  }

  /// A hint that changes speed only: this process will soon have up to `messages` Mediums of
  /// `bytes` each on their way to that rank at a time. Connects to it and asks for the credits that
  /// this takes, so that they are there before the first message. What the other can lend it lends
  /// (at most LENDER_LIMIT in an epoch; repeat the hint for more). Never waits. Not from a handler.
  status expect(rank_id to, std::uint32_t messages, std::size_t bytes) noexcept;

  /// Moves messages and runs handlers; never waits. Not from a handler.
  status poll() noexcept;
  /// Polls, giving the core away when nothing comes, until done() is true.
  template <class Done>
  status wait_until(Done&& done) {
    for (unsigned empty = 0; !done();)
      if (const status s = poll_once(empty); is_failure(s)) return s;
    return status::ok;
  }
  /// Returns when the handlers of all requests that this process sent before have run, whether they
  /// reply or not; not those of their replies. Waits for what other threads of this process send
  /// meanwhile, too. Polls; the others poll, and call nothing. Not from a handler. Cost: a round
  /// trip to each rank that a request has gone to, or two. peer_dead: one of them has gone.
  status quiet() noexcept;
  /// Returns when every rank has called it, which says nothing of messages: see quiet().
  /// Collective; handlers run meanwhile. Not from a handler.
  /// peer_dead: a rank has left and never comes; nor does any later barrier complete.
  status barrier() noexcept;

  /// What was counted since start(), all ranks together. Any thread.
  [[nodiscard]] endpoint_statistics statistics() const noexcept;
  /// The same by rank, kind and path, with bytes and waits (penstock/counters.hpp). Any thread;
  /// counts of messages that are on their way may be a moment old. Cost: a walk over the ranks.
  [[nodiscard]] endpoint_counters counters() const;
  /// Bytes pinned, by purpose, as a table for people. for_ranks computes it for another job size
  /// (0: this).
  [[nodiscard]] std::string memory_report(std::size_t for_ranks = 0) const;
  /// The device in use and why it was chosen, one line.
  [[nodiscard]] std::string device() const;

  /// The library's own use.
  [[nodiscard]] conduit::engine& internals() noexcept { return *engine_; }

 private:
  explicit endpoint(std::unique_ptr<conduit::engine> e) noexcept;
  template <auto F>
  auto enter(void* object) {
    using traits = detail::handler_traits<decltype(F)>;
    return typename traits::ref{
        add_raw(&traits::template call<F>, object, traits::payload, traits::words)};
  }
  std::uint8_t add_raw(detail::raw_handler f, void* context, bool payload, unsigned words);
  status request_short_raw(rank_id to, std::uint8_t h, const std::uint32_t* args,
                           unsigned n) noexcept;
  status request_medium_raw(rank_id to, std::uint8_t h, const std::uint32_t* args, unsigned n,
                            const void* payload, std::size_t bytes) noexcept;
  status request_long_raw(rank_id to, std::uint8_t h, const std::uint32_t* args, unsigned n,
                          const void* payload, std::size_t bytes, void* dest, bool async) noexcept;
  status poll_once(unsigned& empty) noexcept;

  std::unique_ptr<conduit::engine> engine_;
};

}  // namespace penstock::PENSTOCK_ABI
