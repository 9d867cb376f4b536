// The domain for queue pairs of one thread: asked for in the right order, given back in the right
// order, and the plain protection domain where the device knows none or runs short.
#include <doctest/doctest.h>

#include <cerrno>
#include <string>
#include <utility>

#include "nic/thread_domain.hpp"

using namespace penstock;

namespace {

std::string said;  // the calls, in order
ibv_pd plain{}, parent{};
ibv_td td{};
int refuse_td = 0, refuse_parent = 0;

nic::calls table() {
  nic::calls c{};
  c.alloc_td = [](ibv_context*, ibv_td_init_attr* a) -> ibv_td* {
    said += a->comp_mask == 0 ? "+td " : "mask ";
    return refuse_td != 0 ? errno = refuse_td, nullptr : &td;
  };
  c.dealloc_td = [](ibv_td* t) {
    said += t == &td ? "-td " : "stranger ";
    return 0;
  };
  c.alloc_parent_domain = [](ibv_context*, ibv_parent_domain_init_attr* a) -> ibv_pd* {
    said += a->pd == &plain && a->td == &td && a->comp_mask == 0 ? "+parent " : "stranger ";
    return refuse_parent != 0 ? errno = refuse_parent, nullptr : &parent;
  };
  c.dealloc_pd = [](ibv_pd* p) {
    said += p == &parent ? "-parent " : "stranger ";
    return 0;
  };
  return c;
}

/// Runs what with a device of that table, which counts from nothing.
template <class What>
void with(nic::calls c, int no_td, int no_parent, What&& what) {
  said.clear();
  refuse_td = no_td;
  refuse_parent = no_parent;
  nic::device d;
  d.verbs = &c;
  what(d);
}

}  // namespace

TEST_CASE("queue pairs of one thread get a parent domain, which is given back before its parts") {
  with(table(), 0, 0, [](nic::device& d) {
    {
      nic::thread_domain alone(d, &plain);
      CHECK(alone.pd() == &parent);
      CHECK(alone.lock_free());
      CHECK(alone.why_not() == 0);
      nic::thread_domain moved = std::move(alone);
      CHECK(moved.pd() == &parent);
      CHECK(said == "+td +parent ");
    }
    CHECK(said == "+td +parent -parent -td ");
  });
}

TEST_CASE("where the device knows no thread domains, or refuses one, it is the plain domain") {
  with(table(), EOPNOTSUPP, 0, [](nic::device& d) {
    const nic::thread_domain alone(d, &plain);
    CHECK(alone.pd() == &plain);
    CHECK_FALSE(alone.lock_free());
    CHECK(alone.why_not() == EOPNOTSUPP);
    CHECK(said == "+td ");
  });
  with(table(), 0, ENOMEM, [](nic::device& d) {
    const nic::thread_domain alone(d, &plain);
    CHECK(alone.pd() == &plain);
    CHECK(alone.why_not() == ENOMEM);
    CHECK(said == "+td +parent -td ");
  });
  with({}, 0, 0, [](nic::device& d) {
    const nic::thread_domain alone(d, &plain);
    CHECK(alone.pd() == &plain);
    CHECK(alone.why_not() == EOPNOTSUPP);
    CHECK(said.empty());
  });
}

TEST_CASE("the two tables of calls know all of it, or nothing") {
  const nic::calls& v = nic::verbs_calls();
  CHECK((v.alloc_td != nullptr && v.dealloc_td != nullptr && v.alloc_parent_domain != nullptr));
  const nic::calls& s = nic::shm_calls();
  CHECK((s.alloc_td == nullptr && s.dealloc_td == nullptr && s.alloc_parent_domain == nullptr));
}
