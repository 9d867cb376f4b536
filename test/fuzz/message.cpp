// Messages whose bytes a peer has written, packed or in a ring's slot: what their handler is called
// with lies in the message or in the segment, the short ways take nothing that the long one does
// not, and what a sender writes is what its target reads.
#include <memory>
#include <vector>

#include "lib/conduit/message/delivery.hpp"
#include "test/fuzz/target.hpp"

using namespace penstock::conduit;

namespace {

constexpr std::size_t segment_bytes = 4096;
std::byte segment[segment_bytes];
unsigned sum = 0;  // of all bytes that a handler may read

void no_handler(void*, penstock::token&, const std::uint32_t*, std::byte*, std::size_t) {}

const handler_table& handlers() {
  static const handler_table made = [] {
    handler_table t;
    using takes = handler_entry::takes;
    std::uint8_t at = 0;
    for (const std::uint8_t words : {any_args, std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{3},
                                     std::uint8_t{12}, std::uint8_t{13}, std::uint8_t{16}})
      for (const auto payload : {takes::either, takes::nothing, takes::payload}) {
        handler_entry e;
        e.call = &no_handler;
        e.words = words;
        e.payload = payload;
        t.own[at] = e;
        e.allow_plain();
        t.user[at++] = e;
      }
    return t;  // those behind are not registered
  }();
  return made;
}

// Exactly n bytes, so that AddressSanitizer sees what lies beyond.
struct block {
  explicit block(std::size_t n) : bytes(n), at(new std::byte[n]) {}
  std::size_t bytes;
  std::unique_ptr<std::byte[]> at;
  [[nodiscard]] bool has(const std::byte* from, std::size_t n) const {
    return n == 0 || (from >= at.get() && from <= at.get() + bytes &&
                      n <= static_cast<std::size_t>(at.get() + bytes - from));
  }
};

void read(const std::byte* from, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) sum += std::to_integer<unsigned>(from[i]);
}

// One of the blocks has all of what m names.
void check(const delivery& m, const wire::header& h, const block& a, const block& b) {
  const auto within = [&](const std::byte* from, std::size_t n) {
    FUZZ_CHECK(a.has(from, n) || b.has(from, n));
    read(from, n);
  };
  FUZZ_CHECK(m.to == &handlers().of(h.handler, h.system()) && m.to->call != nullptr);
  FUZZ_CHECK(h.nargs() <= penstock::max_args);
  within(m.at.fixed, 4 * h.nargs());
  switch (h.kind()) {
    case wire::kind::short_:
      FUZZ_CHECK(m.bytes == 0 && m.packed == nullptr);
      break;
    case wire::kind::medium:
      FUZZ_CHECK(m.bytes <= max_eager && m.packed == nullptr);
      within(m.at.payload, m.bytes);
      break;
    case wire::kind::long_:
    case wire::kind::packed_long:
      if (m.bytes == 0) break;
      FUZZ_CHECK(m.at.payload >= segment && m.bytes <= segment_bytes &&
                 m.at.payload <= segment + segment_bytes - m.bytes);
      FUZZ_CHECK((m.packed != nullptr) == (h.kind() == wire::kind::packed_long));
      if (m.packed != nullptr) within(m.packed, m.bytes);
      break;
    case wire::kind::credits:
    case wire::kind::system:
    case wire::kind::large:
      FUZZ_CHECK(false);
  }
}

// A message of which `whole` says that the parts lie in the blocks.
void take(const wire::header& h, codec::parts at, const block& a, const block& b) {
  const std::uint64_t word = wire::word_of(h);
  const delivery m = deliver(handlers(), h, at, 0, segment);
  if (m.to != nullptr) check(m, h, a, b);
  const bool plain_short = handlers().plain(wire::kind::short_, word);
  const bool plain_medium = handlers().plain(wire::kind::medium, word);
  FUZZ_CHECK(handlers().plain(h) == (plain_short || plain_medium));
  if (plain_short) FUZZ_CHECK(m.to != nullptr && h.kind() == wire::kind::short_ && !h.system());
  if (plain_medium && h.length <= max_eager)
    FUZZ_CHECK(m.to != nullptr && h.kind() == wire::kind::medium && m.bytes == h.length &&
               m.at.payload == at.payload);
  if (plain_short || plain_medium) {  // in a slot, its words are found without a look at its size
    const auto l = codec::in_slot::fitting(h.nargs(), wire::carried_bytes(h));
    const codec::in_slot other(h);
    FUZZ_CHECK(l.fixed_in_body && other.fixed_in_body && l.payload_at == other.payload_at &&
               l.payload_in_body == other.payload_in_body && l.data_bytes == other.data_bytes);
  }
}

void fill(fuzz::input& in, block& b) {
  for (std::size_t i = 0; i < b.bytes; ++i) b.at[i] = std::byte{in.byte()};
}

// Makes the place of a Long one near the segment.
void aim(const wire::header& h, std::byte* fixed) {
  if (h.kind() != wire::kind::long_ && h.kind() != wire::kind::packed_long) return;
  wire::long_block lb;
  std::memcpy(&lb, fixed, sizeof lb);
  lb.dest = reinterpret_cast<std::uintptr_t>(segment) + lb.dest % (2 * segment_bytes) - 64;
  std::memcpy(fixed, &lb, sizeof lb);
}

void received(fuzz::input& in, bool in_slot, bool aimed) {
  const auto h = in.take<wire::header>();
  if (in_slot) {
    const codec::in_slot l(h);
    if (l.data_bytes > 70'000) FUZZ_CHECK(false);  // longer than any length that a header says
    block body(penstock::limits::slot_body), data(l.data_bytes);
    fill(in, body);
    fill(in, data);
    const codec::parts at = l.find(body.at.get(), data.at.get());
    if (aimed) aim(h, at.fixed);
    return take(h, at, body, data);
  }
  block all(sizeof h + in.take<std::uint16_t>() % 1024u), none(0);
  std::memcpy(all.at.get(), &h, sizeof h);
  for (std::size_t i = sizeof h; i < all.bytes; ++i) all.at[i] = std::byte{in.byte()};
  const codec::packed l(h);
  if (l.bytes > all.bytes) return;
  const codec::parts at = l.find(all.at.get());
  if (aimed) aim(h, at.fixed);
  take(h, at, all, none);
}

// What a sender says, its target reads, in either layout.
void sent(fuzz::input& in) {
  std::uint32_t args[16];
  outgoing m;
  m.kind = static_cast<wire::kind>(in.byte() % 4);
  m.handler = in.byte() % 24;
  m.flags = static_cast<std::uint8_t>(in.byte() << wire::client_flags_shift);
  m.nargs = in.byte() % 17;
  for (std::uint32_t& a : args) a = in.take<std::uint32_t>();
  m.args = args;
  const std::size_t bytes = in.take<std::uint16_t>() % (max_eager + 1u);
  std::vector<std::byte> payload(bytes);
  for (std::byte& b : payload) b = std::byte{in.byte()};
  m.payload = payload.data();
  m.bytes = m.kind == wire::kind::short_ ? 0 : std::min(bytes, segment_bytes);
  m.dest = segment + in.take<std::uint16_t>() % (segment_bytes - m.bytes + 1);
  if (handlers().check(m) != penstock::status::ok) return;
  const auto same = [&](const wire::header& h, codec::parts at, const block& a, const block& b) {
    const delivery d = deliver(handlers(), h, at, 0, segment);
    FUZZ_CHECK(d.to != nullptr && d.to == &handlers().user[m.handler]);
    check(d, h, a, b);
    FUZZ_CHECK(h.kind() == m.kind && h.nargs() == m.nargs && h.flags == m.flags);
    FUZZ_CHECK(m.nargs == 0 || std::memcmp(d.at.fixed, args, 4 * m.nargs) == 0);
    FUZZ_CHECK(d.bytes == m.bytes);
    const bool travels = m.carried() != 0;
    const std::byte* const came = d.packed != nullptr ? d.packed : d.at.payload;
    if (travels) FUZZ_CHECK(std::memcmp(came, payload.data(), m.bytes) == 0);
    if (m.kind == wire::kind::long_ || m.kind == wire::kind::packed_long)
      FUZZ_CHECK(d.at.payload == m.dest);
  };
  {
    const codec::packed l(m);
    block all(l.bytes), none(0);
    l.write<codec::words::exact>(m, {}, all.at.get());
    wire::header h;
    std::memcpy(&h, all.at.get(), sizeof h);
    FUZZ_CHECK(codec::packed(h).bytes == l.bytes);
    same(h, codec::packed(h).find(all.at.get()), all, none);
  }
  const codec::in_slot l(m);
  block body(penstock::limits::slot_body), data(l.data_bytes);
  l.write<codec::words::exact>(m, body.at.get(), data.at.get());
  const wire::header h = codec::describe(m, {});
  FUZZ_CHECK(codec::in_slot(h).data_bytes == l.data_bytes);
  same(h, codec::in_slot(h).find(body.at.get(), data.at.get()), body, data);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  fuzz::input in(data, bytes);
  const std::uint8_t how = in.byte();
  if (how % 4 == 3)
    sent(in);
  else
    received(in, how % 4 == 0, (how & 4) != 0);
  static volatile unsigned kept;
  kept = sum;
  (void)kept;
  return 0;
}
