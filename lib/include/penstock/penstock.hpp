// The C++20 interface of Penstock: processes of a job exchange active messages through endpoints.
// Programs link penstock-seq (one thread), penstock-parsync (one thread at a time) or penstock-par
// (any number of threads), and are compiled with PENSTOCK_MODE=seq, parsync or par, which CMake and
// pkg-config define. Everything here lies in an inline namespace of that name, so that only the
// library of that mode links. GASNet programs use gasnet.h instead.
//
//   auto w = penstock::world::join();                     // the job of this process
//   auto ep = penstock::endpoint::open(*w);               // a device, queues, credits
//   auto greet = ep->add<on_greet>();                     // handlers, in the same order everywhere
//   ep->start();                                          // collective; from here on messages flow
//   ep->request_short((ep->rank() + 1) % ep->size(), greet, 42);
//   ep->wait_until([&] { return greeted; });
//   ep->barrier();
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "penstock/arguments.hpp"
#include "penstock/counters.hpp"
#include "penstock/mode.hpp"
#include "penstock/result.hpp"
#include "penstock/status.hpp"
#include "penstock/time_limit.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
class engine;
struct token_state;
}  // namespace penstock::conduit::PENSTOCK_ABI

namespace penstock::PENSTOCK_ABI {

/// Number of a process in its job, 0 … size-1.
using rank_id = std::uint32_t;

class token;
class endpoint;

namespace detail {

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

/// The running handler's view of its message. It is valid only inside the handler, on the thread
/// that runs it; no call on it waits.
class token {
 public:
  /// The rank that sent the message.
  [[nodiscard]] rank_id source() const noexcept;
  /// True in the handler of a request, which may reply once; false in the handler of a reply.
  [[nodiscard]] bool is_request() const noexcept;
  /// The endpoint that the message came to. A handler must not send requests on it.
  [[nodiscard]] endpoint& at() const noexcept;

  /// Sends the reply: at most once, and only in the handler of a request. It waits for no credits
  /// and no room, since both were taken before the handler began; only a Medium above 4,032 bytes
  /// may wait, while more than 64 handlers of this process send such replies at once. args go to
  /// the handler h at the requester; payload has at most endpoint::max_medium() bytes, and may be
  /// reused on return. ok: the reply is on its way. Otherwise nothing was sent: not_in_handler,
  /// replied_twice, bad_handler, too_long, bad_arguments, peer_dead or device_error. Source: GASNet
  /// specification 2.3, gasnet_AMReply.
  ///@{
  /// With a Short.
  template <detail::argument... A>
  status reply_short(short_handler<A...> h, std::type_identity_t<A>... args) {
    const detail::packed<A...> p(args...);
    return reply_short_raw(h.index, p.w.data(), detail::total_words<A...>);
  }
  /// With a Medium.
  template <detail::argument... A>
  status reply_medium(payload_handler<A...> h, std::span<const std::byte> payload,
                      std::type_identity_t<A>... args) {
    const detail::packed<A...> p(args...);
    return reply_medium_raw(h.index, p.w.data(), detail::total_words<A...>, payload.data(),
                            payload.size());
  }
  ///@}
  /// Puts payload at dest, an address in the requester's segment, and then runs the handler there.
  /// As reply_short, with at most endpoint::max_long() bytes; out_of_segment: dest and payload do
  /// not lie in the requester's segment.
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

/// The name of the function F, as the compiler writes it, with the namespaces and classes around it
/// that have names: "server::on_get".
template <auto F>
constexpr std::string_view name_of() noexcept {
  // gcc: "… [with auto F = {anonymous}::on_get; …]", clang: "… [F = &(anonymous
  // namespace)::on_get]"
  constexpr std::string_view whole = __PRETTY_FUNCTION__, sign = "F = ";
  const std::size_t from = whole.find(sign);
  if (from == whole.npos) return {};
  std::string_view name = whole.substr(from + sign.size());
  name = name.substr(0, name.find(';'));
  if (name.ends_with(']')) name.remove_suffix(1);
  if (name.starts_with('&')) name.remove_prefix(1);
  for (const std::string_view nowhere : {"{anonymous}::", "(anonymous namespace)::"})
    if (name.starts_with(nowhere)) name.remove_prefix(nowhere.size());
  return name;
}

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

/// Settings by name (PENSTOCK_… or GASNET_…), which take precedence over the environment.
using setting_overrides = std::vector<std::pair<std::string, std::string>>;

/// The job that this process is part of. penrun, PMIx or PMI say in the environment which job that
/// is; a process that was started by itself is a job of one. A process joins once, also if it uses
/// gasnet.h beside this interface. It leaves the job when the world and all its endpoints have
/// gone. One thread at a time may call its functions, but exit(),
/// which any thread may call.
class world {
 public:
  /// Joins the job. overrides take precedence over the environment. It fails where a setting is
  /// wrong, where this process has joined before, where the launcher cannot be reached, or where
  /// its variables make no sense. It waits for nobody but the launcher.
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
  /// Ends every process of the job: this one at once, the others when they next poll, or by a kill
  /// when the grace (PENSTOCK_DEATH_GRACE) is over. The job's exit code is code (0 to 255).
  [[noreturn]] void exit(int code) noexcept;
  /// Gives every rank the bytes of all ranks, in the order of ranks, through the launcher. It is
  /// collective, slow (milliseconds), meant for set-up, and does not poll: no handler runs while it
  /// waits. A rank gives at most 16 MiB, and all together, with penrun, 1 GiB.
  result<std::vector<std::vector<std::byte>>> exchange(std::span<const std::byte> mine);

  struct impl;
  /// The library's own use.
  [[nodiscard]] impl& internals() noexcept { return *impl_; }

 private:
  explicit world(std::unique_ptr<impl> i) noexcept;
  std::unique_ptr<impl> impl_;
};

/// What an endpoint has counted since start(), for reports and benchmarks.
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

/// A process's place in the exchange of active messages. A process may open several. Endpoints are
/// move only.
///
/// Threads: in penstock-par any thread may call anything at any time, but open, add, start and the
/// destructor; in penstock-parsync one thread at a time; in penstock-seq one thread only. Requests
/// wait while credits, tickets or buffers are short; while they wait they poll, which runs
/// handlers.
///
/// A child made by fork() may exec or end. Its calls fail with shut_down, the destructors of its
/// objects do nothing, and the job does not notice its end.
class endpoint {
 public:
  /// Opens a device and makes the queues. It is collective: all ranks open their endpoints in the
  /// same order. overrides take precedence over the environment. A failure says what was asked for,
  /// what there is, and what the user can do.
  static result<endpoint> open(world& w, const setting_overrides& overrides = {});
  /// An endpoint must not be moved while calls on it are in progress.
  ///@{
  endpoint(endpoint&&) noexcept;
  endpoint& operator=(endpoint&&) noexcept;
  ///@}
  /// The destructor is collective: all ranks destroy their endpoints after the same barriers, in
  /// the same order. It waits, polling, until all ranks do, so that everything sent before has been
  /// handled. A rank that destroys its endpoint early (by a return from main, or an exception) ends
  /// no other rank by that: it waits for the exit limit (PENSTOCK_EXITTIMEOUT, 2 s and more by
  /// default), for up to five of them while messages still arrive, and leaves without the others.
  /// Their barriers that it has not begun fail at once with peer_dead. Requests to it fail so when
  /// it has gone, and so does a wait that then hears nothing from any rank for the exit limit.
  ~endpoint();

  /// Registers a handler: a function void(token&, A...) for Shorts, or void(token&,
  /// std::span<std::byte>, A...) for Mediums and Longs. Handlers are added before start(), the same
  /// ones in the same order on every rank, and at most 255. A handler may change its payload in
  /// place; a Medium's is gone when the handler returns, a Long's stays in the segment. name is
  /// what traces, lines and pentop call it, by default as the program calls the function; of it 64
  /// characters are kept. Names need not be the same on all ranks, nor differ from each other.
  template <auto F>
  requires std::is_void_v<typename detail::handler_traits<decltype(F)>::context>
  auto add(std::string_view name = detail::name_of<F>()) { return enter<F>(nullptr, name); }
  /// The same for a member function of object, which must live as long as the endpoint is open.
  template <auto F>
  auto add(typename detail::handler_traits<decltype(F)>::context* object,
           std::string_view name = detail::name_of<F>()) {
    return enter<F>(object, name);
  }

  /// Registers the segment, checks that all ranks agree on the handlers, and lets messages flow. It
  /// is collective. segment_bytes is the size of this rank's segment, the memory that others may
  /// reach; it is rounded up to pages and may be 0 or differ from other ranks'. The endpoint owns
  /// the segment. access must be the same on all ranks. A rank that ends after a start that failed
  /// ends the job, since the others would wait for it.
  result<void> start(std::size_t segment_bytes = 0, remote_access access = remote_access::segments);

  /// This process's number in the job.
  [[nodiscard]] rank_id rank() const noexcept;
  /// Processes of the job.
  [[nodiscard]] rank_id size() const noexcept;
  /// This rank's segment; the endpoint owns it.
  [[nodiscard]] std::span<std::byte> segment() const noexcept;
  /// Where rank's segment lies in rank's own address space: addresses in it are the destinations of
  /// Longs, puts and gets. It must not be dereferenced here.
  [[nodiscard]] std::span<std::byte> segment_of(rank_id rank) const noexcept;
  /// Largest payload of a Medium, in bytes: 65,536. Up to 4,032 bytes, unless the library was built
  /// otherwise, it travels with its header; a larger one is copied to a buffer, from which the
  /// target takes it, and costs one credit.
  [[nodiscard]] std::size_t max_medium() const noexcept;
  /// Largest payload of a Long, in bytes.
  [[nodiscard]] std::size_t max_long() const noexcept;

  /// Sends a request to rank `to` (0 to size()-1, this rank included), where the handler h runs
  /// with args. payload has at most max_medium() bytes. It waits, polling, while credits, room or
  /// the connection are short. ok: the request is on its way, and the payload may be reused. After
  /// a failure nothing was sent: bad_rank, bad_handler, bad_arguments, too_long, in_handler (a
  /// handler must not send requests), peer_dead, device_error or shut_down. Cost of a Short: by
  /// rings one store of a cache line, by queue pairs one post. Source: GASNet specification 2.3,
  /// gasnet_AMRequest.
  ///@{
  /// A Short: words alone. It costs one credit.
  template <detail::argument... A>
  status request_short(rank_id to, short_handler<A...> h, std::type_identity_t<A>... args) {
    const detail::packed<A...> p(args...);
    return request_short_raw(to, h.index, p.w.data(), detail::total_words<A...>);
  }
  /// A Medium: words and a payload, which the handler finds in a buffer of the library's.
  template <detail::argument... A>
  status request_medium(rank_id to, payload_handler<A...> h, std::span<const std::byte> payload,
                        std::type_identity_t<A>... args) {
    const detail::packed<A...> p(args...);
    return request_medium_raw(to, h.index, p.w.data(), detail::total_words<A...>, payload.data(),
                              payload.size());
  }
  ///@}
  /// Puts payload at dest, an address in the target's segment, and then runs the handler there. As
  /// request_medium, with at most max_long() bytes; out_of_segment: dest and payload do not lie in
  /// the target's segment.
  template <detail::argument... A>
  status request_long(rank_id to, payload_handler<A...> h, std::span<const std::byte> payload,
                      void* dest, std::type_identity_t<A>... args) {
    const detail::packed<A...> p(args...);
    return request_long_raw(to, h.index, p.w.data(), detail::total_words<A...>, payload.data(),
                            payload.size(), dest, false);
  }
  /// As request_long, but the payload must stay unchanged until the handler of the reply runs.
  template <detail::argument... A>
  status request_long_async(rank_id to, payload_handler<A...> h, std::span<const std::byte> payload,
                            void* dest, std::type_identity_t<A>... args) {
    const detail::packed<A...> p(args...);
    return request_long_raw(to, h.index, p.w.data(), detail::total_words<A...>, payload.data(),
                            payload.size(), dest, true);
  }

  /// A hint, which changes nothing but speed: this process will soon have up to `messages` Mediums
  /// of `bytes` bytes each under way to that rank at a time. It starts a connection and asks for
  /// the credits that these need, so that they are there before the first message. The other rank
  /// lends what it can, at most LENDER_LIMIT in an epoch; a program that needs more repeats the
  /// hint. It never waits, and must not be called in a handler.
  status expect(rank_id to, std::uint32_t messages, std::size_t bytes) noexcept;

  /// Takes the messages that have arrived, runs their handlers, and returns; it never waits. It
  /// must not be called in a handler. Returns ok, or why messages can no longer flow (peer_dead,
  /// device_error, shut_down). Cost when no message has come: about one load for each connected
  /// peer, up to three peers; with more it looks at those that have sent lately, and at some others
  /// in turn.
  status poll() noexcept;
  /// Polls until done() is true, and yields the core while no message comes. Returns ok, or the
  /// first failure of a poll. done() is called between polls, by the calling thread.
  template <class Done>
  status wait_until(Done&& done) {
    for (unsigned empty = 0; !done();)
      if (const status s = poll_once(empty); s != status::ok) return s;
    return status::ok;
  }
  /// True if rank r has left the job early, so that nothing reaches it any more, as far as this
  /// rank knows. Any thread may call it. Cost: a load, as long as no rank has.
  [[nodiscard]] bool has_gone(rank_id r) const noexcept;
  /// Keeps an object as long as the endpoint's handlers may run, which its destructor does, too.
  /// For one that registers its own member functions as handlers. Before start().
  void keep(std::shared_ptr<void> object);
  /// A descriptor that is readable when there may be something to do: for poll(2), epoll, asio and
  /// the like, so that a program can sleep. The first call has to come before start(); each rank
  /// decides for itself. The endpoint owns the descriptor, which is valid until the endpoint is
  /// destroyed, and is never read or written by the program. It says nothing before arm() is
  /// called, and stays readable until the next arm(). A failure names what the kernel refused, or
  /// says that there is a progress thread (PENSTOCK_PROGRESS_THREAD), beside which nobody has to
  /// sleep.
  ///
  ///   for (;;) {
  ///     while ((s = ep.arm()) == status::pending) {}   // handles what has come, look for your own
  ///     …                                              // sleep in epoll_wait if s is ok
  ///   }
  ///
  /// Cost: a message to a rank that sleeps takes its sender a system call; one to a rank that has
  /// called this, and is awake, a load. Ranks that have not called it pay nothing.
  result<int> event_fd();
  /// Gets ready to sleep on event_fd(): gives credits back that are owed, asks to be told of each
  /// message and completion from here on, and then polls, which runs handlers. ok: nothing has
  /// come, so the program may sleep. pending: something has been handled, or is under way; see
  /// whether what you wait for is there, and call it again. Otherwise as poll(), or unsupported
  /// without event_fd(). One thread at a time may call it, and no handler. Requests that return
  /// timed_out for want of room make the descriptor readable within half a millisecond, and need to
  /// be called again then. Cost: some microseconds; a fence on all processors with shm0.
  status arm() noexcept;
  /// Returns when the handlers of all requests that this process sent before have run at their
  /// targets, whether they reply or not. It does not wait for the handlers of replies, but does
  /// wait for requests that other threads of this process send meanwhile. It polls; the targets
  /// have to poll, too, and need no call of their own. It must not be called in a handler.
  /// peer_dead: a target has gone. Cost: one or two round trips to each rank that a request has
  /// gone to; those of the library's own, such as a barrier's, count.
  status quiet() noexcept;
  /// Returns when every rank has called it. That says nothing of messages, for which quiet() is
  /// there. It is collective, polls, and must not be called in a handler. peer_dead: a rank has
  /// left and will never come, so that no later barrier completes either.
  status barrier() noexcept;

  /// What was counted since start(), for all ranks together. Any thread may call it.
  [[nodiscard]] endpoint_statistics statistics() const noexcept;
  /// The same by rank, kind and path, with bytes and waits (penstock/counters.hpp). Any thread may
  /// call it, while messages flow; its figures need not be of one moment. Cost: a walk over the
  /// ranks.
  [[nodiscard]] endpoint_counters counters() const;
  /// A table, as text, of the bytes that this process pins, by purpose. for_ranks computes it for a
  /// job of that many processes; 0: for this job, and then, once it has started, also with the
  /// bytes that are in memory now, by the kernel's count (/proc/self/smaps).
  [[nodiscard]] std::string memory_report(std::size_t for_ranks = 0) const;
  /// One line about the device in use, and why it was chosen.
  [[nodiscard]] std::string device() const;

  /// The library's own use.
  [[nodiscard]] conduit::engine& internals() noexcept { return *engine_; }

 private:
  explicit endpoint(std::unique_ptr<conduit::engine> e) noexcept;
  template <auto F>
  auto enter(void* object, std::string_view name) {
    using traits = detail::handler_traits<decltype(F)>;
    return typename traits::ref{
        add_raw(&traits::template call<F>, object, traits::payload, traits::words, name)};
  }
  std::uint8_t add_raw(detail::raw_handler f, void* context, bool payload, unsigned words,
                       std::string_view name);
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
