// penstock.h: the job, endpoints, and the words for statuses and failures.
#include <cstring>
#include <memory>

#include "lib/c/c.hpp"

namespace {

using namespace penstock;

// The last one shows that none is missing.
static_assert(c::in_c(status::pending) == PENSTOCK_PENDING);
static_assert(c::in_c(status::timed_out) == PENSTOCK_TIMED_OUT);
static_assert(c::in_c(status::bad_rank) == PENSTOCK_BAD_RANK);
static_assert(c::in_c(status::misaligned) == PENSTOCK_MISALIGNED);

setting_overrides overrides_of(const penstock_setting* settings, size_t count) {
  setting_overrides all;
  for (size_t i = 0; i < count; ++i) all.emplace_back(settings[i].name, settings[i].value);
  return all;
}

void call_short(void* context, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  const auto& h = *static_cast<penstock_endpoint::handler*>(context);
  penstock_token t{*conduit::running, h.ep};
  h.takes_nothing(&t, args, h.context);
}
// A handler may read a Medium's payload as any type, but where it arrives it may lie at an odd
// multiple of 4. Only such small payloads are copied to an aligned place. A Long's lies where it
// was put.
void call_payload(void* context, token&, const std::uint32_t* args, std::byte* payload,
                  std::size_t bytes) {
  const auto& h = *static_cast<penstock_endpoint::handler*>(context);
  penstock_token t{*conduit::running, h.ep};
  constexpr std::size_t any_type = alignof(std::max_align_t);
  if (t.state.header.kind() == conduit::wire::kind::medium && bytes <= conduit::max_eager &&
      reinterpret_cast<std::uintptr_t>(payload) % any_type != 0) {
    alignas(any_type) std::byte copy[conduit::max_eager];
    if (bytes != 0) std::memcpy(copy, payload, bytes);
    h.takes_payload(&t, args, copy, bytes, h.context);
    return;
  }
  h.takes_payload(&t, args, payload, bytes, h.context);
}

template <class F>
const void* address_of(F* f) noexcept {
  return reinterpret_cast<const void*>(f);
}

int add(penstock_endpoint* ep, penstock_endpoint::handler h, unsigned nargs) {
  int index = -1;
  c::set_up("adding a handler", [&]() -> result<void> {
    conduit::engine& e = c::given(ep).ep.internals();
    if (h.takes_nothing == nullptr && h.takes_payload == nullptr)
      return failure{"a handler's function is a null pointer", 0, ""};
    if (nargs > max_args) return failure{"a handler takes at most 16 argument words", 0, ""};
    if (e.fixed().has_started())
      return failure{"the endpoint has been started", 0, "add handlers before penstock_start()"};
    const std::uint8_t next = e.next_handler();
    if (next == 0) return failure{"an endpoint has at most 255 handlers", 0, ""};
    const bool payload = h.takes_payload != nullptr;
    using takes = conduit::handler_entry::takes;
    if (!e.add_handler(
            next, {payload ? &call_payload : &call_short, &ep->handlers.emplace_back(h),
                   static_cast<std::uint8_t>(nargs), payload ? takes::payload : takes::nothing}))
      return failure{"the endpoint has been started", 0, "add handlers before penstock_start()"};
    e.names().set(next, {}, payload ? address_of(h.takes_payload) : address_of(h.takes_nothing));
    index = next;
    return {};
  });
  return index;
}

}  // namespace

extern "C" {

int penstock_is_failure(penstock_status s) { return s >= PENSTOCK_BAD_RANK ? 1 : 0; }
const char* penstock_describe(penstock_status s) { return describe(static_cast<status>(s)); }
const char* penstock_why(void) { return c::why.c_str(); }

penstock_world* penstock_join(const penstock_setting* settings, size_t count) {
  penstock_world* joined = nullptr;
  c::set_up("joining the job", [&]() -> result<void> {
    auto w = world::join(overrides_of(settings, count));
    if (!w) return w.error();
    joined = new penstock_world{std::move(*w)};
    return {};
  });
  return joined;
}
void penstock_leave(penstock_world* w) { delete w; }
uint32_t penstock_world_rank(const penstock_world* w) { return c::given(w).world.rank(); }
uint32_t penstock_world_size(const penstock_world* w) { return c::given(w).world.size(); }
void penstock_exit(penstock_world* w, int code) { c::given(w).world.exit(code); }

int penstock_exchange(penstock_world* w, const void* mine, size_t bytes, void* all) {
  const bool done = c::set_up("exchanging bytes", [&]() -> result<void> {
    const auto got = c::given(w).world.exchange({static_cast<const std::byte*>(mine), bytes});
    if (!got) return got.error();
    for (const auto& of_one : *got)
      if (of_one.size() != bytes)
        return failure{"ranks gave different numbers of bytes: " + std::to_string(bytes) + " and " +
                           std::to_string(of_one.size()),
                       0, "each rank gives as many as the others"};
    auto* to = static_cast<std::byte*>(all);
    for (const auto& of_one : *got) {
      if (bytes != 0) std::memcpy(to, of_one.data(), bytes);
      to += bytes;
    }
    return {};
  });
  return done ? 0 : -1;
}

penstock_endpoint* penstock_open(penstock_world* w, const penstock_setting* settings,
                                 size_t count) {
  penstock_endpoint* opened = nullptr;
  c::set_up("opening an endpoint", [&]() -> result<void> {
    auto ep = endpoint::open(c::given(w).world, overrides_of(settings, count));
    if (!ep) return ep.error();
    std::string device = ep->device();
    opened = new penstock_endpoint{std::move(*ep), {}, {}, std::move(device)};
    return {};
  });
  return opened;
}
void penstock_close(penstock_endpoint* ep) { delete ep; }

int penstock_add_short(penstock_endpoint* ep, penstock_short_handler f, unsigned nargs,
                       void* context) {
  return add(ep, {ep, f, nullptr, context}, nargs);
}
int penstock_add_payload(penstock_endpoint* ep, penstock_payload_handler f, unsigned nargs,
                         void* context) {
  return add(ep, {ep, nullptr, f, context}, nargs);
}
int penstock_name_handler(penstock_endpoint* ep, int handler, const char* name) {
  const bool done = c::set_up("naming a handler", [&]() -> result<void> {
    if (name == nullptr) return failure{"a handler's name is a null pointer", 0, ""};
    if (handler < 1 || static_cast<size_t>(handler) > c::given(ep).handlers.size())
      return failure{"no handler has that number: " + std::to_string(handler), 0, ""};
    ep->ep.internals().names().set(static_cast<unsigned>(handler), name);
    return {};
  });
  return done ? 0 : -1;
}
int penstock_start(penstock_endpoint* ep, size_t segment_bytes, penstock_access access) {
  const bool done = c::set_up("starting an endpoint", [&]() -> result<void> {
    auto started = c::given(ep).ep.start(segment_bytes, access == PENSTOCK_EVERYTHING
                                                            ? remote_access::everything
                                                            : remote_access::segments);
    if (started) ep->memory.emplace(ep->ep);
    return started;
  });
  return done ? 0 : -1;
}

uint32_t penstock_rank(const penstock_endpoint* ep) { return c::given(ep).ep.rank(); }
uint32_t penstock_size(const penstock_endpoint* ep) { return c::given(ep).ep.size(); }
void* penstock_segment(const penstock_endpoint* ep, uint32_t rank, size_t* bytes) {
  const auto s = rank < c::given(ep).ep.size() ? ep->ep.segment_of(rank) : std::span<std::byte>{};
  if (bytes != nullptr) *bytes = s.size();
  return s.empty() ? nullptr : s.data();
}
size_t penstock_max_medium(const penstock_endpoint* ep) { return c::given(ep).ep.max_medium(); }
size_t penstock_max_long(const penstock_endpoint* ep) { return c::given(ep).ep.max_long(); }
const char* penstock_device(const penstock_endpoint* ep) { return c::given(ep).device.c_str(); }

}  // extern "C"
