// Calls of functions at other ranks: a request, and its response by id. Header only, over
// penstock.hpp: a call that fits a Medium is one, and so is its response; larger ones go as Longs,
// into blocks of the receiver's segment.
//
//   rpc& calls = rpc::on(ep);                             // before ep.start(), on all ranks
//   const rpc_method twice = calls.add([](rpc_request& r) { r.answer(r.body()); });
//   ep.start(1 << 20);
//   calls.open(ep.segment());                             // for values above ep.max_medium()
//
//   rpc_call c;                                           // the caller
//   {
//     const time_limit limit(std::chrono::milliseconds(50));
//     if (calls.call(c, 1, twice, bytes) == status::ok) use(c.response());
//   }
//   calls.serve_until([&] { return finished; });          // a server's loop
//
// A function runs inside a handler, so it must not wait. One that needs another rank, or time,
// takes the request along (later()) and answers when it can, or has another rank answer
// (forward()). Messages that functions may not send themselves are queued, and sent by flush(),
// which wait(), call() and serve_until() call; a program with a loop of its own calls it in each
// turn.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "penstock/penstock.hpp"
#include "penstock/reserve.hpp"
#include "penstock/rpc_calls.hpp"
#include "penstock/segment_blocks.hpp"

namespace penstock::PENSTOCK_ABI {

namespace detail {

struct no_lock {
  void lock() noexcept {}
  void unlock() noexcept {}
};
using rpc_lock = std::conditional_t<compiled_for_mode == PENSTOCK_MODE_is_seq_parsync_or_par::par,
                                    std::mutex, no_lock>;

}  // namespace detail

/// The calls of one endpoint. Threads: those of the endpoint, but for on(), add() and open().
class rpc {
 public:
  /// What this rank allows itself.
  struct limits {
    std::uint32_t calls = 4096;  ///< under way from here at a time
    std::uint32_t kept = 1024;   ///< requests that this rank keeps to answer or forward later
  };
  /// What a function is: it runs in a handler, on the thread that polls, as long as the endpoint
  /// lives, also in its destructor. What it uses must live as long.
  using function = std::function<void(rpc_request&)>;

  /// Makes one for ep, to which it adds five handlers: before ep starts, on all ranks alike. ep
  /// owns it, and is not moved from here on.
  ///@{
  static rpc& on(endpoint& ep, limits l) {
    const std::shared_ptr<rpc> made(new rpc(ep, l));
    ep.keep(made);
    return *made;
  }
  static rpc& on(endpoint& ep) { return on(ep, limits{}); }
  ///@}
  rpc(const rpc&) = delete;
  rpc& operator=(const rpc&) = delete;

  /// Registers a function; before the endpoint starts, in the same order on every rank.
  rpc_method add(function f) {
    functions_.push_back(std::move(f));
    return static_cast<rpc_method>(functions_.size() - 1);
  }
  /// Gives the part of this rank's segment in which large requests and responses to this rank
  /// arrive, which the program uses for nothing else. After start(); without it, Mediums are all.
  void open(std::span<std::byte> area) { blocks_ = segment_blocks(area); }

  /// Begins a call of function m at rank `to`. The value is copied, or on its way, when it returns.
  /// room: the longest response that is expected, if it is above endpoint::max_medium(). ok: c is
  /// under way. Otherwise nothing was begun: busy (c is under way already), no_ticket (as many
  /// calls are as may be), no_space (no block for the response), or what endpoint::request_medium
  /// says, timed_out too. A value above max_medium() takes a round trip more.
  status begin(rpc_call& c, rank_id to, rpc_method m, rpc_value v, std::size_t room = 0) {
    if (!c.done()) return status::busy;
    release(c);
    const std::size_t bytes = v.bytes();
    detail::rpc_return back{.method = m, .origin = rank_};
    const bool large = bytes > max_medium_;
    if (const status s = take_slot(c, back, room > max_medium_ ? room : 0); s != status::ok)
      return s;
    c.of_ = this, c.to_ = to, c.method_ = m, c.code_ = 0, c.response_ = {};
    status s = status::ok;
    if (large) {
      v.append_to(c.kept_);
      s = ep_.request_short(to, ask_, back.slot, back.generation, std::uint64_t{bytes});
    } else if (back.dest != 0) {
      s = send_value(to, wide_, v, back);
    } else {
      s = send_value(to, call_, v, back.slot, back.generation, m);
    }
    if (s != status::ok) {
      const std::lock_guard hold(lock_);
      end(c.slot_, c, s, true);
    }
    return s;
  }
  /// Waits until c is done, and returns its result. timed_out (a time_limit): it is still under
  /// way, and may be waited for again, or cancelled. Otherwise the failure of the wait. peer_dead:
  /// the rank has left the job. Not in a handler.
  status wait(rpc_call& c) {
    constexpr unsigned polls_a_look = 64;
    unsigned polls = 0;
    const status s = serve_until(
        [&] { return c.done() || (++polls % polls_a_look == 0 && ep_.has_gone(c.to_)); });
    if (s != status::ok) return s;
    if (!c.done()) {
      const std::lock_guard hold(lock_);
      // Another rank, to which the call was forwarded, may still write to the block.
      if (!c.done()) end(c.slot_, c, status::peer_dead, false);
    }
    return c.result();
  }
  /// begin() and wait(); a call that is not done then, since a time_limit is over, is cancelled.
  status call(rpc_call& c, rank_id to, rpc_method m, rpc_value v, std::size_t room = 0) {
    if (const status s = begin(c, to, m, v, room); s != status::ok) return s;
    const status s = wait(c);
    cancel(c);  // unless it is done
    return s;
  }
  /// Gives c up: it is done, with timed_out as its result, and a response that comes is dropped.
  /// The function may run all the same.
  void cancel(rpc_call& c) noexcept {
    const std::lock_guard hold(lock_);
    if (!c.done()) end(c.slot_, c, status::timed_out, false);
  }

  /// Polls, and sends what is queued, until done() is true; statuses as endpoint::wait_until.
  template <class Done>
  status serve_until(Done&& done) {
    return ep_.wait_until([&] {
      flush();
      return done();
    });
  }
  /// Sends the messages that handlers have queued, as far as they find room; it never waits. Not in
  /// a handler. Cost when none is queued: a load.
  void flush() {
    // relaxed: a hint; a message that is missed now is sent by the next call
    for (std::uint32_t n = queued_.load(std::memory_order_relaxed); n != 0; --n) {
      queued_message m;
      {
        const std::lock_guard hold(lock_);
        if (queue_.empty()) return;
        m = std::move(queue_.front());
        queue_.pop_front();
        queued_.store(static_cast<std::uint32_t>(queue_.size()), std::memory_order_relaxed);
      }
      const time_limit at_once(std::chrono::nanoseconds(0));
      const status s = send(m);
      if (is_short(s)) put_in_queue(std::move(m));
      if (s == status::in_handler) return put_in_queue(std::move(m));
    }
  }

  /// The number of requests that are kept here, or queued to be forwarded, and not answered yet.
  [[nodiscard]] std::uint32_t kept() const noexcept {
    return kept_.load(std::memory_order_relaxed);  // relaxed: a number for people
  }

 private:
  rpc(endpoint& ep, limits l)
      : ep_(ep), rank_(ep.rank()), max_medium_(ep.max_medium()), limits_(l) {
    call_ = ep.add<&rpc::on_call>(this);
    wide_ = ep.add<&rpc::on_wide>(this);
    answer_ = ep.add<&rpc::on_answer>(this);
    ask_ = ep.add<&rpc::on_ask>(this);
    room_ = ep.add<&rpc::on_room>(this);
  }
  friend class rpc_call;
  friend class rpc_request;
  friend class rpc_responder;

  struct place {
    rpc_call* call = nullptr;
    std::byte* block = nullptr;  // that the other rank may write to
    std::uint32_t generation = 0;
    std::uint32_t next_free = 0;
  };
  enum class kind : std::uint8_t { request, long_request, answer, long_answer, drop };
  struct queued_message {
    kind what{};
    rank_id to = 0;
    detail::rpc_return back;
    std::uint32_t result = 0, code = 0;
    std::uint64_t dest = 0;
    std::vector<std::byte> bytes;
    bool counts = false;  // in kept_
  };
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  // A Medium's payload may not be null.
  static std::span<const std::byte> some(std::span<const std::byte> bytes) noexcept {
    static constexpr std::byte nothing{};
    return bytes.data() != nullptr ? bytes : std::span(&nothing, 0);
  }

  // A list is put together where the Medium is sent from.
  template <class Handler, class... A>
  status send_value(rank_id to, Handler h, const rpc_value& v, const A&... args) {
    std::vector<std::byte> unused;
    if (!v.is_list()) return ep_.request_medium(to, h, some(v.in_a_row(unused)), args...);
    auto medium = reserve_medium(ep_, to, h, v.bytes(), v.bytes());
    if (medium) v.write_to(medium.payload().data());
    return medium.commit(v.bytes(), args...);
  }

  status take_slot(rpc_call& c, detail::rpc_return& back, std::size_t room) {
    const std::lock_guard hold(lock_);
    if (free_ == none && slots_.size() >= limits_.calls) return status::no_ticket;
    std::byte* block = nullptr;
    if (room != 0 && (block = blocks_.take(room)) == nullptr) return status::no_space;
    if (free_ == none) {
      slots_.emplace_back().next_free = none;
      free_ = static_cast<std::uint32_t>(slots_.size() - 1);
    }
    c.slot_ = free_;
    place& s = slots_[c.slot_];
    free_ = s.next_free;
    s.call = &c, s.block = block;
    c.room_ = room;
    c.result_ = status::pending;
    c.done_.store(false, std::memory_order_relaxed);
    back.slot = c.slot_, back.generation = s.generation;
    back.dest = reinterpret_cast<std::uintptr_t>(block), back.room = room;
    return status::ok;
  }
  // (lock_) A slot whose block the other rank may still write to stays taken until that has come.
  void free_slot(std::uint32_t i, bool answered) {
    place& s = slots_[i];
    s.call = nullptr;
    if (s.block != nullptr && !answered) return;
    if (s.block != nullptr) (void)blocks_.give(std::exchange(s.block, nullptr));
    ++s.generation;
    s.next_free = std::exchange(free_, i);
  }
  // (lock_) answered: the other rank writes no more to the block.
  void end(std::uint32_t i, rpc_call& c, status s, bool answered) {
    free_slot(i, answered);
    c.kept_.clear();
    c.result_ = s;
    // D1 done  release done_  -> D2: the response
    c.done_.store(true, std::memory_order_release);
  }
  void release(rpc_call& c) {
    if (c.block_ == nullptr) return;
    const std::lock_guard hold(lock_);
    (void)blocks_.give(std::exchange(c.block_, nullptr));
  }
  void give_block(std::span<std::byte>& block) {
    if (block.empty()) return;
    const std::lock_guard hold(lock_);
    (void)blocks_.give(std::exchange(block, {}).data());
  }
  bool may_keep() noexcept {
    // relaxed, here and below: a count, and nothing else
    if (kept_.fetch_add(1, std::memory_order_relaxed) < limits_.kept) return true;
    kept_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  void keep_no_more() noexcept { kept_.fetch_sub(1, std::memory_order_relaxed); }
  void put_in_queue(queued_message m) {
    const std::lock_guard hold(lock_);
    queue_.push_back(std::move(m));
    queued_.store(static_cast<std::uint32_t>(queue_.size()), std::memory_order_relaxed);
  }

  status send(queued_message& m) {
    status s = status::ok;
    auto* const dest = reinterpret_cast<void*>(m.dest);  // in the segment of m.to
    switch (m.what) {
      case kind::request:
        s = ep_.request_medium(m.to, wide_, some(m.bytes), m.back);
        break;
      case kind::long_request:
        s = ep_.request_long(m.to, wide_, m.bytes, dest, m.back);
        break;
      case kind::answer:
        s = ep_.request_medium(m.to, answer_, some(m.bytes), m.back.slot, m.back.generation,
                               m.result, m.code);
        break;
      case kind::long_answer:
        s = ep_.request_long(m.to, answer_, m.bytes, dest, m.back.slot, m.back.generation, m.result,
                             m.code);
        break;
      case kind::drop:
        s = ep_.request_short(m.to, ask_, 0, 0, m.dest | drop_bit);
        break;
    }
    if (is_short(s) || s == status::in_handler) return s;
    if (m.counts) keep_no_more();
    if (is_failure(s) && m.what == kind::request)
      (void)respond(nullptr, m.back, s, {}, 0, false);  // the caller learns why
    if (is_failure(s) && m.what == kind::long_request) {
      const std::lock_guard hold(lock_);
      settle(m.back.slot, m.back.generation, s);
    }
    return s;
  }
  // (lock_) Ends a call to whose block the other rank writes no more, whether it was given up or
  // not.
  void settle(std::uint32_t i, std::uint32_t generation, status s) {
    if (rpc_call* const c = call_of(i, generation))
      end(i, *c, s, true);
    else if (i < slots_.size() && slots_[i].generation == generation && slots_[i].block != nullptr)
      free_slot(i, true);
  }
  // (lock_) Null: it was given up, or there never was one.
  rpc_call* call_of(std::uint32_t i, std::uint32_t generation) noexcept {
    return i < slots_.size() && slots_[i].generation == generation ? slots_[i].call : nullptr;
  }

  // Sends a response to the rank that has called: by t, in the handler of its own request, or else
  // by the queue (null).
  status respond(token* t, const detail::rpc_return& back, status result,
                 std::span<const std::byte> bytes, std::uint32_t code, bool counts) {
    const bool medium = bytes.size() <= max_medium_;
    if (!medium && bytes.size() > back.room) {
      (void)respond(t, back, status::too_long, {}, 0, counts);
      return status::too_long;
    }
    const auto what = static_cast<std::uint32_t>(result);
    auto* const dest = reinterpret_cast<void*>(back.dest);
    if (t != nullptr)
      return medium ? t->reply_medium(answer_, some(bytes), back.slot, back.generation, what, code)
                    : t->reply_long(answer_, bytes, dest, back.slot, back.generation, what, code);
    put_in_queue({.what = medium ? kind::answer : kind::long_answer,
                  .to = back.origin,
                  .back = back,
                  .result = what,
                  .code = code,
                  .dest = back.dest,
                  .bytes = {bytes.begin(), bytes.end()},
                  .counts = counts});
    return status::ok;
  }
  // m: a request that counts in kept_.
  status pass_on(token* t, rank_id to, rpc_method m, detail::rpc_return back,
                 std::span<const std::byte> body) {
    const status s = to >= ep_.size()            ? status::bad_rank
                     : body.size() > max_medium_ ? status::too_long
                                                 : status::ok;
    if (s != status::ok) {
      (void)respond(t, back, s, {}, 0, true);
      if (t != nullptr) keep_no_more();
      return s;
    }
    back.method = m;
    put_in_queue({.what = kind::request,
                  .to = to,
                  .back = back,
                  .bytes = {body.begin(), body.end()},
                  .counts = true});
    return status::ok;
  }

  // t: as respond() has it.
  void run(token* t, std::span<std::byte> body, const detail::rpc_return& back, bool in_block) {
    if (back.method >= functions_.size()) {
      (void)respond(t, back, status::bad_handler, {}, 0, false);
    } else {
      rpc_request r(*this, t, back, body, in_block);
      functions_[back.method](r);
      if (r.mine_) (void)r.answer({});
      in_block = r.in_block_;
    }
    if (in_block) give_block(body);
  }

  void on_call(token& t, std::span<std::byte> body, std::uint32_t slot, std::uint32_t generation,
               rpc_method m) {
    run(&t, body, {.slot = slot, .generation = generation, .method = m, .origin = t.source()},
        false);
  }
  void on_wide(token& t, std::span<std::byte> body, detail::rpc_return back) {
    bool in_block = false;
    if (body.size() > max_medium_) {
      const std::lock_guard hold(lock_);
      in_block = blocks_.size_of(body.data()) != 0;
    }
    if (back.origin >= ep_.size()) return;
    run(t.source() == back.origin ? &t : nullptr, body, back, in_block);
  }
  void on_answer(token&, std::span<std::byte> body, std::uint32_t slot, std::uint32_t generation,
                 std::uint32_t result, std::uint32_t code) {
    const std::lock_guard hold(lock_);
    rpc_call* const c = call_of(slot, generation);
    if (c == nullptr) return settle(slot, generation, status::ok);
    if (body.data() != nullptr && body.data() == slots_[slot].block) {
      c->block_ = std::exchange(slots_[slot].block, nullptr);
      c->response_ = body;
    } else {
      c->body_.assign(body.begin(), body.end());
      c->response_ = c->body_;
    }
    c->code_ = code;
    const auto highest = static_cast<std::uint32_t>(status::misaligned);
    end(slot, *c, result <= highest ? static_cast<status>(result) : status::device_error, true);
  }
  // A rank asks for a block, or gives one back that it does not use (drop_bit).
  static constexpr std::uint64_t drop_bit = std::uint64_t{1} << 63;
  void on_ask(token& t, std::uint32_t slot, std::uint32_t generation, std::uint64_t bytes) {
    std::byte* at = nullptr;
    {
      const std::lock_guard hold(lock_);
      if ((bytes & drop_bit) != 0) {
        (void)blocks_.give(reinterpret_cast<std::byte*>(bytes & ~drop_bit));
        return;
      }
      at = blocks_.take(bytes);
    }
    (void)t.reply_short(room_, slot, generation,
                        std::uint64_t{reinterpret_cast<std::uintptr_t>(at)});
  }
  void on_room(token& t, std::uint32_t slot, std::uint32_t generation, std::uint64_t at) {
    queued_message m;
    {
      const std::lock_guard hold(lock_);
      rpc_call* const c = call_of(slot, generation);
      if (at == 0) return settle(slot, generation, status::no_space);
      m.to = t.source(), m.dest = at;
      m.what = c != nullptr ? kind::long_request : kind::drop;
      if (c != nullptr) {
        m.back = {.slot = slot,
                  .generation = generation,
                  .method = c->method_,
                  .origin = rank_,
                  .dest = reinterpret_cast<std::uintptr_t>(slots_[slot].block),
                  .room = c->room_};
        m.bytes = std::move(c->kept_);
      } else {
        settle(slot, generation, status::ok);  // the other rank has not been told of the block
      }
    }
    put_in_queue(std::move(m));
  }

  endpoint& ep_;
  const rank_id rank_;            // what ep_ says, here and below, without a call of the library
  const std::size_t max_medium_;  // in each message
  const limits limits_;
  payload_handler<std::uint32_t, std::uint32_t, rpc_method> call_;
  payload_handler<detail::rpc_return> wide_;
  payload_handler<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t> answer_;
  short_handler<std::uint32_t, std::uint32_t, std::uint64_t> ask_, room_;
  std::vector<function> functions_;
  detail::rpc_lock lock_;  // in PAR, over all that follows
  std::vector<place> slots_;
  std::uint32_t free_ = none;
  segment_blocks blocks_;
  std::deque<queued_message> queue_;
  std::atomic<std::uint32_t> queued_{0};  // its size
  std::atomic<std::uint32_t> kept_{0};
};

}  // namespace penstock::PENSTOCK_ABI

#include "penstock/rpc_inl.hpp"
