// The ways out of a program of the C++ interface, chosen by argv[1]; test/gasnet/exit_matrix knows
// the result that each must have. argv[2]: the rank that leaves in this way.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include "penstock/penstock.hpp"

using penstock::status;

namespace {

unsigned handled = 0;
void on_noise(penstock::token&, std::span<std::byte>) { ++handled; }

struct process {
  penstock::endpoint& ep;
  penstock::payload_handler<> noise;
  std::byte text[3000] = {};

  status send(penstock::rank_id to, std::size_t bytes) {
    return ep.request_medium(to, noise, std::span<const std::byte>(text, bytes));
  }
  status flood(penstock::rank_id to) {
    for (;;)
      for (const std::size_t bytes : {100, 3000})
        if (const status s = send(to, bytes); s != status::ok) return s;
  }
};

// Stops all threads of this process.
status stop_for(unsigned seconds) {
  const std::string wake =
      "(sleep " + std::to_string(seconds) + "; kill -CONT " + std::to_string(getpid()) + ") &";
  if (std::system(wake.c_str()) != 0) return status::device_error;
  std::raise(SIGSTOP);
  return status::ok;
}

// 0 if s is what the loss of a rank gives.
int left(const char* what, status s) {
  if (s == status::peer_dead) return 0;
  std::fprintf(stderr, "%s: %s\n", what, describe(s));
  return 3;
}

int act(penstock::world& w, process& me, std::string_view how, penstock::rank_id actor) {
  penstock::endpoint& ep = me.ep;
  const bool acts = ep.rank() == actor;
  const penstock::rank_id next = (actor + 1) % ep.size();
  if (how == "c++return") return 6;
  if (how == "c++early") {  // the others' barriers do not complete, and do not hang
    if (acts) return 5;
    int wrong = 0;
    for (int i = 0; i < 3; ++i) wrong |= left("a barrier", ep.barrier());
    return wrong;
  }
  if (how == "c++throw") {  // after a barrier that did complete
    if (ep.barrier() != status::ok) return 3;
    if (acts) throw std::runtime_error("thrown");
    return left("a barrier", ep.barrier());
  }
  if (how == "c++barrier-kill") {
    for (int i = 0; i < 3; ++i)
      if (ep.barrier() != status::ok) return 3;
    if (acts) std::raise(SIGKILL);
    return left("a barrier", ep.barrier());
  }
  if (how == "c++early-wait") {
    if (acts) return 5;
    return left("a wait", ep.wait_until([] { return false; }));
  }
  if (how == "c++flooded") {
    if (!acts) return left("a request", me.flood(actor));
    for (int i = 0; i < 3000; ++i)
      if (me.send(next, 3000) != status::ok) return 3;
    return 5;
  }
  if (how == "c++after") {  // the next one leaves after the actor, and is no loss to the rest
    if (acts) return 0;
    const penstock::rank_id to = ep.rank() == next ? actor : next;
    status s = status::ok;  // so seldom that the actor does not wait for more
    for (; s == status::ok; usleep(1'300'000))
      if ((s = me.send(to, 100)) == status::ok) s = ep.quiet();
    return left("quiet", s);  // the launcher knows by now that the actor has gone: its fence fails
  }
  if (how == "c++chunks") {  // what was sent to whoever has left holds no chunk (SB_CHUNKS: few)
    constexpr unsigned messages = 100;
    if (!acts && me.send(actor, 8) != status::ok) return 3;
    if (acts) {
      while (handled + 1 < ep.size())
        if (ep.poll() != status::ok) return 3;
      return 0;
    }
    usleep(4'000'000);  // until the actor has left; without polls, so that nothing is known of it
    status s = status::ok;
    while (s == status::ok) s = me.send(actor, 8);
    if (left("a request", s) != 0) return 3;
    const penstock::rank_id other = ep.size() - actor - ep.rank();
    for (unsigned i = 0; i < messages; ++i)
      if ((s = me.send(other, 8)) != status::ok)
        return std::fprintf(stderr, "to the other one: %s\n", describe(s)), 3;
    return ep.wait_until([] { return handled == messages; }) == status::ok ? 0 : 3;
  }
  if (how == "c++compute") {  // away for longer than whoever leaves stays
    if (acts) return 5;
    if (ep.rank() == next) usleep(3'000'000);
    return left("a barrier", ep.barrier());
  }
  if (how == "c++stopped") {  // it cannot be told that the others leave, and finds out
    if (acts) {
      if (me.send(next, 100) != status::ok || stop_for(4) != status::ok) return 3;
      // What the third rank began to say before it left is heard, and is no death.
      const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
      while (std::chrono::steady_clock::now() < until)
        if (ep.poll() != status::ok) return 3;
      return left("a request", me.flood(next));
    }
    while (handled == 0 && ep.rank() == next)
      if (ep.poll() != status::ok) return 3;
    return 0;
  }
  if (how == "c++trickle") {  // those who leave wait for longer than their limit while it comes
    constexpr unsigned messages = 60;
    if (acts)
      for (unsigned i = 0; i < messages; ++i) {
        for (penstock::rank_id to = 0; to < ep.size(); ++to)
          if (to != actor && me.send(to, 64) != status::ok) return 3;
        usleep(50'000);
      }
    { const penstock::endpoint closing = std::move(ep); }
    if (acts || handled == messages) return 0;
    std::fprintf(stderr, "%u messages were handled\n", handled);
    return 3;
  }
  if (how == "c++idle") {  // the third rank hears nothing, and stays while the second one does
    constexpr unsigned messages = 70;
    if (acts)
      for (unsigned i = 0; i < messages; ++i, usleep(50'000))
        if (me.send(next, 64) != status::ok) return 3;
    { const penstock::endpoint closing = std::move(ep); }
    if (w.rank() != next || handled == messages) return 0;
    std::fprintf(stderr, "%u messages were handled\n", handled);
    return 3;
  }
  if (how == "c++behind") {  // what was sent before leaving is handled
    constexpr unsigned messages = 20000;
    if (acts)
      for (unsigned i = 0; i < messages; ++i)
        if (me.send(next, 64) != status::ok) return 3;
    { const penstock::endpoint closing = std::move(ep); }
    if (w.rank() != next || handled == messages) return 0;
    std::fprintf(stderr, "%u messages were handled\n", handled);
    return 3;
  }
  if (how == "c++exit" || how == "c++exit0") {
    if (!acts) return me.flood(next) == status::ok ? 4 : 3;
    usleep(20000);
    w.exit(how == "c++exit" ? 5 : 0);
  }
  std::fprintf(stderr, "no such way\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && argv[1] == std::string_view("c++chunks")) setenv("PENSTOCK_SB_CHUNKS", "8", 1);
  auto w = penstock::world::join();
  if (!w) return std::fprintf(stderr, "%s\n", w.error().message().c_str()), 2;
  try {
    auto ep = penstock::endpoint::open(*w);
    if (!ep) return std::fprintf(stderr, "%s\n", ep.error().message().c_str()), 2;
    process me{*ep, ep->add<on_noise>()};
    if (auto r = ep->start(); !r)
      return std::fprintf(stderr, "%s\n", r.error().message().c_str()), 2;
    const int actor = argc > 2 ? std::atoi(argv[2]) : 0;
    return act(*w, me, argc > 1 ? argv[1] : "", static_cast<penstock::rank_id>(actor) % ep->size());
  } catch (const std::runtime_error&) {
    return 6;
  }
}
