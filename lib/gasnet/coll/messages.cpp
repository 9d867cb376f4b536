#include "lib/gasnet/coll/messages.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "lib/base/hand_over.hpp"
#include "lib/base/immortal.hpp"
#include "lib/base/log.hpp"
#include "lib/base/token_table.hpp"
#include "lib/gasnet/reach.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace coll {
namespace {

// The messages that have come.
hand_over<arrival> inbox;

// A place to which another process sends bytes, in several messages.
struct wanted_bytes {
  std::byte* to;
  std::size_t bytes;
  op_counter* counter;
  std::atomic<std::uint32_t> left;  // messages that have not come
};
// Other processes know loans and places by tokens only. Never destroyed: handlers may still run
// while exit() does.
struct names {
  token_table<loan> loans;
  token_table<wanted_bytes> places;
};
names& named() noexcept {
  static immortal<names> all;
  return all.value;
}
std::uint64_t must_name(std::uint64_t token) {
  if (token == 0) fatal(1, "out of memory for the messages of collectives");
  return token;
}
[[noreturn]] void no_sense(std::uint32_t rank) {
  fatal(1, "a message of a collective from rank %u names what this process does not know", rank);
}

arrival* make_arrival(std::size_t payload) {
  void* const at = ::operator new(sizeof(arrival) + payload, std::nothrow);
  if (at == nullptr) fatal(1, "out of memory for the messages of collectives");
  return new (at) arrival;
}

void must(status s) {
  if (s != status::ok) [[unlikely]]
    failed("a collective operation", s);
}

// The argument words of a message, which are written and read in order.
struct words {
  std::uint32_t at[16] = {};
  unsigned n = 0;
  void add(std::uint32_t w) noexcept { at[n++] = w; }
  void add_long(std::uint64_t w) noexcept {
    add(static_cast<std::uint32_t>(w));
    add(static_cast<std::uint32_t>(w >> 32));
  }
};
struct reader {
  const std::uint32_t* at;
  std::uint32_t word() noexcept { return *at++; }
  std::uint64_t two() noexcept {
    const std::uint64_t low = word();
    return low | std::uint64_t{word()} << 32;
  }
};
template <class T>
std::uint64_t number_of(T* p) noexcept {
  return reinterpret_cast<std::uintptr_t>(p);
}

constexpr unsigned envelope_words = 7, offer_words = 13, wanted_words = 8, bytes_words = 4;

words begin(const envelope& e) noexcept {
  words w;
  w.add_long(e.team);
  w.add(e.number);
  w.add(e.lane << 23 | e.tag);
  w.add(e.from);
  w.add_long(e.call);
  return w;
}
void read_envelope(reader& r, arrival& a) noexcept {
  a.team = r.two();
  a.number = r.word();
  const std::uint32_t w = r.word();
  a.lane = w >> 23 & 1;
  a.tag = w & 0x7fffff;
  a.from = r.word();
  a.call = r.two();
}

void short_to(std::uint32_t to, std::uint8_t handler, const words& w) {
  must(self.engine->request_short(to, handler, w.at, w.n));
}

// ---- handlers ----

void data_came(const std::uint32_t* args, const std::byte* payload, std::size_t bytes) {
  arrival* const a = make_arrival(bytes);
  reader r{args};
  read_envelope(r, *a);
  a->bytes = bytes;
  if (bytes != 0) std::memcpy(a->payload(), payload, bytes);
  inbox.push(*a);
}
void on_data(void*, token&, const std::uint32_t* args, std::byte* payload, std::size_t bytes) {
  data_came(args, payload, bytes);
}
void on_nothing(void*, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  data_came(args, nullptr, 0);
}
void on_offer(void*, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  arrival* const a = make_arrival(0);
  reader r{args};
  read_envelope(r, *a);
  a->type = arrival::type::offer;
  a->address = r.two();
  a->bytes = r.two();
  a->loan = r.two();
  inbox.push(*a);
}
void on_question(void*, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  arrival* const a = make_arrival(0);
  reader r{args};
  read_envelope(r, *a);
  a->type = arrival::type::question;
  inbox.push(*a);
  in_flight.fetch_add(1, std::memory_order_relaxed);  // a hint, as in kick()
}
void on_wanted(void*, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  arrival* const a = make_arrival(0);
  reader r{args};
  a->type = arrival::type::wanted;
  a->loan = r.two();
  a->address = r.two();
  a->place = r.two();
  a->from = conduit::running->source();
  a->bytes = r.two();
  inbox.push(*a);
}
// Ends a loan whose bytes have arrived, or were copied into messages.
void close(const loan& l) noexcept {
  // F1 free  release lent  -> F2 (operation.cpp): the bytes may be written again
  l.owner->lent.fetch_sub(1, std::memory_order_release);
}
void on_thanks(void*, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  const std::unique_ptr<loan> l(named().loans.take(reader{args}.two()));
  if (l == nullptr) no_sense(conduit::running->source());
  close(*l);
}
void on_bytes(void*, token&, const std::uint32_t* args, std::byte* payload, std::size_t bytes) {
  reader r{args};
  const std::uint64_t offset = r.two(), token = r.two();
  wanted_bytes* const w = named().places.find(token);
  if (w == nullptr || offset > w->bytes || bytes > w->bytes - offset)
    no_sense(conduit::running->source());
  if (bytes != 0) std::memcpy(w->to + offset, payload, bytes);
  op_counter& c = *w->counter;
  // L1 last  acq_rel left: whoever takes the place is the last that uses it
  if (w->left.fetch_sub(1, std::memory_order_acq_rel) == 1) delete named().places.take(token);
  // F1 arrived  release fetching  -> F2 (operation.cpp): the bytes are there
  c.fetch_sub(1, std::memory_order_release);
}

}  // namespace

arrival* take_arrivals() noexcept { return inbox.take_all(); }

void expect(std::uint32_t to, std::uint32_t messages, std::size_t bytes) {
  constexpr std::size_t words = envelope_words * sizeof(std::uint32_t);
  must(self.engine->expect(to, messages, std::min(bytes + words, eager_bytes)));
}

void send_data(std::uint32_t to, const envelope& e, const std::byte* from, std::size_t bytes) {
  const words w = begin(e);
  if (bytes == 0) return short_to(to, on_coll_nothing, w);
  must(self.engine->request_medium(to, on_coll_data, w.at, w.n, from, bytes));
}

void send_offer(std::uint32_t to, const envelope& e, loan& l) {
  constexpr std::size_t most_pieces = 8;  // a path is kept busy by fewer
  // The offer itself takes a credit, too, which may not be back before the last piece goes.
  if (!reachable(self.engine->rank(), number_of(l.at), l.bytes))
    expect(to,
           static_cast<std::uint32_t>(
               std::min((l.bytes + eager_bytes - 1) / eager_bytes, most_pieces)) +
               1,
           eager_bytes);
  words w = begin(e);
  w.add_long(number_of(l.at));
  w.add_long(l.bytes);
  w.add_long(must_name(named().loans.name(l)));
  short_to(to, on_coll_offer, w);
}

void send_question(std::uint32_t to, const envelope& e) {
  short_to(to, on_coll_question, begin(e));
}

void send_thanks(std::uint32_t to, std::uint64_t lent) {
  words w;
  w.add_long(lent);
  short_to(to, on_coll_thanks, w);
}

void want(std::uint32_t from, const arrival& a, std::byte* to, std::size_t bytes, op_counter& c) {
  // The sender may send the bytes in this many Mediums; otherwise its last message counts for all.
  const auto pieces = static_cast<std::uint32_t>((bytes + eager_bytes - 1) / eager_bytes);
  c.fetch_add(pieces, std::memory_order_relaxed);
  words w;
  w.add_long(a.loan);
  w.add_long(number_of(to));
  auto* const place = new (std::nothrow) wanted_bytes{to, bytes, &c, {pieces}};
  w.add_long(must_name(place == nullptr ? 0 : named().places.name(*place)));
  w.add_long(bytes);
  short_to(from, on_coll_wanted, w);
}

void give(const arrival& a, std::uint32_t to) {
  const std::unique_ptr<loan> l(named().loans.take(a.loan));
  if (l == nullptr) no_sense(to);
  if (a.bytes != l->bytes) fatal(1, "rank %u wants other bytes than a collective offered", to);
  const bool put = reachable(to, a.address, l->bytes);
  if (put) {
    op_counter c{0};
    must(engine_put(to, reinterpret_cast<void*>(a.address), l->at, l->bytes,
                    conduit::reuse::on_completion, c));
    self.engine->one_sided().settle(c);
  }
  // Where the bytes have been put, the Mediums carry none, and only count down.
  for (std::size_t at = 0; at < l->bytes; at += eager_bytes) {
    words w;
    w.add_long(at);
    w.add_long(a.place);
    must(self.engine->request_medium(to, on_coll_bytes, w.at, w.n, l->at + at,
                                     put ? 0 : std::min(l->bytes - at, eager_bytes)));
  }
  close(*l);
}

bool reachable(std::uint32_t rank, std::uint64_t at, std::size_t bytes) noexcept {
  return self.everything || is_in_parts(rank, reinterpret_cast<const void*>(at), bytes);
}

void fetch(std::uint32_t from, std::byte* to, std::uint64_t at, std::size_t bytes, op_counter& c) {
  must(engine_get(to, from, reinterpret_cast<const void*>(at), bytes, c));
}

}  // namespace coll

void register_collectives(conduit::engine& e) {
  using takes = conduit::handler_entry::takes;
  using namespace coll;
  const auto add = [&e](std::uint8_t index, detail::raw_handler call, unsigned words,
                        takes payload) {
    e.add_handler(index, {.call = call,
                          .context = nullptr,
                          .words = static_cast<std::uint8_t>(words),
                          .payload = payload});
  };
  add(on_coll_data, &on_data, envelope_words, takes::payload);
  add(on_coll_nothing, &on_nothing, envelope_words, takes::nothing);
  add(on_coll_offer, &on_offer, offer_words, takes::nothing);
  add(on_coll_question, &on_question, envelope_words, takes::nothing);
  add(on_coll_wanted, &on_wanted, wanted_words, takes::nothing);
  add(on_coll_thanks, &on_thanks, 2, takes::nothing);
  add(on_coll_bytes, &on_bytes, bytes_words, takes::payload);
}

}  // namespace penstock::gasnet::PENSTOCK_ABI
