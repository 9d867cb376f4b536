// Active messages of gasnet.h: from its calls to the engine's. With GASNET_SEGMENT_EVERYTHING there
// is no segment for a Long to go to: it travels as a Medium of the library's own, whose handler
// copies the payload to its place and then runs the client's handler.
#include <gasnet_penstock.h>
#include <sched.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "lib/base/log.hpp"
#include "lib/gasnet/idle_polls.hpp"
#include "lib/gasnet/messages.hpp"
#include "lib/gasnet/process.hpp"
#include "lib/gasnet/reach.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

using conduit::outgoing;
using conduit::running;
using conduit::token_state;
using conduit::wire::kind;

// ---- Longs to anywhere ----

// Stands in front of the payload of the library's Medium.
struct long_anywhere {
  std::uint64_t dest = 0;
  std::uint32_t bytes = 0;
  std::uint8_t handler = 0;
  std::uint8_t nargs = 0;
  std::uint16_t was_put = 0;  // 1: the payload lies there already
  std::uint32_t args[max_args] = {};
};
// Up to this size the payload is copied into an eager Medium.
constexpr std::size_t most_eager = conduit::max_eager - sizeof(long_anywhere);
static_assert(most_eager >= 512 - sizeof(long_anywhere));
// A larger one of a request goes before it as a put, and of a reply, whose handler may not begin
// transfers, in a Medium of any size.
constexpr std::size_t longest_reply_anywhere = conduit::max_medium - sizeof(long_anywhere);

struct packed_anywhere {
  long_anywhere head;
  std::byte data[most_eager];
};
static_assert(sizeof(packed_anywhere) <= conduit::max_eager + alignof(packed_anywhere));

void run_long_anywhere(void*, token&, const std::uint32_t*, std::byte* payload, std::size_t bytes) {
  token_state& t = *running;
  long_anywhere h;
  if (bytes < sizeof h)
    fatal(1, "a Long from rank %u is %zu bytes short", t.source(), sizeof h - bytes);
  std::memcpy(&h, payload, sizeof h);
  const bool is_there = h.was_put != 0;
  if ((is_there ? 0 : h.bytes) != bytes - sizeof h || h.nargs > max_args)
    fatal(1, "a Long from rank %u makes no sense", t.source());
  auto* const place = reinterpret_cast<void*>(h.dest);
  if (bytes > sizeof h) std::memcpy(place, payload + sizeof h, h.bytes);
  run_long_of_client(t, h.handler, place, h.bytes, h.args, h.nargs);
}

// The Medium for a Long, but for its payload; written to room.
outgoing anywhere_message(const outgoing& m, long_anywhere& room) {
  room.dest = reinterpret_cast<std::uintptr_t>(m.dest);
  room.bytes = static_cast<std::uint32_t>(m.bytes);
  room.handler = m.handler;
  room.nargs = static_cast<std::uint8_t>(m.nargs);
  if (m.nargs != 0) std::memcpy(room.args, m.args, m.nargs * sizeof *m.args);
  return {.kind = kind::medium,
          .handler = on_long_anywhere,
          .flags = static_cast<std::uint8_t>(conduit::wire::flag_system | m.flags),
          .payload = &room,
          .bytes = sizeof room};
}

// Passes the Medium for a small Long to go.
template <class Go>
status send_eager(const outgoing& m, Go&& go) {
  packed_anywhere room;
  outgoing packed = anywhere_message(m, room.head);
  if (m.bytes != 0) std::memcpy(room.data, m.payload, m.bytes);
  packed.bytes += m.bytes;
  return go(packed);
}

// Puts the payload of a request, waits until it is there, and passes the Medium that tells of it to
// go. immediate: a put that finds no room is not begun.
template <class Go>
status put_and_tell(std::uint32_t dest, const outgoing& m, bool immediate, Go&& go) {
  if (m.bytes > conduit::max_long) return status::too_long;
  if (m.payload == nullptr) return status::bad_arguments;
  conduit::transfers& sided = self.engine->one_sided();
  if (immediate)
    if (const status s = sided.room_for(dest, m.dest, m.bytes, firehose::purpose::destination);
        s != status::ok)
      return s;
  conduit::op_counter pending{0};
  status s = sided.put(dest, m.dest, m.payload, m.bytes, conduit::reuse::on_completion, pending);
  if (const status waited = sided.wait(pending); s == status::ok) s = waited;
  if (s != status::ok) {
    sided.settle(pending);
    return s;
  }
  long_anywhere head;
  head.was_put = 1;
  outgoing told = anywhere_message(m, head);
  return go(told);
}

// Passes a Medium with the whole of a larger reply to go.
template <class Go>
status send_copied(const outgoing& m, Go&& go) {
  if (m.bytes > longest_reply_anywhere) return status::too_long;
  if (m.payload == nullptr) return status::bad_arguments;
  const auto copy = std::make_unique_for_overwrite<std::byte[]>(sizeof(long_anywhere) + m.bytes);
  long_anywhere head;
  outgoing packed = anywhere_message(m, head);
  std::memcpy(copy.get(), &head, sizeof head);
  std::memcpy(copy.get() + sizeof head, m.payload, m.bytes);
  packed.payload = copy.get();
  packed.bytes += m.bytes;
  return go(packed);
}

// ---- answers ----

// The size of a message, the largest one that may be sent, and where it was to go, for the line of
// a refusal.
struct sizes {
  std::size_t bytes = 0, most = 0;
  std::uint32_t to = 0;
  const void* dest = nullptr;
};

int answer(status s, const char* call, sizes n = {}) {
  switch (s) {
    case status::ok:
      return GASNET_OK;
    case status::bad_handler:
      fatal(1, "%s: the handler is not registered", call);
    case status::too_long:
      // The job ends, since a client that does not look at the error would wait for ever.
      fatal(1, "%s: a payload of %zu bytes, and %zu is the most", call, n.bytes, n.most);
    case status::bad_rank:
    case status::bad_arguments:
    case status::in_handler:
    case status::not_in_handler:
    case status::replied_twice:
      log(log_level::warning, "%s: %s", call, describe(s));
      return GASNET_ERR_BAD_ARG;
    case status::out_of_segment:
      log(log_level::warning, "%s: %s", call, not_in_segment(n.to, n.dest, n.bytes).c_str());
      return GASNET_ERR_BAD_ARG;
    case status::not_ready:
      return GASNET_ERR_NOT_INIT;
    case status::shut_down:
      if (is_forked()) return GASNET_ERR_NOT_INIT;  // and the engine has said why
      [[fallthrough]];
    default:
      log(log_level::error, "%s: %s", call, describe(s));
      return GASNET_ERR_RESOURCE;
  }
}

int requested(status s, gasnet_node_t dest, const char* call, sizes n = {}) {
  // A message to this process itself passes no queue. Without this poll, a process that only sends
  // to itself would never handle others' messages.
  if (s == status::ok && dest == GASNETC_(mynode)) (void)GASNETC_(poll)();
  return answer(s, call, n);
}

std::size_t longest(const outgoing& m, bool request) {
  return m.kind == kind::medium ? conduit::max_medium
         : m.kind == kind::long_
             ? (self.everything && !request ? longest_reply_anywhere : conduit::max_long)
             : 0;
}

int request(gasnet_node_t dest, outgoing& m, const char* call) {
  if (!self.attached) [[unlikely]]
    return too_early(call);
  const sizes n{m.bytes, longest(m, true), dest, m.dest};
  return requested(send_request(dest, m, false), dest, call, n);
}

}  // namespace

outgoing message(kind k, gasnet_handler_t handler, unsigned n, const gasnet_handlerarg_t* args,
                 const void* payload, std::size_t bytes, void* dest) {
  outgoing m;
  m.kind = k;
  m.handler = handler;
  m.nargs = n;
  m.args = reinterpret_cast<const std::uint32_t*>(args);
  m.payload = payload;
  m.bytes = bytes;
  m.dest = dest;
  return m;
}

status send_request(std::uint32_t dest, outgoing& m, bool immediate) {
  const auto go = [&](const outgoing& to_send) {
    return immediate ? self.engine->try_request(dest, to_send)
                     : self.engine->request(dest, to_send);
  };
  if (m.kind == kind::long_ && dest < GASNETC_(nodes)) m.dest = engine_address(dest, m.dest);
  if (m.kind != kind::long_ || !self.everything) [[likely]]
    return go(m);
  if (m.nargs > max_args) return status::bad_arguments;
  return m.bytes <= most_eager ? send_eager(m, go) : put_and_tell(dest, m, immediate, go);
}

status send_reply(gasnet_token_t token, outgoing& m) {
  token_state& t = state_of(token);
  const between request = endpoints_of(t);
  m.flags = between{request.to, request.from}.flags();
  if (m.kind == kind::long_) m.dest = engine_address(t.source(), m.dest);
  if (m.kind != kind::long_ || !self.everything) [[likely]]
    return self.engine->reply(t, m);
  if (m.nargs > max_args) return status::bad_arguments;
  const auto go = [&](const outgoing& to_send) { return self.engine->reply(t, to_send); };
  return m.bytes <= most_eager ? send_eager(m, go) : send_copied(m, go);
}

status send_reply_short(token_state& t, gasnet_handler_t handler, unsigned n,
                        const gasnet_handlerarg_t* args) {
  if (t.header.flags == 0) [[likely]]
    return conduit::engine::reply_short(t, handler, reinterpret_cast<const std::uint32_t*>(args),
                                        n);
  auto m = message(kind::short_, handler, n, args);
  return send_reply(handle_of(t), m);
}
status send_reply_medium(token_state& t, gasnet_handler_t handler, unsigned n,
                         const gasnet_handlerarg_t* args, const void* payload, std::size_t bytes) {
  if (t.header.flags == 0) [[likely]]
    return conduit::engine::reply_medium(t, handler, reinterpret_cast<const std::uint32_t*>(args),
                                         n, payload, bytes);
  auto m = message(kind::medium, handler, n, args, payload, bytes);
  return send_reply(handle_of(t), m);
}

void register_messages(conduit::engine& e) {
  register_client_handlers(e);
  e.add_system_handler(on_long_anywhere, {.call = &run_long_anywhere,
                                          .context = nullptr,
                                          .words = 0,
                                          .payload = conduit::handler_entry::takes::payload});
}

}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock;
using namespace penstock::gasnet;

extern "C" {

size_t GASNETC_(max_medium) = conduit::max_medium;
size_t GASNETC_(max_long)[2] = {conduit::max_long, conduit::max_long};
size_t GASNETC_(max_long_reply)[2] = {conduit::max_long, longest_reply_anywhere};

int GASNETC_(request_short)(gasnet_node_t dest, gasnet_handler_t handler, unsigned n,
                            const gasnet_handlerarg_t* args) {
  if (!self.attached) [[unlikely]]
    return too_early("gasnet_AMRequestShort");
  const status s =
      self.engine->request_short(dest, handler, reinterpret_cast<const std::uint32_t*>(args), n);
  if (s == status::ok && dest != GASNETC_(mynode)) [[likely]]
    return GASNET_OK;
  return requested(s, dest, "gasnet_AMRequestShort");
}
int GASNETC_(request_medium)(gasnet_node_t dest, gasnet_handler_t handler, const void* source,
                             size_t nbytes, unsigned n, const gasnet_handlerarg_t* args) {
  if (!self.attached) [[unlikely]]
    return too_early("gasnet_AMRequestMedium");
  const status s = self.engine->request_medium(
      dest, handler, reinterpret_cast<const std::uint32_t*>(args), n, source, nbytes);
  return requested(s, dest, "gasnet_AMRequestMedium", {nbytes, conduit::max_medium});
}
int GASNETC_(request_long)(gasnet_node_t dest, gasnet_handler_t handler, const void* source,
                           size_t nbytes, void* dest_addr, int async, unsigned n,
                           const gasnet_handlerarg_t* args) {
  auto m = message(kind::long_, handler, n, args, source, nbytes, dest_addr);
  m.async = async != 0;
  return request(dest, m, "gasnet_AMRequestLong");
}
int GASNETC_(reply_short)(gasnet_token_t token, gasnet_handler_t handler, unsigned n,
                          const gasnet_handlerarg_t* args) {
  return answer(send_reply_short(state_of(token), handler, n, args), "gasnet_AMReplyShort");
}
int GASNETC_(reply_medium)(gasnet_token_t token, gasnet_handler_t handler, const void* source,
                           size_t nbytes, unsigned n, const gasnet_handlerarg_t* args) {
  const status s = send_reply_medium(state_of(token), handler, n, args, source, nbytes);
  return answer(s, "gasnet_AMReplyMedium", {nbytes, conduit::max_medium});
}
int GASNETC_(reply_long)(gasnet_token_t token, gasnet_handler_t handler, const void* source,
                         size_t nbytes, void* dest_addr, unsigned n,
                         const gasnet_handlerarg_t* args) {
  auto m = message(kind::long_, handler, n, args, source, nbytes, dest_addr);
  const sizes n_of{m.bytes, longest(m, false), state_of(token).source(), m.dest};
  return answer(send_reply(token, m), "gasnet_AMReplyLong", n_of);
}
void GASNETC_(bad_argument_count)(const char* function, int announced, int given) {
  fatal(1, "%s: %d arguments announced, %d given", function, announced, given);
}

int GASNETC_(expect)(gasnet_node_t node, unsigned int messages, size_t nbytes) {
  if (!self.attached) return too_early("gasnet_penstock_expect");
  const status s = self.engine->expect(node, messages, nbytes);
  if (s != status::too_long) return answer(s, "gasnet_penstock_expect");
  // Nobody waits for what a hint names, so the job goes on.
  log(log_level::warning, "gasnet_penstock_expect: a payload of %zu bytes, and %zu is the most",
      nbytes, std::size_t{conduit::max_medium});
  return GASNET_ERR_BAD_ARG;
}

int GASNETC_(source)(gasnet_token_t token, gasnet_node_t* srcindex) {
  if (token == nullptr || srcindex == nullptr) return GASNET_ERR_BAD_ARG;
  *srcindex = state_of(token).source();
  return GASNET_OK;
}

int GASNETC_(poll)(void) {
  if (exit_news.is_up()) [[unlikely]] {
    if (!self.attached) return too_early("gasnet_AMPoll");
    if (heed_exit_news(true)) {
      sched_yield();
      return GASNET_OK;
    }
  }
  static thread_local constinit idle_polls idle;
  unsigned n = 0;
  const status s = self.engine->poll(&n);
  self.barrier->kick();
  coll::kick();
  if (s != status::ok) [[unlikely]]
    return answer(s, "gasnet_AMPoll");
  if (n != 0)
    idle.found_something();
  else if (idle.found_nothing()) [[unlikely]]
    rest_from_polls(idle);
  return GASNET_OK;
}
void GASNETC_(wait_step)(unsigned* empty) { gasnet::wait_step(*empty); }

}  // extern "C"
