// Job program: Longs from malloc'ed memory, requests and replies, to the next rank; each byte is
// checked. long_sources COUNT few: COUNT of them from one buffer make few registrations.
// long_sources COUNT refused: from the start on, the device registers nothing more.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "lib/conduit/engine.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/job_check.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

std::atomic<std::uint64_t> registrations{0};
std::atomic<bool> refuses{false};
const nic::calls* real = nullptr;

/// Counts what the device is asked to register, and refuses it where it is told to. Before the
/// endpoint starts, as later its threads read what is changed here.
struct test_access {
  static void watch(engine& e) {
    static nic::calls watched = *e.core_.device_.verbs;
    real = e.core_.device_.verbs;
    watched.reg_mr = [](ibv_pd* pd, void* at, std::size_t bytes, int access) -> ibv_mr* {
      registrations.fetch_add(1, std::memory_order_relaxed);
      if (!refuses) return real->reg_mr(pd, at, bytes, access);
      errno = ENOMEM;
      return nullptr;
    };
    e.core_.device_.verbs = &watched;
  }
};

}  // namespace penstock::conduit::PENSTOCK_ABI

using namespace penstock;
using conduit::test_access;
using test::fill;
using test::holds;

namespace {

constexpr std::size_t most = 300'000, buffers = 6;
constexpr std::size_t sizes[] = {20'000, most, 1'000, 4'100, 70'001, 30'000};
// In every segment: places of requests, then of replies.
std::byte* place(std::span<std::byte> segment, std::size_t i, bool reply) {
  return segment.data() + (i + (reply ? buffers : 0)) * (most + 64);
}

struct state {
  conduit::engine* e = nullptr;
  std::uint8_t request = 0, answer = 0;
  std::byte* replies_from = nullptr;  // malloc'ed
  std::atomic<std::uint32_t> answered[buffers] = {};
} here;

// Arguments: buffer, bytes, seed.
void on_request(void*, token&, const std::uint32_t* args, std::byte* payload, std::size_t bytes) {
  auto& t = *conduit::running;
  JOB_CHECK(bytes == args[1] && payload == place(here.e->segment(), args[0], false));
  if (!holds({payload, bytes}, args[2])) fatal(9, "a request's %zu bytes are wrong", bytes);
  fill({here.replies_from, bytes}, args[2] + 1);
  conduit::outgoing m{.kind = conduit::wire::kind::long_,
                      .handler = here.answer,
                      .nargs = 3,
                      .args = args,
                      .payload = here.replies_from,
                      .bytes = bytes,
                      .dest = place(here.e->segment_of(t.source()), args[0], true)};
  JOB_CHECK(here.e->reply(t, m) == status::ok);
  std::memset(here.replies_from, 0, bytes);  // a reply's source is the handler's again
}

void on_answer(void*, token&, const std::uint32_t* args, std::byte* payload, std::size_t bytes) {
  JOB_CHECK(bytes == args[1] && payload == place(here.e->segment(), args[0], true));
  if (!holds({payload, bytes}, args[2] + 1)) fatal(9, "a reply's %zu bytes are wrong", bytes);
  here.answered[args[0]].fetch_add(1, std::memory_order_release);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto count = static_cast<std::uint32_t>(std::atoi(argv[1]));
  const std::string_view how = argv[2];
  auto w = world::join();
  JOB_CHECK(w);
  endpoint ep = test::open_endpoint(*w);
  here.e = &ep.internals();
  here.request = here.e->next_handler();
  JOB_CHECK(here.e->add_handler(here.request, {on_request, nullptr, conduit::any_args, {}}));
  here.answer = here.e->next_handler();
  JOB_CHECK(here.e->add_handler(here.answer, {on_answer, nullptr, conduit::any_args, {}}));
  test_access::watch(*here.e);
  if (auto r = ep.start(2 * buffers * (most + 64)); !r) fatal(3, "%s", r.error().message().c_str());
  here.replies_from = static_cast<std::byte*>(std::malloc(most));
  std::byte* from[buffers];
  for (std::byte*& b : from) b = static_cast<std::byte*>(std::malloc(most));
  JOB_CHECK(ep.barrier() == status::ok);
  conduit::registrations = 0;
  conduit::refuses = how == "refused";

  const rank_id to = (ep.rank() + 1) % ep.size();
  std::uint32_t sent[buffers] = {};
  for (std::uint32_t i = 0; i < count; ++i) {
    // By turns: a few from one buffer, waiting for each; then from all, several on their way.
    const bool async = i / 8 % 2 == 1;
    const std::size_t k = async ? i % buffers : 0;
    JOB_CHECK(ep.wait_until([&] {
      return here.answered[k].load(std::memory_order_acquire) == sent[k];
    }) == status::ok);
    const std::size_t bytes = sizes[k];
    fill({from[k], bytes}, i * 2);
    const std::uint32_t args[] = {static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(bytes),
                                  i * 2};
    const conduit::outgoing m{.kind = conduit::wire::kind::long_,
                              .handler = here.request,
                              .nargs = 3,
                              .args = args,
                              .payload = from[k],
                              .bytes = bytes,
                              .dest = place(ep.segment_of(to), k, false),
                              .async = async};
    const status s = here.e->request(to, m);
    if (s != status::ok) fatal(9, "Long %u of %zu bytes: %s", i, bytes, describe(s));
    ++sent[k];
    if (!async) std::memset(from[k], 0, bytes);
  }
  JOB_CHECK(ep.wait_until([&] {
    for (std::size_t k = 0; k < buffers; ++k)
      if (here.answered[k].load(std::memory_order_acquire) != sent[k]) return false;
    return true;
  }) == status::ok);
  const std::uint64_t made = conduit::registrations.load();
  if (how == "few" && made > 40)
    fatal(9, "%u Longs made %llu registrations", count, static_cast<unsigned long long>(made));
  JOB_CHECK(ep.barrier() == status::ok);
  std::free(here.replies_from);
  for (std::byte* b : from) std::free(b);
  return 0;
}
