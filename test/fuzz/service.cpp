// What ranks send to penrun: frames, in pieces, by any of three ranks.
#include <vector>

#include "test/fuzz/target.hpp"
#include "tools/penrun/service.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  fuzz::input in(data, bytes);
  constexpr std::uint32_t ranks = 3;
  std::vector<penrun::member> members;
  for (std::uint32_t r = 0; r < ranks; ++r) members.emplace_back([](std::span<const std::byte>) {});
  penrun::service s(
      members, ranks, [](auto rank) { FUZZ_CHECK(rank < ranks); }, 4096);
  while (!in.empty()) {
    const std::uint32_t rank = in.byte() % ranks;
    const std::uint8_t piece = in.byte();
    std::vector<std::byte> text;
    for (std::uint8_t i = 0; i < piece && !in.empty(); ++i) text.push_back(std::byte{in.byte()});
    if (piece == 255) {
      s.give_up_if_incomplete();
    } else if (!s.take(rank, text)) {
      FUZZ_CHECK(members[rank].fault() != nullptr);
      members[rank].gone = true;
    }
    (void)s.incomplete();
    s.flush(rank);
  }
  s.give_up();
  return 0;
}
