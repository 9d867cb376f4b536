// Job program: mistakes of a program that end its job or are refused with a line
// (test/conduit/mistaken).
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "penstock/penstock.hpp"
#include "penstock/rma.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

unsigned hits;
void on_hit(token&, unsigned) { ++hits; }
void on_payload(token&, std::span<std::byte>) {}
void on_other(token&, unsigned, unsigned) {}

// The library's threads have names of their own, so that a report of stacks tells whose they are.
int nameless_threads() {
  int nameless = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (task.path().filename() != std::to_string(getpid()) && !name.starts_with("penstock-"))
      ++nameless, std::fprintf(stderr, "a thread is called %s\n", name.c_str());
  }
  return nameless;
}

// Two threads send without a lock between them, or one that is not the first.
int threads(endpoint& ep, short_handler<unsigned> hit, bool both) {
  const rank_id next = (ep.rank() + 1) % ep.size();
  const auto send = [&] {
    for (unsigned i = 0; i < 200'000; ++i) (void)ep.request_short(next, hit, i);
  };
  std::thread other(send);
  if (both) send();
  other.join();
  const status s = ep.wait_until([] { return hits >= 200'000; });
  return is_failure(s) || is_failure(ep.barrier());
}

int refusals(endpoint& ep, short_handler<unsigned> hit, payload_handler<> payload) {
  std::vector<std::byte> big(ep.max_medium() + 1);
  std::byte one{};
  JOB_CHECK(ep.request_medium(0, payload, big) == status::too_long);
  JOB_CHECK(ep.request_long(0, payload, {&one, 1}, ep.segment_of(0).data() + 4096) ==
            status::out_of_segment);
  JOB_CHECK(ep.request_short(0, short_handler<>{hit.index}) == status::bad_handler);
  JOB_CHECK(ep.request_short(0, short_handler<>{payload.index}) == status::bad_handler);
  const std::span<std::byte> null(static_cast<std::byte*>(nullptr), 8);
  JOB_CHECK(ep.request_medium(0, payload, null) == status::bad_arguments);
  remote_memory memory(ep);
  for (const rank_id r : {rank_id{0}, rank_id{1}}) {  // also where the segment is mapped
    JOB_CHECK(memory.put(r, ep.segment_of(r).data(), {&one, 1}) == status::ok);
    JOB_CHECK(memory.put(r, ep.segment_of(r).data(), null) == status::bad_arguments);
    JOB_CHECK(memory.get(null, r, ep.segment_of(r).data()) == status::bad_arguments);
  }
  JOB_CHECK(ep.request_short(0, hit, 1u) == status::ok);
  return is_failure(ep.barrier());
}

// By stores to mapped memory it ends this rank.
int null_put(endpoint& ep) {
  remote_memory memory(ep);
  std::byte one{};
  for (const rank_id r : {rank_id{0}, rank_id{1}})
    JOB_CHECK(memory.put(r, ep.segment_of(r).data(), {&one, 1}) == status::ok);
  std::byte* volatile nowhere = nullptr;
  const std::span<const std::byte> null(nowhere, 8);
  if (ep.rank() == 1) (void)memory.put(0, ep.segment_of(0).data(), null);
  return is_failure(ep.barrier());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  {
    auto w = world::join();
    JOB_CHECK(w);
    if (what == "join_twice") {
      const auto again = world::join();
      JOB_CHECK(!again);
      std::fprintf(stderr, "%s\n", again.error().message().c_str());
    }
    endpoint ep = test::open_endpoint(*w);
    const auto hit = ep.add<&on_hit>();
    const auto payload = ep.add<&on_payload>("takes \"bytes\"");
    // Names may differ between ranks. Rank 1 takes two words where the others take one, or has one
    // handler less.
    if (what == "other_words" || what == "other_names")
      (void)ep.add<&on_hit>(ep.rank() == 1 ? "one\nname" : "another");
    if (what == "other_words" && ep.rank() == 1) (void)ep.add<&on_other>("third");
    if (what == "other_words" && ep.rank() != 1) (void)ep.add<&on_hit>("third");
    if (what == "one_less" && ep.rank() != 1) (void)ep.add<&on_other>();
    if (const auto started = ep.start(4096); !started) {
      std::fprintf(stderr, "%s\n", started.error().message().c_str());
      return 3;
    }
    JOB_CHECK(ep.barrier() == status::ok);
    if (what == "ok" && nameless_threads() != 0) return 4;
    if (what == "two_threads") return threads(ep, hit, true);
    if (what == "another_thread") return threads(ep, hit, false);
    if (what == "polling_thread") {  // it finds nothing, and never takes a longer way
      std::thread other([&] {
        for (int i = 0; i < 2000; ++i) (void)ep.poll();
      });
      other.join();
      return is_failure(ep.barrier());
    }
    if (what == "late_handler") (void)ep.add<&on_other>();
    if (what == "refusals") return refusals(ep, hit, payload);
    if (what == "null_put") return null_put(ep);
    if (what == "moved_from") {
      const endpoint now = std::move(ep);
      (void)ep.poll();
    }
    if (what.starts_with("world_moved")) {
      world now = std::move(*w);
      if (what.ends_with("rank")) (void)w->rank();
      if (what.ends_with("exchange")) (void)w->exchange({});
      if (what.ends_with("open")) (void)endpoint::open(*w);
    }
    if (what == "world_first") {
      { const world gone = std::move(*w); }
      JOB_CHECK(ep.barrier() == status::ok);
    }
  }
  const bool me = std::getenv("PENRUN_RANK") == nullptr || std::getenv("PENRUN_RANK")[0] == '1';
  if (what == "abort" && me) std::abort();
  if (what == "segv" && me) {
    volatile int* volatile nowhere = nullptr;
    *nowhere = 1;
  }
  return what == "exit" && me ? 5 : 0;
}
