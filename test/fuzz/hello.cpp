// Datagrams that anybody may send to a connector: what is taken for a hello has no field that a
// connector of the job may not say, and whatever one may say is taken.
#include "lib/conduit/connecting/hello.hpp"

#include "test/fuzz/target.hpp"

using namespace penstock::conduit;

namespace {

void check(const hello& h, const hello_reader& here) {
  FUZZ_CHECK(h.magic == hello_magic && h.job == here.job);
  FUZZ_CHECK(h.from < here.size && h.from != here.rank);
  FUZZ_CHECK(h.domain < here.domains);
  for (unsigned bit = 0; bit < 8; ++bit) {
    const auto has = [bit](std::uint8_t lanes) { return (lanes >> bit & 1) != 0; };
    FUZZ_CHECK(bit < lane_count || (!has(h.made) && !has(h.bound) && !has(h.needed)));
    FUZZ_CHECK(!has(h.bound) || has(h.made));
    if (bit < lane_count && has(h.made)) FUZZ_CHECK(h.qpn[bit] < 1u << 24 && h.psn[bit] < 1u << 24);
  }
  FUZZ_CHECK(h.unused == 0);
  // Whole units, whose places an immediate can name, for four of the longest messages at least.
  FUZZ_CHECK(h.space_bytes % 64 == 0 && h.space_bytes / 64 <= 0xffff);
  FUZZ_CHECK(h.space_bytes == 0 || h.space_bytes >= 4 * penstock::limits::longest_message);
  FUZZ_CHECK(h.want < 2 && h.please < 2 && h.lowered < 2);
  FUZZ_CHECK(h.answer == vote::none || h.answer == vote::agreed || h.answer == vote::refused);
}

// A hello that a connector of the job may say.
hello sayable(fuzz::input& in, const hello_reader& here) {
  hello h;
  h.job = here.job;
  h.from = in.take<std::uint32_t>() % here.size;
  if (h.from == here.rank) h.from = (h.from + 1) % here.size;
  h.domain = static_cast<std::uint8_t>(in.byte() % here.domains);
  h.made = in.byte() & all_lanes;
  h.bound = in.byte() & h.made;
  h.needed = in.byte() & all_lanes;
  for (unsigned l = 0; l < lane_count; ++l)
    if ((h.made >> l & 1) != 0) {
      h.qpn[l] = in.take<std::uint32_t>() & 0xffffff;
      h.psn[l] = in.take<std::uint32_t>() & 0xffffff;
    }
  h.buffers_rkey = in.take<std::uint32_t>();
  h.buffers_base = in.take<std::uint64_t>();
  h.generation = in.take<std::uint32_t>();
  h.ask = in.take<std::uint32_t>();
  h.answer = static_cast<vote>(in.byte() % 3);
  h.want = in.byte() & 1, h.please = in.byte() & 1, h.lowered = in.byte() & 1;
  constexpr std::uint32_t least = (4 * penstock::limits::longest_message + 255) / 64;
  if ((in.byte() & 1) != 0) h.space_bytes = 64 * (least + in.byte());
  h.block_rkey = in.take<std::uint32_t>();
  h.block_base = in.take<std::uint64_t>();
  return h;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  fuzz::input in(data, bytes);
  const std::uint8_t how = in.byte();
  hello_reader here;
  here.job = 0x706e73746f636b31;
  here.size = 2 + in.byte() % 7u;
  here.rank = in.byte() % here.size;
  here.domains = 1 + in.byte() % 3u;
  std::byte datagram[sizeof(hello) + 16] = {};
  std::size_t n = 0;
  if (how % 4 == 0) {  // any bytes
    const std::string_view text = in.rest().substr(0, sizeof datagram);
    n = text.size();
    if (n != 0) std::memcpy(datagram, text.data(), n);
  } else {
    const hello said = sayable(in, here);
    n = sizeof said;
    std::memcpy(datagram, &said, n);
    const auto heard = hello_in(datagram, n, here);
    FUZZ_CHECK(heard && std::memcmp(&*heard, &said, sizeof said) == 0);
    for (; !in.empty(); n = std::min(n, sizeof datagram)) {  // some of them changed
      const std::uint8_t at = in.byte();
      if (at % 16 == 15)
        n += in.byte() % 16 - std::size_t{8};
      else
        datagram[at % sizeof said] ^= std::byte{in.byte()};
    }
  }
  if (const auto heard = hello_in(datagram, n, here)) {
    FUZZ_CHECK(n == sizeof(hello));
    check(*heard, here);
  }
  return 0;
}
