#include "lib/gasnet/coll/operation.hpp"

#include <algorithm>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "lib/gasnet/coll/algorithms.hpp"
#include "lib/gasnet/coll/messages.hpp"
#include "lib/gasnet/coll/team.hpp"
#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

const char* name_of(kind k) noexcept {
  switch (k) {
    case kind::none:
      return "nothing";
    case kind::barrier:
      return "a barrier";
    case kind::broadcast:
      return "a broadcast";
    case kind::scatter:
      return "a scatter";
    case kind::gather:
      return "a gather";
    case kind::gather_all:
      return "a gather to all";
    case kind::exchange:
      return "an exchange";
    case kind::reduce:
      return "a reduction";
    case kind::reduce_all:
      return "a reduction to all";
  }
  return "something else";
}

void operation::reset(std::uint32_t number) noexcept {
  number_ = number;
  complete = begun_ = false;
  looks_ = asked_often_ = 0;
  waits_since_ = 0;
  shared_ = {};
  joined_ = missing_ = 0;
  round_ = 0;
  plan.clear();
}

bool operation::join(const request& r, std::uint32_t image, std::uint32_t images,
                     op_counter& done) {
  if (joined_ == 0) {
    asked_ = r;
    if (r.how != nullptr) {  // the caller's, who may be gone when the last image joins
      how_ = *r.how;
      asked_.how = &how_;
    }
    images_.assign(images, {});
  } else if (asked_.what != r.what || asked_.bytes != r.bytes || asked_.root != r.root ||
             asked_.sync != r.sync) {
    fatal(1,
          "the images of this process disagree: %s of %zu bytes, root %u, and %s of %zu, root %u",
          name_of(asked_.what), asked_.bytes, asked_.root, name_of(r.what), r.bytes, r.root);
  }
  images_[image] = {static_cast<std::byte*>(r.dst), static_cast<const std::byte*>(r.src), &done};
  return ++joined_ == images;
}

// The messages that have come are of the same call, or end the job.
void operation::make_begun() {
  begun_ = true;
  call_ = word_of(asked_);
  before_ = calls_beside();
  for (const auto& a : early_)
    if (a->call != call_) disagree(*a);
  std::erase_if(early_, [](const auto& a) { return a->type == arrival::type::question; });
}

void operation::begin(const shared_call& so_far) {
  make_begun();
  shared_ = so_far;
}

void operation::begin() {
  make_begun();
  if (shared_call::possible(*team_, lane_ == team::by_image, asked_)) {
    shared_ = shared_call(*team_, number_, asked_, call_);
    return;
  }
  make_plan(*this);
  plan.next_round();
  expect_peers();
  start_round();
}

// Names to the engine all peers of the plan, with what will be under way to each, so that loans
// have come when the messages of later rounds go.
void operation::expect_peers() {
  for (std::size_t r = 0; r < plan.rounds(); ++r)
    for (const step* s = plan.begin(r); s != plan.end(r); ++s)
      if (s->what == act::send)
        expected_.push_back({s->peer, 1, s->bytes <= eager_bytes ? s->bytes : 0});
  std::sort(expected_.begin(), expected_.end(),
            [](const expected& a, const expected& b) { return a.peer < b.peer; });
  for (auto first = expected_.begin(); first != expected_.end();) {
    expected all = *first;
    for (++first; first != expected_.end() && first->peer == all.peer; ++first) {
      ++all.messages;
      all.bytes = std::max(all.bytes, first->bytes);
    }
    expect(team_->job_rank(all.peer), all.messages, all.bytes);
  }
  expected_.clear();
}

void disagree(const team& t, std::uint32_t number, call_word here, std::uint32_t r,
              call_word there) {
  fatal(1, "collective %u over a team of %u: this is %s, on rank %u it is %s", number, t.size(),
        describe(here).c_str(), t.job_rank(r), describe(there).c_str());
}

std::uint32_t operation::calls_beside() const noexcept {
  return team_->calls_beside(static_cast<team::lane>(lane_)) & most_beside;
}

// A question's tag says how many calls beside this one came before it; 0: nothing, since images may
// call in any order, or some thread here still goes on.
void operation::ask(std::uint32_t r) {
  const bool tells = self.checked && team_->images() == team_->size() && before_ == calls_beside();
  send_question(team_->job_rank(r),
                {team_->id(), number_, lane_, call_, team_->rank(), tells ? before_ + 1 : 0});
}

void operation::check_order(const arrival& question) const {
  if (question.tag == 0) return;
  const std::uint32_t here = begun_ ? before_ : calls_beside(), there = question.tag - 1;
  // A process that has not come to this call yet may come to others first.
  if (here == there || (!begun_ && ((here - there) & most_beside) > most_beside / 2)) return;
  fatal(
      1,
      "collective %u over a team of %u, %s, comes after %u other collectives and barriers on rank "
      "%u, and after %u%s here: the calls are in another order",
      number_, team_->size(), describe(question.call).c_str(), there,
      team_->job_rank(question.from), here, begun_ ? "" : " or more");
}

void operation::wait_on() {
  constexpr unsigned looks_each = 16;  // a waiting process naps between two
  constexpr std::uint64_t patience_ns = 1'000'000'000;
  if (++looks_ % looks_each != 0 || asked_often_ == (self.checked ? 16 : 1)) return;
  const std::uint64_t now = now_ns();
  if (waits_since_ == 0) waits_since_ = now;
  if (now - waits_since_ < patience_ns << asked_often_) return;
  ++asked_often_;
  if (shared_.begun()) return ask(shared_.waits_for(*team_, asked_));
  for (const step* s = plan.begin(round_); missing_ != 0 && s != plan.end(round_); ++s)
    if (receives(s->what) && !s->matched) ask(s->peer);
}

void operation::deliver(std::unique_ptr<arrival> a) {
  if (a->from >= team_->size())
    fatal(1, "a collective's message from rank %u of a team of %u", a->from, team_->size());
  if (begun_ && a->call != call_) disagree(*a);
  if (a->type == arrival::type::question) {
    check_order(*a);
    if (begun_ || !early_.empty()) return;
  }
  if (missing_ != 0)
    for (step* s = plan.begin(round_); s != plan.end(round_); ++s)
      if (take(*s, a)) return;
  early_.push_back(std::move(a));
}

// If `a` is the message that the receive s waits for, takes its bytes, or begins to fetch them.
bool operation::take(step& s, std::unique_ptr<arrival>& a) {
  if (!receives(s.what) || s.matched || s.peer != a->from || s.tag != a->tag) return false;
  if (s.bytes != a->bytes)
    fatal(1, "collective %u over a team of %u: %zu bytes came from rank %u where %zu were expected",
          number_, team_->size(), static_cast<std::size_t>(a->bytes), team_->job_rank(a->from),
          s.bytes);
  s.matched = true;
  --missing_;
  const std::uint32_t from = team_->job_rank(s.peer);
  if (s.what != act::receive) {
    combining_.deliver(s, std::move(a), from);
    return true;
  }
  if (a->type == arrival::type::data) {
    if (s.bytes != 0) std::memcpy(s.to, a->payload(), s.bytes);
  } else if (reachable(from, a->address, a->bytes)) {
    fetch(from, s.to, a->address, s.bytes, fetching);
    fetched_.push_back({from, a->loan});
  } else {
    want(from, *a, s.to, s.bytes, fetching);
  }
  a.reset();
  return true;
}

void operation::send(const step& s) {
  const envelope e{team_->id(), number_, lane_, call_, team_->rank(), s.tag};
  const std::uint32_t to = team_->job_rank(s.peer);
  if (s.bytes <= eager_bytes) return send_data(to, e, s.from, s.bytes);
  // relaxed: the message carries the order to the thread that subtracts it
  lent.fetch_add(1, std::memory_order_relaxed);
  send_offer(to, e, *new loan{this, s.from, s.bytes});
}

void operation::combine(const step& s) {
  const bool to_left = s.what == act::combine_left;
  auto* const from = const_cast<std::byte*>(s.from);  // it is scratch memory of this operation
  how_.combine(how_, to_left ? s.to : from, to_left ? from : s.to, s.bytes / how_.element_bytes);
  if (to_left == how_.result_in_right) std::memcpy(s.to, from, s.bytes);
}

void operation::start_round() {
  if (round_ == plan.rounds()) return;
  for (step* s = plan.begin(round_); s != plan.end(round_); ++s) {
    if (receives(s->what)) ++missing_;
    if (receives(s->what) && s->what != act::receive) combining_.expect(*s);
  }
  for (step* s = plan.begin(round_); s != plan.end(round_); ++s) {
    switch (s->what) {
      case act::send:
        send(*s);
        break;
      case act::copy:
        std::memmove(s->to, s->from, s->bytes);
        break;
      case act::combine_left:
      case act::combine_right:
        combine(*s);
        break;
      case act::receive:
      case act::receive_left:
      case act::receive_right:
        for (std::size_t i = 0; i < early_.size(); ++i)
          if (take(*s, early_[i])) {
            early_.erase(early_.begin() + static_cast<std::ptrdiff_t>(i));
            break;
          }
        break;
    }
  }
}

// Tells the lenders that their bytes have arrived.
void operation::say_fetched() {
  for (const fetched& f : fetched_) send_thanks(f.from, f.loan);
  fetched_.clear();
}

bool operation::advance() {
  if (shared_.begun()) return shared_.advance(*team_, asked_) && finish();
  while (true) {
    // F2 fetched  acquire fetching, lent  <- F1 (messages.cpp): the bytes are there, or free
    if (fetching.load(std::memory_order_acquire) != 0) return false;
    if (!fetched_.empty()) say_fetched();
    if (!combining_.advance(how_, [this](std::uint32_t r) { return team_->job_rank(r); }))
      return false;
    if (missing_ != 0 || lent.load(std::memory_order_acquire) != 0) return false;
    if (round_ == plan.rounds()) break;
    ++round_;
    start_round();
  }
  return finish();
}

bool operation::finish() {
  if (!early_.empty())
    fatal(1, "collective %u over a team of %u: rank %u sent a message that nobody waits for",
          number_, team_->size(), team_->job_rank(early_.front()->from));
  plan.clear();
  for (const buffers& b : images_)
    // C1 complete  release done  -> C2 (collective.cpp): the results are there
    b.done->fetch_sub(1, std::memory_order_release);
  complete = true;
  return true;
}

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
