// The client's handlers: their table, and how a message that came runs one of them.
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "lib/base/cross_process.hpp"
#include "lib/base/function_name.hpp"
#include "lib/base/log.hpp"
#include "lib/gasnet/messages.hpp"
#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

using conduit::running;
using conduit::token_state;
using conduit::wire::kind;
using client_function = void (*)();

// ---- calling the client's handlers: one function per number of arguments ----

template <std::size_t>
using argument = gasnet_handlerarg_t;

template <std::size_t... I>
void call_short(client_function f, gasnet_token_t t, const std::uint32_t* a,
                std::index_sequence<I...>) {
  reinterpret_cast<void (*)(gasnet_token_t, argument<I>...)>(f)(
      t, static_cast<gasnet_handlerarg_t>(a[I])...);
}
template <std::size_t... I>
void call_payload(client_function f, gasnet_token_t t, void* p, std::size_t n,
                  const std::uint32_t* a, std::index_sequence<I...>) {
  reinterpret_cast<void (*)(gasnet_token_t, void*, std::size_t, argument<I>...)>(f)(
      t, p, n, static_cast<gasnet_handlerarg_t>(a[I])...);
}
template <std::size_t N>
void short_of(client_function f, gasnet_token_t t, const std::uint32_t* a) {
  call_short(f, t, a, std::make_index_sequence<N>{});
}
template <std::size_t N>
void payload_of(client_function f, gasnet_token_t t, void* p, std::size_t n,
                const std::uint32_t* a) {
  call_payload(f, t, p, n, a, std::make_index_sequence<N>{});
}
template <std::size_t... N>
constexpr auto shorts(std::index_sequence<N...>) {
  return std::array{&short_of<N>...};
}
template <std::size_t... N>
constexpr auto payloads(std::index_sequence<N...>) {
  return std::array{&payload_of<N>...};
}
constexpr auto short_callers = shorts(std::make_index_sequence<max_args + 1>{});
constexpr auto payload_callers = payloads(std::make_index_sequence<max_args + 1>{});

// A handler may cast the payload of a Medium to any type, but in a ring's slot the payload may lie
// at an odd multiple of 8. Only such small payloads are copied to an aligned place.
constexpr std::uintptr_t any_type = alignof(std::max_align_t);

void run_with_payload(client_function f, token_state& t, std::byte* p, std::size_t n,
                      const std::uint32_t* args, unsigned nargs) {
  if ((reinterpret_cast<std::uintptr_t>(p) & (any_type - 1)) != 0 && n <= conduit::max_eager)
      [[unlikely]] {
    alignas(any_type) std::byte copy[conduit::max_eager];
    if (n != 0) std::memcpy(copy, p, n);
    payload_callers[nargs](f, handle_of(t), copy, n, args);
    return;
  }
  payload_callers[nargs](f, handle_of(t), p, n, args);
}

constexpr std::uint32_t bit_of(kind k) noexcept { return 1u << static_cast<unsigned>(k); }
constexpr std::uint32_t long_bits = bit_of(kind::long_) | bit_of(kind::packed_long);
constexpr unsigned counts_shift = 8;
static_assert(long_bits < 1u << 4 && counts_shift + max_args < 32);

// A handler that the client registered, by index. It takes a message if the bits of the message's
// kind and of its number of arguments are set. The table of gasnet.h tells neither: there the first
// message does, since a function has one list of parameters. relaxed: nothing else is read because
// of what
struct client_handler {
  client_function call = nullptr;
  // bit k: requests of kind k; bit 4 + k: replies; bit counts_shift + n: n arguments
  std::atomic<std::uint32_t> what{0};
  gex_AM_Entry_t entry{};

  [[nodiscard]] bool takes(kind k, bool request, unsigned nargs) const noexcept {
    tsan_hear_peer(this);  // its sender has heard of the registration
    const std::uint32_t bits = what.load(std::memory_order_relaxed);
    return (bits >> (static_cast<unsigned>(k) + (request ? 0 : 4)) & bits >> counts_shift >> nargs &
            1) != 0;
  }
};
client_handler clients[conduit::user_handlers];
// Those of the endpoints of index 1 to 7 that have messages; never freed, as a message may come
// while exit() runs.
std::atomic<client_handler*> more_clients[message_endpoints - 1];

// The handler of that index of the endpoint to which t's message went; first: that of the first
// endpoint. Ends the job where there is no such endpoint.
client_handler& handler_for(const token_state& t, client_handler& first) {
  const unsigned endpoint = endpoints_of(t).to;
  if (endpoint == 0) [[likely]]
    return first;
  // H2 look  acquire more_clients  <- H1: the table's own words are seen
  client_handler* const table = more_clients[endpoint - 1].load(std::memory_order_acquire);
  if (table == nullptr)
    fatal(1,
          "a message from rank %u came for endpoint %u, which was not created here, or without "
          "GEX_EP_CAPABILITY_AM",
          t.source(), endpoint);
  return table[&first - clients];
}
client_handler& handler_of(std::uint8_t index, unsigned endpoint) noexcept {
  // H3 look  acquire more_clients  <- H1: the same
  return endpoint == 0 ? clients[index]
                       : more_clients[endpoint - 1].load(std::memory_order_acquire)[index];
}
// The index of the client's handler that one of the library's own handlers runs.
thread_local constinit unsigned standing_in = 0;

// "128 on_hit", or "128" where neither the client nor the program's symbols name the function.
std::string name_in_lines(const client_handler& h, unsigned index) {
  const std::string name = h.entry.gex_name != nullptr
                               ? h.entry.gex_name
                               : name_of_function(reinterpret_cast<const void*>(h.call));
  return std::to_string(index) + (name.empty() ? "" : " ") + name;
}

// Ends the job for a message that h does not take, unless it is the first one for a handler of
// gasnet.h's.
void admit(client_handler& h, unsigned index, kind k, bool request, unsigned nargs,
           unsigned source) {
  if (h.call == nullptr)
    fatal(1, "a message from rank %u came for AM handler %u, which is not registered here", source,
          index);
  if (h.entry.gex_nargs == any_number) {
    const std::uint32_t bits = k == kind::short_ ? bit_of(k) : bit_of(kind::medium) | long_bits;
    const std::uint32_t wanted = bits | bits << 4 | 1u << counts_shift << nargs;
    std::uint32_t before = 0;
    if (h.what.compare_exchange_strong(before, wanted, std::memory_order_relaxed) ||
        before == wanted)
      return;
    fatal(1,
          "a %s %s with %u arguments came from rank %u for AM handler %s, which has taken %s with "
          "%d before: one of the two is wrong, since a function takes a payload or none, and one "
          "number of arguments",
          name_of(k), request ? "request" : "reply", nargs, source, name_in_lines(h, index).c_str(),
          (before & bit_of(kind::short_)) != 0 ? "a Short" : "a Medium or Long",
          std::countr_zero(before >> counts_shift));
  }
  fatal(1, "a %s %s with %u arguments came from rank %u for AM handler %s: it takes %u, and %s",
        name_of(k), request ? "request" : "reply", nargs, source, name_in_lines(h, index).c_str(),
        h.entry.gex_nargs, describe_kinds(h.entry.gex_flags));
}

// The engine calls the handler as the client's table does, or as the program calls its function.
void tell_name(conduit::engine& e, unsigned index) {
  const gex_AM_Entry_t& entry = clients[index].entry;
  if (entry.gex_fnptr != nullptr)
    e.names().set(index, entry.gex_name != nullptr ? entry.gex_name : "",
                  reinterpret_cast<const void*>(entry.gex_fnptr));
}

// ---- Mediums that look like replies ----

void run_unasked_reply(void*, token&, const std::uint32_t* args, std::byte* payload,
                       std::size_t bytes) {
  token_state& t = *running;
  const std::uint32_t index = args[0];
  if (index >= conduit::user_handlers)
    fatal(1, "a put's message from rank %u makes no sense", t.source());
  client_handler& entry = handler_for(t, clients[index]);
  if (!entry.takes(kind::medium, false, 0)) [[unlikely]]
    admit(entry, index, kind::medium, false, 0, t.source());
  standing_in = index;
  // The handler sees a reply, which it cannot answer; the request is answered after it.
  t.request = false;
  t.replied = true;
  run_with_payload(entry.call, t, payload, bytes, nullptr, 0);
  t.request = true;
  t.replied = false;
  standing_in = 0;
}

}  // namespace

void run_long_of_client(token_state& t, unsigned index, void* place, std::size_t bytes,
                        const std::uint32_t* args, unsigned nargs) {
  client_handler& h = clients[index];
  if (!h.takes(kind::long_, t.request, nargs)) [[unlikely]]
    admit(h, index, kind::long_, t.request, nargs, t.source());
  standing_in = index;
  payload_callers[nargs](h.call, handle_of(t), place, bytes, args);
  standing_in = 0;
}

status send_unasked_reply(std::uint32_t dest, between endpoints, gex_AM_Index_t handler,
                          const void* payload, std::size_t bytes) {
  const std::uint32_t index = handler;
  return self.engine->request(
      dest, {.kind = kind::medium,
             .handler = on_peer_completion,
             .flags = static_cast<std::uint8_t>(conduit::wire::flag_system | endpoints.flags()),
             .nargs = 1,
             .args = &index,
             .payload = payload,
             .bytes = bytes});
}

bool running_long(const token_state& t) noexcept {
  const kind k = t.header.kind();
  return t.header.system() ? t.header.handler == on_long_anywhere
                           : k == kind::long_ || k == kind::packed_long;
}

const gex_AM_Entry_t* running_entry(const token_state& t) noexcept {
  const unsigned index = t.header.system() ? standing_in : t.header.handler;
  return &handler_of(static_cast<std::uint8_t>(index), endpoints_of(t).to).entry;
}

const char* describe_kinds(gex_Flags_t flags) noexcept {
  static constexpr const char* texts[] = {
      "nothing", "Shorts",           "Mediums",           "Shorts and Mediums",
      "Longs",   "Shorts and Longs", "Mediums and Longs", "all kinds"};
  return texts[flags & 7];
}

void run_client_handler(void* context, token&, const std::uint32_t* args, std::byte* payload,
                        std::size_t bytes) {
  token_state& t = *running;
  client_handler& entry = handler_for(t, *static_cast<client_handler*>(context));
  if (!entry.takes(t.header.kind(), t.request, t.nargs())) [[unlikely]]
    admit(entry, t.header.handler, t.header.kind(), t.request, t.nargs(), t.source());
  const client_function f = entry.call;
  // Shorts with few arguments are the most frequent, and have the least work behind which to hide a
  // call through a table.
  if (t.header.kind() == kind::short_) [[likely]] {
    switch (t.nargs()) {
      case 0:
        return short_of<0>(f, handle_of(t), args);
      case 1:
        return short_of<1>(f, handle_of(t), args);
      case 2:
        return short_of<2>(f, handle_of(t), args);
      default:
        return short_callers[t.nargs()](f, handle_of(t), args);
    }
  }
  if (t.header.kind() == kind::medium)
    run_with_payload(f, t, payload, bytes, args, t.nargs());
  else  // a Long's payload stays where its sender wanted it, whatever the alignment
    payload_callers[t.nargs()](f, handle_of(t), client_address(payload), bytes, args);
}

void register_client_handlers(conduit::engine& e) {
  // All ranks register every index: the engine checks that the ranks' tables are equal, while
  // GASNet allows them to differ.
  for (unsigned i = first_client_handler; i < conduit::user_handlers; ++i)
    e.add_handler(static_cast<std::uint8_t>(i),
                  {.call = &run_client_handler, .context = &clients[i]});
  // Those of gasnet_attach's table are known before there is an engine.
  for (unsigned i = first_client_handler; i < conduit::user_handlers; ++i) tell_name(e, i);
  e.add_system_handler(on_peer_completion, {.call = &run_unasked_reply,
                                            .context = nullptr,
                                            .words = 1,
                                            .payload = conduit::handler_entry::takes::payload});
}

void make_handlers(unsigned endpoint) {
  // H1 publish  release more_clients  -> H2, H3
  more_clients[endpoint - 1].store(new client_handler[conduit::user_handlers],
                                   std::memory_order_release);
}

bool set_client_handler(const gex_AM_Entry_t& e, unsigned endpoint) {
  client_handler& h = handler_of(e.gex_index, endpoint);
  if (h.call != nullptr) return false;
  h.entry = e;
  std::uint32_t kinds = 0;
  if ((e.gex_flags & GEX_FLAG_AM_SHORT) != 0) kinds |= bit_of(kind::short_);
  if ((e.gex_flags & GEX_FLAG_AM_MEDIUM) != 0) kinds |= bit_of(kind::medium);
  if ((e.gex_flags & GEX_FLAG_AM_LONG) != 0) kinds |= long_bits;
  std::uint32_t all = 0;  // the first message says what it takes
  if (e.gex_nargs != any_number)
    all = ((e.gex_flags & GEX_FLAG_AM_REQUEST) != 0 ? kinds : 0) |
          ((e.gex_flags & GEX_FLAG_AM_REPLY) != 0 ? kinds << 4 : 0) |
          1u << counts_shift << e.gex_nargs;
  h.what.store(all, std::memory_order_relaxed);
  if (endpoint == 0 && self.engine != nullptr) tell_name(*self.engine, e.gex_index);
  // This comes last, so that a message that comes at the same time finds the whole entry or none.
  h.call = e.gex_fnptr;
  tsan_tell_peer(&h);
  return true;
}
bool set_client_handler(std::uint8_t index, void (*f)()) {
  return set_client_handler(
      {.gex_index = index,
       .gex_fnptr = f,
       .gex_flags = GEX_FLAG_AM_SHORT | GEX_FLAG_AM_MEDLONG | GEX_FLAG_AM_REQREP,
       .gex_nargs = any_number,
       .gex_cdata = nullptr,
       .gex_name = nullptr});
}
bool client_handler_free(std::uint8_t index, unsigned endpoint) noexcept {
  return handler_of(index, endpoint).call == nullptr;
}

}  // namespace penstock::gasnet::PENSTOCK_ABI
