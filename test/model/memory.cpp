#include "test/model/memory.hpp"

#include <algorithm>
#include <cstring>

namespace penstock::model {
namespace {

constexpr std::uint64_t gap = 1U << 20;  // between stores: room for others, and for RMWs

bool acquires(std::memory_order o) {
  return o == std::memory_order_acquire || o == std::memory_order_acq_rel ||
         o == std::memory_order_seq_cst || o == std::memory_order_consume;
}
bool releases(std::memory_order o) {
  return o == std::memory_order_release || o == std::memory_order_acq_rel ||
         o == std::memory_order_seq_cst;
}

// A little-endian machine's word of 1 to 8 bytes.
std::uint64_t raw(const void* at, unsigned bytes) {
  std::uint64_t v = 0;
  std::memcpy(&v, at, bytes);
  return v;
}

}  // namespace

void memory::view::see(std::size_t place, stamp s) {
  if (seen.size() <= place) seen.resize(place + 1);
  seen[place] = std::max(seen[place], s);
}

void memory::view::join_places(const view& o) {
  if (seen.size() < o.seen.size()) seen.resize(o.seen.size());
  for (std::size_t i = 0; i < o.seen.size(); ++i) seen[i] = std::max(seen[i], o.seen[i]);
}

void memory::view::join(const view& o) {
  join_places(o);
  for (unsigned i = 0; i < most_threads; ++i) clock[i] = std::max(clock[i], o.clock[i]);
}

memory::place& memory::at(const void* address, unsigned bytes) {
  place& p = places_[address];
  const std::uint64_t there = raw(address, bytes);
  if (p.history.empty()) {
    p.number = numbers_++;
    p.history.push_back({0, there, {}});
  } else if (there != p.history.back().value) {
    scribbled_ = address;
  }
  return p;
}

std::size_t memory::first(unsigned t, const place& p, std::memory_order o) const {
  stamp floor = state_[t].now.of(p.number);
  if (o == std::memory_order_seq_cst) floor = std::max(floor, sc_.of(p.number));
  std::size_t i = p.history.size() - 1;
  while (i > 0 && p.history[i].at > floor) --i;
  return i;
}

void memory::read(unsigned t, const place& p, const message& m, std::memory_order o) {
  thread& me = state_[t];
  me.now.see(p.number, m.at);
  (acquires(o) ? me.now : me.pending).join(m.released);
  // A later such load reads nothing older: it would come before this one in their one order.
  if (o == std::memory_order_seq_cst) sc_.see(p.number, m.at);
  last_value_ = m.value;
}

std::uint64_t memory::load(unsigned t, const void* address, unsigned bytes, std::memory_order o) {
  const place& p = at(address, bytes);
  const std::size_t newest = p.history.size() - 1;
  last_behind_ = pick_(static_cast<unsigned>(newest - first(t, p, o) + 1), false);
  const message& m = p.history[newest - last_behind_];
  read(t, p, m, o);
  return m.value;
}

// Adds a message right behind the one of that number.
void memory::write(unsigned t, place& p, std::size_t behind, stamp at, std::uint64_t v,
                   std::memory_order o, const view* carried) {
  thread& me = state_[t];
  me.now.see(p.number, at);
  if (releases(o)) ++me.now.clock[t];  // what was done before is known to who acquires this
  message m{at, v, releases(o) ? me.now : me.fenced};
  m.released.see(p.number, at);
  if (carried != nullptr) m.released.join(*carried);
  if (o == std::memory_order_seq_cst) sc_.see(p.number, at);
  p.history.insert(p.history.begin() + static_cast<std::ptrdiff_t>(behind) + 1, std::move(m));
  last_value_ = v;
  last_behind_ = p.history.size() - 2 - behind;
}

void memory::store(unsigned t, void* address, unsigned bytes, std::uint64_t v,
                   std::memory_order o) {
  place& p = at(address, bytes);
  std::vector<std::size_t> behind;  // the newest first
  for (std::size_t i = p.history.size(), least = first(t, p, o); i-- > least;)
    if (i + 1 == p.history.size() ||
        (!p.history[i].followed && p.history[i + 1].at - p.history[i].at > 1))
      behind.push_back(i);
  const std::size_t i = behind[pick_(static_cast<unsigned>(behind.size()), true)];
  const bool last = i + 1 == p.history.size();
  const stamp before = p.history[i].at;
  write(t, p, i, last ? before + gap : before + (p.history[i + 1].at - before) / 2, v, o, nullptr);
  if (last) std::memcpy(address, &v, bytes);
}

std::uint64_t memory::change(unsigned t, void* address, unsigned bytes, const changer& f,
                             std::memory_order ok, std::memory_order fail) {
  place& p = at(address, bytes);
  std::vector<std::size_t> from;  // the newest first
  const std::size_t least = std::min(first(t, p, ok), first(t, p, fail));
  for (std::size_t i = p.history.size(); i-- > least;) {
    std::uint64_t unused;
    const bool changes = f(p.history[i].value, unused);
    if (changes ? !p.history[i].followed && i >= first(t, p, ok) : i >= first(t, p, fail))
      from.push_back(i);
  }
  const std::size_t i = from[pick_(static_cast<unsigned>(from.size()), false)];
  const std::uint64_t old = p.history[i].value;
  std::uint64_t now = 0;
  if (!f(old, now)) {
    read(t, p, p.history[i], fail);
    last_behind_ = p.history.size() - 1 - i;
    return old;
  }
  read(t, p, p.history[i], ok);
  const view carried = p.history[i].released;
  p.history[i].followed = true;
  const bool last = i + 1 == p.history.size();
  write(t, p, i, p.history[i].at + 1, now, ok, &carried);
  if (last) std::memcpy(address, &now, bytes);
  return old;
}

void memory::full_fence(unsigned i) {
  thread& t = state_[i];
  ++t.now.clock[i];
  t.now.join(t.pending);
  t.now.join_places(sc_);
  sc_.join_places(t.now);
  t.fenced = t.now;
}

void memory::fence(unsigned t, std::memory_order o) {
  thread& me = state_[t];
  if (o == std::memory_order_seq_cst) return full_fence(t);
  if (acquires(o)) me.now.join(me.pending);
  if (!releases(o)) return;
  ++me.now.clock[t];
  me.fenced = me.now;
}

void memory::fence_all(unsigned t, bool everywhere) {
  full_fence(t);
  for (unsigned i = 0; i < threads_; ++i)
    if (everywhere || processes_.empty() || processes_[i] == processes_[t]) full_fence(i);
  full_fence(t);
}

bool memory::plain(unsigned t, const void* address, bool writes) {
  plain_word& w = plain_[address];
  const auto& known = state_[t].now.clock;
  bool ordered = w.written == 0 || w.writer == t || w.written <= known[w.writer];
  if (writes) {
    for (unsigned i = 0; i < threads_; ++i)
      ordered = ordered && (i == t || w.read[i] == 0 || w.read[i] <= known[i]);
    w.writer = t;
    w.written = known[t] + 1;
  } else {
    w.read[t] = known[t] + 1;
  }
  return ordered;
}

void memory::forget(const void* address, std::size_t bytes) {
  const auto* const begin = static_cast<const char*>(address);
  if (bytes <= 8) {  // an object that begins
    places_.erase(address);
    plain_.erase(address);
    return;
  }
  const auto inside = [&](const auto& entry) {
    const auto* const a = static_cast<const char*>(entry.first);
    return a >= begin && a < begin + bytes;
  };
  std::erase_if(places_, inside);
  std::erase_if(plain_, inside);
}

}  // namespace penstock::model
