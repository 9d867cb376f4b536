// What the handles of penstock.h are: the objects of the C++ interface, and what C has to remember
// beside them. For this folder alone.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <limits>
#include <optional>
#include <string>

#include "lib/base/log.hpp"
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

/// What a handle stands for. A null one is that of a call that failed, and at which nobody looked.
template <class T>
T& given(T* handle) noexcept {
  if (handle == nullptr) [[unlikely]]
    fatal(1, "penstock.h: a call got NULL for its world or endpoint%s%s",
          why.empty() ? "" : ", and what failed last is: ", why.c_str());
  return *handle;
}

/// The numbers are those of the C++ interface.
constexpr penstock_status in_c(status s) noexcept { return static_cast<penstock_status>(s); }

/// A time of any length for a time_limit, which counts to 292 years.
constexpr std::chrono::nanoseconds time(std::uint64_t ns) noexcept {
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max() / 4;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(ns, most)));
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
