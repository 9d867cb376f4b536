// What the handles of penstock.h are: the objects of the C++ interface, and what C has to remember
// beside them. For this folder alone.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <string>

#include "lib/base/no_memory.hpp"
#include "lib/conduit/engine.hpp"
#include "penstock.h"
#include "penstock/atomic.hpp"
#include "penstock/penstock.hpp"
#include "penstock/rma.hpp"

struct penstock_world {
  penstock::world world;
};

struct penstock_endpoint {
  /// A handler in C; the engine calls it by call_short() or call_payload() with this as its
  /// context.
  struct handler {
    penstock_endpoint* ep;
    penstock_short_handler takes_nothing;
    penstock_payload_handler takes_payload;
    void* context;
  };

  penstock::endpoint ep;
  std::optional<penstock::remote_memory> memory;  ///< from start() on
  std::deque<handler> handlers;
  std::string device;
};

struct penstock_token {
  penstock::conduit::token_state& state;
  penstock_endpoint* ep;
};

namespace penstock::c {

/// What penstock_why() returns in this thread.
inline thread_local std::string why;

/// The numbers of penstock.h stay as they are; those of the C++ interface are the same but for the
/// failures, which may lie some numbers nearer.
inline constexpr int failures_off = PENSTOCK_BAD_RANK - static_cast<int>(status::bad_rank);
constexpr penstock_status in_c(status s) noexcept {
  return static_cast<penstock_status>(static_cast<int>(s) + (is_failure(s) ? failures_off : 0));
}
constexpr status in_cpp(penstock_status s) noexcept {
  return static_cast<status>(s >= PENSTOCK_BAD_RANK ? s - failures_off : s);
}

/// Runs f, which returns a result; sets why, and answers whether it succeeded.
template <class F>
bool set_up(const char* what, F&& f) {
  const auto r = or_no_memory(what, std::forward<F>(f));
  why = r ? std::string() : r.error().message();
  return static_cast<bool>(r);
}

/// The argument words of a message as the engine reads them: in pairs, so with room for an even
/// number. wrong says what keeps them, or the handler's number, from being used.
struct words {
  std::array<std::uint32_t, max_args> w{};
  status wrong = status::ok;
  words(int handler, const std::uint32_t* args, unsigned nargs) noexcept {
    if (handler < 0 || handler > 255)
      wrong = status::bad_handler;
    else if (nargs > max_args || (nargs != 0 && args == nullptr))
      wrong = status::bad_arguments;
    else
      std::copy_n(args, nargs, w.begin());
  }
};

}  // namespace penstock::c
