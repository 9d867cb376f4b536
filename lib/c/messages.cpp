// penstock.h: requests, replies, and calls that poll.
#include "lib/c/c.hpp"

namespace {

using namespace penstock;
using conduit::wire::kind;

penstock_status request_long(penstock_endpoint* ep, uint32_t to, int handler, const void* payload,
                             size_t bytes, void* dest, const uint32_t* args, unsigned nargs,
                             bool async) {
  const c::words w(handler, args, nargs);
  if (is_failure(w.wrong)) return c::in_c(w.wrong);
  return c::in_c(
      c::given(ep).ep.internals().request(to, {.kind = kind::long_,
                                               .handler = static_cast<std::uint8_t>(handler),
                                               .nargs = nargs,
                                               .args = w.w.data(),
                                               .payload = payload,
                                               .bytes = bytes,
                                               .dest = dest,
                                               .async = async}));
}

}  // namespace

extern "C" {

penstock_status penstock_request_short(penstock_endpoint* ep, uint32_t to, int handler,
                                       const uint32_t* args, unsigned nargs) {
  const c::words w(handler, args, nargs);
  if (is_failure(w.wrong)) return c::in_c(w.wrong);
  return c::in_c(c::given(ep).ep.internals().request_short(to, static_cast<std::uint8_t>(handler),
                                                           w.w.data(), nargs));
}
penstock_status penstock_request_medium(penstock_endpoint* ep, uint32_t to, int handler,
                                        const void* payload, size_t bytes, const uint32_t* args,
                                        unsigned nargs) {
  const c::words w(handler, args, nargs);
  if (is_failure(w.wrong)) return c::in_c(w.wrong);
  return c::in_c(c::given(ep).ep.internals().request_medium(to, static_cast<std::uint8_t>(handler),
                                                            w.w.data(), nargs, payload, bytes));
}
penstock_status penstock_request_long(penstock_endpoint* ep, uint32_t to, int handler,
                                      const void* payload, size_t bytes, void* dest,
                                      const uint32_t* args, unsigned nargs) {
  return request_long(ep, to, handler, payload, bytes, dest, args, nargs, false);
}
penstock_status penstock_request_long_async(penstock_endpoint* ep, uint32_t to, int handler,
                                            const void* payload, size_t bytes, void* dest,
                                            const uint32_t* args, unsigned nargs) {
  return request_long(ep, to, handler, payload, bytes, dest, args, nargs, true);
}

penstock_status penstock_reply_short(penstock_token* t, int handler, const uint32_t* args,
                                     unsigned nargs) {
  const c::words w(handler, args, nargs);
  if (is_failure(w.wrong)) return c::in_c(w.wrong);
  return c::in_c(conduit::engine::reply_short(t->state, static_cast<std::uint8_t>(handler),
                                              w.w.data(), nargs));
}
penstock_status penstock_reply_medium(penstock_token* t, int handler, const void* payload,
                                      size_t bytes, const uint32_t* args, unsigned nargs) {
  const c::words w(handler, args, nargs);
  if (is_failure(w.wrong)) return c::in_c(w.wrong);
  return c::in_c(conduit::engine::reply_medium(t->state, static_cast<std::uint8_t>(handler),
                                               w.w.data(), nargs, payload, bytes));
}
penstock_status penstock_reply_long(penstock_token* t, int handler, const void* payload,
                                    size_t bytes, void* dest, const uint32_t* args,
                                    unsigned nargs) {
  const c::words w(handler, args, nargs);
  if (is_failure(w.wrong)) return c::in_c(w.wrong);
  return c::in_c(t->state.engine->reply(t->state, {.kind = kind::long_,
                                                   .handler = static_cast<std::uint8_t>(handler),
                                                   .nargs = nargs,
                                                   .args = w.w.data(),
                                                   .payload = payload,
                                                   .bytes = bytes,
                                                   .dest = dest}));
}
uint32_t penstock_source(const penstock_token* t) { return t->state.source(); }
int penstock_is_request(const penstock_token* t) { return t->state.request ? 1 : 0; }
penstock_endpoint* penstock_token_endpoint(const penstock_token* t) { return t->ep; }

penstock_status penstock_expect(penstock_endpoint* ep, uint32_t to, uint32_t messages,
                                size_t bytes) {
  return c::in_c(c::given(ep).ep.expect(to, messages, bytes));
}

penstock_status penstock_poll(penstock_endpoint* ep) { return c::in_c(c::given(ep).ep.poll()); }
penstock_status penstock_wait_until(penstock_endpoint* ep, int (*done)(void*), void* context) {
  return c::in_c(c::given(ep).ep.wait_until([&] { return done(context) != 0; }));
}
penstock_status penstock_wait_for(penstock_endpoint* ep, int (*done)(void*), void* context,
                                  uint64_t timeout_ns) {
  const time_limit limit(c::time(timeout_ns));
  return penstock_wait_until(ep, done, context);
}
penstock_status penstock_barrier(penstock_endpoint* ep) {
  return c::in_c(c::given(ep).ep.barrier());
}
penstock_status penstock_quiet(penstock_endpoint* ep) { return c::in_c(c::given(ep).ep.quiet()); }
penstock_status penstock_barrier_for(penstock_endpoint* ep, uint64_t timeout_ns) {
  const time_limit limit(c::time(timeout_ns));
  return penstock_barrier(ep);
}
penstock_status penstock_quiet_for(penstock_endpoint* ep, uint64_t timeout_ns) {
  const time_limit limit(c::time(timeout_ns));
  return penstock_quiet(ep);
}

int penstock_event_fd(penstock_endpoint* ep) {
  int fd = -1;
  c::set_up("a descriptor to sleep on", [&]() -> result<void> {
    const auto made = c::given(ep).ep.event_fd();
    if (!made) return made.error();
    fd = *made;
    return {};
  });
  return fd;
}
penstock_status penstock_arm(penstock_endpoint* ep) { return c::in_c(c::given(ep).ep.arm()); }

}  // extern "C"
