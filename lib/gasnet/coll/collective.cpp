// The engine of collectives: the teams, the owner of the engine, and the operations in flight.
// Handlers put messages into the inbox; a thread that polls, and finds no other one inside, takes
// them to their operations and advances these. A thread inside may wait, polling, for room to send;
// handlers need nothing that it holds.
#include "lib/gasnet/coll/collective.hpp"

#include <algorithm>

#include "lib/base/backoff.hpp"
#include "lib/base/immortal.hpp"
#include "lib/base/log.hpp"
#include "lib/base/owner.hpp"
#include "lib/base/thread_index.hpp"
#include "lib/gasnet/coll/calls.hpp"
#include "lib/gasnet/coll/messages.hpp"
#include "lib/gasnet/coll/team.hpp"
#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

std::atomic<std::uint32_t> in_flight{0}, barriers{0};

namespace {

// The object is never destroyed, as other threads may poll to the end of the process.
struct engine_state {
  owner<build_mode> inside;
  std::vector<std::unique_ptr<team>> teams;
  std::vector<operation*> active;
  std::vector<std::unique_ptr<arrival>> strays;  // of teams that are not known here yet
  std::uint32_t teams_led = 0;
};
engine_state& state() {
  static immortal<engine_state> s;
  return s.value;
}

// True while this thread is inside, or in a function called from there.
thread_local constinit bool within = false;

class visit {
 public:
  visit() : entered_(!within && state().inside.try_enter(thread_tag())) { within |= entered_; }
  ~visit() {
    if (!entered_) return;
    within = false;
    state().inside.leave(thread_tag());
  }
  visit(const visit&) = delete;
  visit& operator=(const visit&) = delete;
  explicit operator bool() const noexcept { return entered_; }

 private:
  const bool entered_;
};

// Runs f inside, after waiting for a thread that is inside. That one is soon done, or waits for
// room, which polls make.
template <class F>
void inside(F&& f) {
  if (conduit::running != nullptr) fatal(1, "a collective operation was called from a handler");
  if (within) fatal(1, "a collective operation was called by the function of a reduction");
  backoff wait(1000);
  while (true) {
    if (const visit v; v) return f(state());
    if (const status s = self.engine->poll(); is_failure(s)) failed("a collective operation", s);
    wait.idle();
  }
}

team* find_team(engine_state& e, std::uint64_t id) {
  for (const auto& t : e.teams)
    if (t->id() == id) return t.get();
  return nullptr;
}

void deliver(engine_state& e, std::unique_ptr<arrival> a) {
  if (a->type == arrival::type::wanted) return give(*a, a->from);
  team* const t = find_team(e, a->team);
  if (t == nullptr) {
    e.strays.push_back(std::move(a));
    return;
  }
  operation* const o = t->at(static_cast<team::lane>(a->lane), a->number);
  if ((o == nullptr || o->complete) && a->type == arrival::type::question) return;  // an old one
  if (o == nullptr || o->complete)
    fatal(1, "rank %u takes part in a collective that is over here: the calls are in another order",
          t->job_rank(std::min(a->from, t->size() - 1)));
  o->deliver(std::move(a));
}

void finish(operation& o) {
  team& t = o.over();
  t.retire();
  in_flight.fetch_sub(1, std::memory_order_relaxed);
}

void go_on(engine_state& e) {
  for (arrival* a = take_arrivals(); a != nullptr;) {
    arrival* const next = a->next;
    if (a->type == arrival::type::question) in_flight.fetch_sub(1, std::memory_order_relaxed);
    deliver(e, std::unique_ptr<arrival>(a));
    a = next;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < e.active.size(); ++i) {
    operation* const o = e.active[i];
    if (o->advance())
      finish(*o);
    else
      o->wait_on(), e.active[kept++] = o;
  }
  e.active.resize(kept);
}

void welcome(engine_state& e, std::unique_ptr<team> t) {
  e.teams.push_back(std::move(t));
  auto waiting = std::move(e.strays);
  e.strays.clear();
  for (auto& a : waiting) deliver(e, std::move(a));
}

struct wish {
  std::uint32_t joins, color, key, led;
  std::uint32_t offer;  // of room for shared lines
};

// The smaller of two words: false, where one is.
void both(const reduction&, void* left, void* right, std::size_t) {
  auto& l = *static_cast<std::uint32_t*>(left);
  l = std::min(l, *static_cast<const std::uint32_t*>(right));
}

// Collective over the new team t, without an operation over it: its members get shared lines in
// that room, if all can reach it.
void share_lines(team& t, const shared_room& room) {
  shared_area* const there = shared::area_of(room.owner);
  const std::uint32_t mine = there != nullptr ? 1 : 0;
  std::uint32_t all = 0;
  const reduction how{.combine = &both, .element_bytes = sizeof all, .commutative = true};
  op_counter done{0};
  reduce_all(t, &all, &mine, 1, how, own_buffers, done);
  wait(done);
  inside([&](engine_state&) {
    if (all != 0)
      t.share(std::make_unique<shared_hold>(room, *there, t.size(), t.rank()));
    else if (room.owner == self.engine->rank())
      shared::take_back(room);
  });
}

}  // namespace

void advance() noexcept {
  if (const visit v; v) go_on(state());
}

bool advance_in_progress() noexcept {
  kick();
  // relaxed: a hint; the thread looks again soon, or after the next message
  return in_flight.load(std::memory_order_relaxed) != 0;
}

void wait(const op_counter& done) noexcept {
  // These looks take about as long as a poll; a message under way may come before a poll would end.
  // Where processes outnumber cores, the process that is missing may need this core.
  const unsigned looks = self.engine->page() != nullptr ? 1 : 16;
  unsigned empty = 0;
  const conduit::long_wait named(self.engine->waits(), conduit::wait_for::collective);
  // C2 completed  acquire done  <- C1 (operation.cpp)
  for (unsigned i = 0; done.load(std::memory_order_acquire) != 0; ++i)
    if (i % looks == 0 && i != 0)
      gasnet::wait_step(empty);
    else
      kick();
}

namespace {

// Carries out a call by shared lines over a team with nothing in flight. Where no member is late it
// is complete here: no operation was made, nothing counted. False: c has begun.
bool complete_at_once(team& t, const request& r, shared_call& c) {
  // Few, since the call may be one that does not wait. Where processes outnumber cores, the member
  // that is missing may need this core.
  constexpr unsigned most_looks = 32;
  const unsigned looks = self.engine->page() != nullptr ? 1 : most_looks;
  for (unsigned i = 0; i < looks; ++i)
    if (c.advance(t, r)) return true;
  return false;
}

}  // namespace

void call(team& t, team::lane l, std::uint32_t image, const request& r, op_counter& done) {
  inside([&](engine_state& e) {
    const std::uint32_t number = t.next_number(l, image);
    shared_call at_once;
    if (t.idle() && shared_call::possible(t, l == team::by_image, r)) {
      at_once = shared_call(t, number, r, word_of(r));
      if (complete_at_once(t, r, at_once)) return t.skip(l);
    }
    // relaxed: this thread waits for it, or one that this thread tells of it
    done.fetch_add(1, std::memory_order_relaxed);
    operation& o = *t.at(l, number);
    if (!o.join(r, image, l == team::by_image ? t.images_of(t.rank()) : 1, done)) return;
    in_flight.fetch_add(1, std::memory_order_relaxed);
    if (at_once.begun())
      o.begin(at_once);
    else
      o.begin();
    if (o.advance()) return finish(o);
    e.active.push_back(&o);
    if (!concurrent(build_mode) || !self.options.progress_thread) return;
    // The caller may not poll for long, and the progress thread has had the messages that came
    // before.
    go_on(e);  // which may end o, and free it
    if (!e.active.empty() && e.active.back() == &o && o.fetches()) self.engine->wake_progress();
  });
}

void set_images(team& t, const gasnet_image_t* counts) {
  inside([&](engine_state&) { t.set_images(counts); });
}

team& world() noexcept {
  static team* const all = [] {
    std::vector<std::uint32_t> members(self.engine->size());
    for (std::uint32_t r = 0; r < members.size(); ++r) members[r] = r;
    auto made = std::make_unique<team>(0, std::move(members), self.engine->rank());
    made->share(shared::for_world());
    team* const t = made.get();
    inside([&](engine_state& e) { welcome(e, std::move(made)); });
    return t;
  }();
  return *all;
}

team* split(team& parent, bool joins, std::uint32_t color, std::uint32_t key) {
  wish mine{joins, color, key, 0, 0};
  inside([&](engine_state& e) {
    mine.led = ++e.teams_led;
    if (joins) mine.offer = shared::offer();
  });
  std::vector<wish> all(parent.size());
  op_counter done{0};
  gather_all(parent, all.data(), &mine, sizeof mine, own_buffers, done);
  wait(done);
  if (!joins) return nullptr;
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t r = 0; r < parent.size(); ++r)
    if (all[r].joins != 0 && all[r].color == color) ranks.push_back(r);
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return all[a].key < all[b].key; });
  // The team's first member makes its name.
  const std::uint64_t id =
      std::uint64_t{all[ranks.front()].led} << 32 | parent.job_rank(ranks.front());
  const auto own = static_cast<std::uint32_t>(std::find(ranks.begin(), ranks.end(), parent.rank()) -
                                              ranks.begin());
  std::vector<shared::offered> offers;
  for (std::uint32_t& r : ranks) {
    const std::uint32_t units = all[r].offer;
    offers.push_back({r = parent.job_rank(r), units});
  }
  const auto room = shared::choose(offers);
  const bool is_owner = room && room->owner == self.engine->rank();
  auto made = std::make_unique<team>(id, std::move(ranks), own);
  team* const t = made.get();
  inside([&](engine_state& e) {
    shared::settle(mine.offer, is_owner ? &*room : nullptr, t->size());
    welcome(e, std::move(made));
  });
  if (room) share_lines(*t, *room);
  return t;
}

void destroy(team* t) {
  inside([&](engine_state& e) {
    if (t == e.teams.front().get()) fatal(1, "the team of all cannot be destroyed");
    if (!t->idle()) fatal(1, "a team is destroyed with operations in flight over it");
    std::erase_if(e.teams, [t](const auto& p) { return p.get() == t; });
  });
}

bool known(const team* t) {
  bool found = false;
  inside([&](engine_state& e) {
    for (const auto& p : e.teams) found = found || p.get() == t;
  });
  return found;
}

std::uint32_t rank(const team& t) noexcept { return t.rank(); }
std::uint32_t size(const team& t) noexcept { return t.size(); }
std::uint32_t job_rank(const team& t, std::uint32_t r) noexcept { return t.job_rank(r); }
bool find(const team& t, std::uint32_t job_rank, std::uint32_t& r) noexcept {
  return t.find(job_rank, r);
}

void barrier(team& t, op_counter& done) {
  call(t, team::by_process, 0, {.what = kind::barrier}, done);
}
void broadcast(team& t, std::uint32_t root, void* dst, const void* src, std::size_t bytes,
               unsigned sync, op_counter& done) {
  call(t, team::by_process, 0, {kind::broadcast, root, dst, src, bytes, sync, nullptr}, done);
}
void gather_all(team& t, void* dst, const void* src, std::size_t bytes, unsigned sync,
                op_counter& done) {
  call(t, team::by_process, 0, {kind::gather_all, 0, dst, src, bytes, sync, nullptr}, done);
}
void reduce(team& t, std::uint32_t root, void* dst, const void* src, std::size_t count,
            const reduction& how, unsigned sync, op_counter& done) {
  call(t, team::by_process, 0,
       {kind::reduce, root, dst, src, count * how.element_bytes, sync, &how}, done);
}
void reduce_all(team& t, void* dst, const void* src, std::size_t count, const reduction& how,
                unsigned sync, op_counter& done) {
  call(t, team::by_process, 0,
       {kind::reduce_all, 0, dst, src, count * how.element_bytes, sync, &how}, done);
}

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
