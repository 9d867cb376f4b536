// See workload.hpp.
#include "test/whole/workload.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <thread>

#include "lib/base/mix.hpp"
#include "test/whole/interpose.hpp"
#include "test/whole/memory.hpp"

namespace penstock::whole {
namespace {

/// The bytes of a message or of an answer are those of its key.
std::uint64_t key_of(bool answer, rank_id source, rank_id target, std::uint32_t serial) noexcept {
  return mix((std::uint64_t{source} << 40 | std::uint64_t{target} << 32 | serial) * 2 +
             (answer ? 1 : 0));
}
std::byte byte_of(std::uint64_t key, std::size_t i) noexcept {
  return static_cast<std::byte>((key * (2 * i + 1)) >> 56);
}
std::vector<std::byte> bytes_of(std::uint64_t key, std::size_t n) {
  const spared here;
  std::vector<std::byte> b(n);
  for (std::size_t i = 0; i < n; ++i) b[i] = byte_of(key, i);
  return b;
}
bool holds(std::span<const std::byte> b, std::uint64_t key) noexcept {
  for (std::size_t i = 0; i < b.size(); ++i)
    if (b[i] != byte_of(key, i)) return false;
  return true;
}

/// Most payloads are small; some are as large as they may be.
std::uint32_t size_of(numbers& draw, std::uint32_t most) noexcept {
  switch (draw.below(4)) {
    case 0:
      return static_cast<std::uint32_t>(draw.below(most + 1));
    case 1:
      return static_cast<std::uint32_t>(draw.below(std::min(most, 4200u) + 1));
    default:
      return static_cast<std::uint32_t>(draw.below(std::min(most, 320u) + 1));
  }
}

}  // namespace

// At the device, whose faults have a seed of their own; and settings that differ.
static void draw_faults(plan& p, numbers& draw) {
  if (draw.one_in(24)) {
    p.differs = true;
    p.faulty_rank = static_cast<std::uint32_t>(draw.below(p.ranks));
    p.faults.emplace_back(draw.one_in(2) ? "EPOCH_DURATION" : "LENDER_LIMIT", "77");
    return;
  }
  if (draw.one_in(8)) {
    p.breaks = true;
    p.faulty_rank = static_cast<std::uint32_t>(draw.below(p.ranks));
    p.failing_allocation = 1 + draw.below(900);
    return;
  }
  if (draw.one_in(8)) {
    p.dying_rank = static_cast<std::uint32_t>(draw.below(p.ranks));
    p.dies_at_turn = draw.below(draw.one_in(2) ? 3'000 : 30'000);
    if (draw.one_in(3)) p.hangs_ns = draw.below(5'000'000'000);
    p.told_after_ns = draw.skewed(400'000'000);
    p.sockets_stay = draw.one_in(3);
    return;
  }
  if (draw.one_in(12)) {
    p.wedged_rank = static_cast<std::uint32_t>(draw.below(p.ranks));
    p.wedged_ns = 2'000'000'000 + draw.below(8'000'000'000);
    return;
  }
  if (!draw.one_in(3)) return;
  const auto any = [&](std::initializer_list<const char*> of) {
    return std::string(*(of.begin() + draw.below(of.size())));
  };
  const auto number = [&](std::uint64_t most) { return std::to_string(draw.skewed(most)); };
  std::string f = "seed=" + number(1000);
  switch (draw.below(6)) {
    case 0:
      f += ",delay=" + number(300) + "us";
      break;
    case 1:
      f += ",rnr=" + number(2000) + "us";
      break;
    case 2:
      f += ",any_order";
      break;
    case 3:
      f += ",lost=" + number(20) + "%,doubled=" + number(20) + "%,overtaken=" + number(20) + "%";
      break;
    default:
      p.breaks = true;
      switch (draw.below(4)) {
        case 0:
          f += ",gone=" + number(300);
          break;
        case 1:
          f += ",send=" + number(300) + ":" +
               any({"RETRY_EXC_ERR", "REM_ACCESS_ERR", "WR_FLUSH_ERR"});
          break;
        case 2:
          f += "," +
               any({"create_qp", "create_cq", "create_srq", "create_ah", "reg_mr", "modify_qp"}) +
               "=" + number(12) + ":" + any({"ENOMEM", "EIO"});
          break;
        default:
          f += "," + any({"post_send", "post_srq_recv", "poll_cq", "req_notify_cq"}) + "=" +
               number(draw.one_in(2) ? 300 : 12) + ":" + any({"ENOMEM", "EIO"});
      }
  }
  p.faults.emplace_back("SHM_FAULT", f);
  if (draw.one_in(2)) p.faulty_rank = static_cast<std::uint32_t>(draw.below(p.ranks));
  if (draw.one_in(3))
    p.settings.emplace_back("SHM_PERSONALITY", any({"no_inline", "one_sge", "rxe"}));
}

plan plan_of(std::uint64_t seed, std::uint32_t ranks) {
  numbers draw(seed, "plan");
  plan p;
  p.seed = seed;
  p.ranks = ranks;
  p.messages = static_cast<std::uint32_t>(8 + draw.below(40));
  p.threads = draw.one_in(2) ? 2 : 1;
  p.processors = draw.one_in(4) ? 64 : 1;
  p.handlers_wait = draw.one_in(2);
  p.barriers = static_cast<std::uint32_t>(draw.below(4));
  p.last_words = static_cast<std::uint32_t>(draw.one_in(2) ? 0 : draw.below(6));
  const auto set = [&](const char* name, std::string value) {
    p.settings.emplace_back(name, std::move(value));
  };
  const auto sometimes = [&](unsigned n, const char* name, std::initializer_list<const char*> of) {
    if (draw.one_in(n)) set(name, *(of.begin() + draw.below(of.size())));
  };
  set("DEVICE", "shm0");
  set("WATCH", "no");
  set("LOG", "error");
  if (p.last_words != 0) set("EXITTIMEOUT", "1000");  // none leaves alone while others send to it
  switch (draw.below(3)) {                            // rings, queue pairs, both
    case 0:
      set("DIRECT", "yes");
      break;
    case 1:
      set("DIRECT", "no");
      break;
    default:
      set("SUPERNODE_MAXSIZE", "2");
  }
  sometimes(2, "CRED_PER_NODE", {"4", "6", "10", "18", "40"});
  sometimes(2, "BANKED_CREDITS", {"16", "40", "200"});
  sometimes(2, "EPOCH_DURATION", {"5", "20", "100"});
  sometimes(4, "AM_CREDITS_SLACK", {"0", "1", "5"});
  sometimes(4, "SB_CHUNKS", {"8", "16"});
  sometimes(4, "RPL_CHUNKS", {"8", "16"});
  sometimes(4, "INLINE_LIMIT", {"0", "64"});
  sometimes(4, "OP_OUST_PP", {"4", "16"});
  sometimes(2, "BARRIER", {"counter", "dissem", "tree"});
  sometimes(4, "WAIT_MODE", {"block", "spin"});
  sometimes(4, "USE_FIREHOSE", {"no"});
  sometimes(4, "PACKED_LONG", {"no"});
  sometimes(6, "CONNECT_STATIC", {"yes"});
  sometimes(6, "PROGRESS_THREAD", {"yes"});
  sometimes(4, "MAX_CONNECTIONS", {"2", "4"});
  draw_faults(p, draw);
  // README.md, "What is not there yet"
  const auto by_rings =
      std::ranges::count(p.settings, std::pair<std::string, std::string>("DIRECT", "yes"));
  if (by_rings == 0 || !p.faults.empty()) p.last_words = 0;
  return p;
}

party::party(const plan& p, launcher& l, record& r, std::uint32_t rank)
    : plan_(p), launcher_(l), record_(r), rank_(rank), in_use_(p.ranks) {}

void party::must(bool so, const char* what) const {
  if (!so) fail("WRONG", "rank " + std::to_string(rank_) + ": not so: " + what);
}

void party::must(status s, const char* what) const {
  if (s != status::ok)
    end_early(plan_, "WRONG", "rank " + std::to_string(rank_) + ": " + what + ": " + describe(s));
}

template <class Done>
void party::await(const char* what, Done&& done) {
  is_doing(what);
  must(ep_->wait_until(done), what);
  is_doing("running");
}

void end_well(const plan& p, const std::string& how) {
  fail_allocation(no_rank, 0);
  std::printf("seed %llu: %s, hash %016llx, %llu turns, %llu ms\n",
              static_cast<unsigned long long>(p.seed), how.c_str(),
              static_cast<unsigned long long>(trace_hash()),
              static_cast<unsigned long long>(turns()),
              static_cast<unsigned long long>(virtual_ns() / 1'000'000));
  std::fflush(stdout);
  ::_exit(0);
}
void end_early(const plan& p, const char* kind, const std::string& why) {
  fail_allocation(no_rank, 0);
  if (!p.breaks && !p.differs) fail(kind, why);
  end_well(p, std::string("ended early, ") + kind);
}

// ---- deaths ----

void attend_death(const plan& p, launcher& l, record& r) {
  const auto wait = [](std::uint64_t ns) { (void)sleep_at(nullptr, virtual_ns() + ns); };
  // The setting DEATH_GRACE; and for how long its device is asked, where it seems to be stopped.
  const std::uint64_t grace_ns = p.sockets_stay ? 15'000'000'000 : 5'000'000'000;
  is_doing("being the launcher");
  await_death();
  wait(p.hangs_ns);
  if (!p.sockets_stay) close_sockets_of(p.dying_rank);
  wait(p.told_after_ns);
  l.tell_of_death(p.dying_rank);
  wait(grace_ns);
  if (r.ended < p.ranks - 1) fail("GRACE", "ranks have not ended in time after a death");
  end_well(p, "rank " + std::to_string(p.dying_rank) + " was killed, and " +
                  std::to_string(r.lines) + " ended by a line");
}

void end_by(const plan& p, record& r, const char* kind, const std::string& line) {
  if (!has_died()) end_early(p, kind, line);
  if (line.find("rank " + std::to_string(p.dying_rank)) == line.npos)
    fail("LINE", "a rank's last line does not name the one that was killed: " + line);
  ++r.ended;
  ++r.lines;
  note_progress();
  close_sockets_of(rank());
  end_rank();
}

// ---- the segment: slots for Longs by source, slots for answers, what is put by source, a word
// ----

std::byte* party::slot_of(rank_id at, rank_id source, std::uint32_t slot) const {
  return segments_[at] + (source * slots + slot) * slot_bytes;
}
std::byte* party::answer_slot_of(rank_id at, std::uint32_t slot) const {
  return slot_of(at, plan_.ranks, slot);
}
std::byte* party::puts_of(rank_id at, rank_id source, std::uint32_t worker) const {
  return slot_of(at, plan_.ranks + 1, 0) + (source * workers + worker) * put_bytes;
}
std::uint64_t* party::word_of(rank_id at) const {
  return reinterpret_cast<std::uint64_t*>(puts_of(at, plan_.ranks, 0));
}
std::size_t party::segment_bytes() const {
  return (plan_.ranks + 1) * slots * slot_bytes + plan_.ranks * workers * put_bytes + 64;
}

// ---- handlers ----

void party::on_short(token& t, std::uint32_t serial, std::uint32_t wish, std::uint32_t places) {
  handled(t, {}, serial, wish, places);
}
void party::on_medium(token& t, std::span<std::byte> b, std::uint32_t serial, std::uint32_t wish,
                      std::uint32_t places) {
  handled(t, b, serial, wish, places);
}
void party::on_long(token& t, std::span<std::byte> b, std::uint32_t serial, std::uint32_t wish,
                    std::uint32_t places) {
  must(b.data() == slot_of(rank_, t.source(), places & 0xff), "a Long lies where it was sent to");
  handled(t, b, serial, wish, places);
}
void party::on_short_answer(token& t, std::uint32_t serial, std::uint32_t places) {
  answered(t, {}, serial, places);
}
void party::on_medium_answer(token& t, std::span<std::byte> b, std::uint32_t serial,
                             std::uint32_t places) {
  answered(t, b, serial, places);
}
void party::on_long_answer(token& t, std::span<std::byte> b, std::uint32_t serial,
                           std::uint32_t places) {
  must(b.data() == answer_slot_of(rank_, places >> 8 & 0xff), "an answer lies where it was sent");
  answered(t, b, serial, places);
  answer_in_use_[places >> 8 & 0xff] = false;
}

// wish: the kind of the answer, and its bytes. places: the slot of the Long, that of the answer,
// and whether the first is to be freed.
void party::handled(token& t, std::span<const std::byte> b, std::uint32_t serial,
                    std::uint32_t wish, std::uint32_t places) {
  const rank_id from = t.source();
  note_progress();
  note(std::uint64_t{from} << 32 | serial);
  must(serial < record_.sent[from][rank_], "a request was sent");
  {
    const spared here;
    auto& seen = record_.seen[rank_][from];
    if (seen.size() <= serial) seen.resize(serial + 1);
    must(!seen[serial], "a request is handled once");
    seen[serial] = true;
  }
  const std::uint64_t key = key_of(false, from, rank_, serial);
  lose_turns(key);
  must(holds(b, key), "a request has its bytes");
  const auto kind = static_cast<answer>(wish & 3);
  const auto payload = bytes_of(key_of(true, from, rank_, serial), wish >> 2);
  status s = status::ok;
  if (kind == answer::by_short) s = t.reply_short(short_answer_, serial, places);
  if (kind == answer::by_medium) s = t.reply_medium(medium_answer_, payload, serial, places);
  if (kind == answer::by_long)
    s = t.reply_long(long_answer_, payload, answer_slot_of(from, places >> 8 & 0xff), serial,
                     places);
  must(s, "a reply is sent");
}

void party::answered(token& t, std::span<const std::byte> b, std::uint32_t serial,
                     std::uint32_t places) {
  note_progress();
  note(std::uint64_t{t.source()} << 32 | serial | 1u << 31);
  const std::uint64_t key = key_of(true, rank_, t.source(), serial);
  lose_turns(key);
  must(holds(b, key), "an answer has its bytes");
  must(++answers_ <= expected_, "an answer was asked for");
  if ((places >> 16 & 1) != 0) in_use_[t.source()][places & 0xff] = false;
}

// A handler may be kept from going on, before it has read its bytes, while other threads poll.
void party::lose_turns(std::uint64_t key) const {
  if (!plan_.handlers_wait || plan_.wedged_rank != no_rank || key % 16 != 0) return;
  const std::uint64_t until = virtual_ns() + 20'000'000;
  const std::uint64_t most = (key >> 4) % 32 == 0 ? 4'000 : 400;  // another thread takes its place
  for (std::uint64_t n = 1 + (key >> 8) % (1 + (key >> 32) % most);
       n-- > 0 && virtual_ns() < until;) {
    yield();
    note_progress();  // it is this that others wait for
  }
}

// ---- what a rank does ----

rank_id party::draw_target(numbers& draw) const {
  const auto to = static_cast<rank_id>(draw.below(plan_.ranks));
  return to == plan_.wedged_rank && to != rank_ ? (to + 1) % plan_.ranks : to;
}

void party::meet() {
  if (!launcher_.meet(rank_)) await("waiting for the job's end", [] { return false; });
}

void party::send_one(std::uint32_t worker, numbers& draw) {
  const rank_id to = draw_target(draw);
  const auto kind = draw.below(8);  // half of them Shorts
  auto want = static_cast<answer>(draw.below(8));
  if (want > answer::by_long) want = draw.one_in(2) ? answer::none : answer::by_short;
  // A handler waits until its Long answer has left (README.md).
  if (want == answer::by_long && rank_ == plan_.wedged_rank) want = answer::by_short;
  std::uint32_t places = 0;
  const bool is_long = kind >= 7;
  if (is_long) {
    if (want == answer::none) want = answer::by_short;  // it frees the slot
    std::uint32_t slot = 0;
    await("waiting for a slot", [&] {
      while (slot < slots && in_use_[to][slot]) ++slot;
      return slot < slots || (slot = 0, false);
    });
    in_use_[to][slot] = true;
    places = slot | 1u << 16;
  }
  if (want == answer::by_long) {
    std::uint32_t slot = 0;
    await("waiting for a slot of an answer", [&] {
      while (slot < slots && answer_in_use_[slot]) ++slot;
      return slot < slots || (slot = 0, false);
    });
    answer_in_use_[slot] = true;
    places |= slot << 8;
  }
  std::uint32_t answer_bytes = 0;
  if (want == answer::by_medium) answer_bytes = size_of(draw, 65536);
  if (want == answer::by_long) answer_bytes = size_of(draw, slot_bytes);
  const std::uint32_t wish = static_cast<std::uint32_t>(want) | answer_bytes << 2;
  const std::uint32_t serial = record_.sent[rank_][to]++;
  const std::uint64_t key = key_of(false, rank_, to, serial);
  if (want != answer::none) ++expected_;
  is_doing("sending a request");
  status s;
  if (is_long) {
    const auto b = bytes_of(key, size_of(draw, slot_bytes));
    s = ep_->request_long(to, long_, b, slot_of(to, rank_, places & 0xff), serial, wish, places);
  } else if (kind >= 4) {
    const auto b = bytes_of(key, size_of(draw, 65536));
    s = ep_->request_medium(to, medium_, b, serial, wish, places);
  } else {
    s = ep_->request_short(to, short_, serial, wish, places);
  }
  must(s, "a request is sent");
  is_doing("running");
  (void)worker;
}

void party::put_and_get(std::uint32_t worker, numbers& draw) {
  const rank_id to = draw_target(draw);
  const std::uint32_t n = 1 + size_of(draw, put_bytes - 1);
  const auto b = bytes_of(draw.next(), n);
  std::vector<std::byte> back = bytes_of(0, n);
  std::byte* const there = puts_of(to, rank_, worker);
  is_doing("putting");
  if (draw.one_in(2)) {
    must(memory_->put(to, there, b), "a put succeeds");
  } else {
    operation o = memory_->put_nb(to, there, b);
    if (draw.one_in(2)) (void)ep_->poll();
    must(o.wait(), "a put succeeds");
  }
  is_doing("getting");
  must(memory_->get(back, to, there), "a get succeeds");
  must(back == b, "what was put is what is got");
  is_doing("running");
  note_progress();
}

bool record::all_handled(rank_id source, rank_id target) const {
  const auto& by = seen[target][source];
  return by.size() == sent[source][target] &&
         std::ranges::count(by, true) == static_cast<std::ptrdiff_t>(by.size());
}

void party::cross_barrier(const char* which) {
  is_doing(which);
  const std::uint32_t mine = ++record_.barriers[rank_];
  must(ep_->barrier(), which);
  for (const std::uint32_t theirs : record_.barriers)
    must(theirs >= mine, "nobody leaves a barrier before all have come");
  is_doing("running");
  note_progress();
}

void party::add_to_a_word(numbers& draw) {
  const rank_id to = draw_target(draw);
  const std::uint64_t more = draw.below(1000);
  record_.added[to] += more;
  is_doing("adding to a word");
  std::uint64_t old = 0;
  must(words_->fetch_add(to, word_of(to), more, old), "an atomic succeeds");
  must(old <= record_.added[to], "a word has what was added");
  is_doing("running");
  note_progress();
}

void party::work(std::uint32_t worker) {
  numbers draw(plan_.seed * 1024 + rank_ * workers + worker, "work");
  const std::uint32_t barriers = worker == 0 && plan_.wedged_rank == no_rank ? plan_.barriers : 0;
  for (std::uint32_t i = 0; i < plan_.messages; ++i) {
    if (i == plan_.messages / 2)
      for (std::uint32_t b = 0; b < barriers; ++b) cross_barrier("in a barrier on the way");
    switch (draw.below(12)) {
      case 0:
        put_and_get(worker, draw);
        break;
      case 1:
        add_to_a_word(draw);
        break;
      case 2:
        for (std::uint64_t polls = draw.below(20); polls-- > 0;) {
          (void)ep_->poll();
          yield();
        }
        break;
      default:
        send_one(worker, draw);
    }
  }
  --working_;
}

void party::check_rest() {
  static std::string why;  // as rank 0 has seen it
  for (int round = 0; round < 200; ++round) {
    // What is owed goes back after some polls that find nothing, and is taken by others.
    for (int i = 0; i < 50; ++i) {
      (void)ep_->poll();
      yield();
    }
    give_back_leases(ep_->internals());
    meet();
    if (rank_ == 0) {
      const spared here;
      why = out_of_place(record_.engines);
    }
    meet();
    if (why.empty()) return;
  }
  fail("CONSERVATION", why);
}

void party::run() {
  belongs_to(rank_);
  is_doing("opening");
  setting_overrides settings = plan_.settings;
  if (plan_.faulty_rank == rank_) fail_allocation(rank_, plan_.failing_allocation);
  if (plan_.faulty_rank == rank_ || plan_.faulty_rank == no_rank)
    settings.insert(settings.end(), plan_.faults.begin(), plan_.faults.end());
  auto opened = launcher_.open(rank_, settings);
  if (!opened) end_by(plan_, record_, "OPEN", opened.error().message());
  {
    const spared here;
    ep_ = std::make_unique<endpoint>(std::move(*opened));
  }
  short_ = ep_->add<&party::on_short>(this);
  medium_ = ep_->add<&party::on_medium>(this);
  long_ = ep_->add<&party::on_long>(this);
  short_answer_ = ep_->add<&party::on_short_answer>(this);
  medium_answer_ = ep_->add<&party::on_medium_answer>(this);
  long_answer_ = ep_->add<&party::on_long_answer>(this);
  is_doing("starting");
  if (auto r = ep_->start(segment_bytes()); !r)
    end_by(plan_, record_, "START", r.error().message());
  record_.engines[rank_] = &ep_->internals();
  for (rank_id r = 0; r < plan_.ranks; ++r) segments_.push_back(ep_->segment_of(r).data());
  {
    const spared here;
    memory_ = std::make_unique<remote_memory>(*ep_);
    words_ =
        std::make_unique<atomic_domain<std::uint64_t>>(*memory_, atomic_ops::add | atomic_ops::get);
  }
  cross_barrier("in the first barrier");
  if (++record_.met == plan_.ranks && plan_.wedged_rank != no_rank) {
    const std::uint64_t from = virtual_ns() + numbers(plan_.seed, "wedged").skewed(2'000'000);
    record_.wedged_until_ns = from + plan_.wedged_ns;
    stop_rank(plan_.wedged_rank, from, record_.wedged_until_ns);
  }
  is_doing("running");

  working_ = plan_.threads;
  std::vector<std::thread> others;
  for (std::uint32_t t = 1; t < plan_.threads; ++t) {
    const spared here;
    others.emplace_back([this, t] { work(t); });
  }
  work(0);
  // The other threads, and other ranks, may wait for what this thread handles.
  await("waiting for other threads", [&] { return working_ == 0; });
  for (auto& t : others) t.join();
  await("waiting for answers", [&] { return answers_ == expected_; });
  if (record_.wedged_until_ns != 0 && rank_ != plan_.wedged_rank)
    must(virtual_ns() < record_.wedged_until_ns,
         "nobody waits for a rank that it needs nothing of");
  is_doing("in quiet()");
  must(ep_->quiet(), "quiet()");
  for (rank_id r = 0; r < plan_.ranks; ++r)
    must(record_.all_handled(rank_, r),
         "all requests of this rank were handled when quiet() returned");
  cross_barrier("in a barrier");
  for (rank_id r = 0; r < plan_.ranks; ++r) {
    must(record_.all_handled(r, rank_),
         "all requests to this rank were handled when a barrier was over");
  }
  std::uint64_t sum = 0;
  must(words_->fetch_add(rank_, word_of(rank_), 0, sum), "a word is read");
  must(sum == record_.added[rank_], "a word has all that was added");
  is_doing("coming to rest");
  check_rest();
  numbers draw(plan_.seed * 1024 + rank_, "last words");
  for (std::uint32_t i = 0; i < plan_.last_words; ++i) send_one(0, draw);
  is_doing("leaving");
  words_.reset();
  memory_.reset();
  ep_.reset();
  if (rank_ != plan_.dying_rank) ++record_.ended;
  is_doing("ended");
}

}  // namespace penstock::whole
