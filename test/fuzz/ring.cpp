// A ring whose memory a peer writes as it likes: what the consumer finds lies within the ring,
// however it is read.
#include <memory>
#include <new>

#include "nic/shm/ring.hpp"
#include "test/fuzz/target.hpp"

using namespace penstock::nic::shm;

namespace {

constexpr ring_geometry small{.slots = 64, .data_bytes = 4096};

struct delete_ring {
  void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{4096}); }
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  fuzz::input in(data, bytes);
  const std::unique_ptr<std::byte[], delete_ring> memory(new (std::align_val_t{4096})
                                                             std::byte[small.memory()]{});
  const ring_memory at(memory.get(), small);
  ring_rx rx(at);
  ring_tx tx(at);
  std::uint64_t position = 0;  // where this program, as an honest peer, believes the front to be
  unsigned char sum = 0;
  while (!in.empty()) {
    switch (in.byte() % 8) {
      case 0: {  // any word anywhere in the slots or behind them
        const std::size_t words = small.memory() / 8;
        const std::size_t where = in.take<std::uint16_t>() % words;
        const auto word = in.take<std::uint64_t>();
        std::memcpy(memory.get() + where * 8, &word, 8);
        break;
      }
      case 1: {  // a state that fits the front
        const auto length = in.take<std::uint16_t>();
        at.slots[position % small.slots].state.store(
            ring_slot::filled(position, length * 3u, in.byte()), std::memory_order_release);
        break;
      }
      case 2: {
        const auto n = static_cast<std::uint32_t>(in.take<std::uint16_t>() % 600);
        if (n <= small.longest() && tx.has_room(1, n))
          tx.push(1, 0, n, [n](std::byte* body, std::byte* to) {
            body[0] = std::byte{1};
            if (n != 0) std::memset(to, 2, n);
          });
        break;
      }
      case 3:
        (void)rx.follow();
        break;
      case 4:
        (void)rx.credible();
        (void)tx.intact();
        break;
      case 5:
        (void)rx.mend();
        break;
      default:
        if (const ring_rx::message m = rx.front()) {
          FUZZ_CHECK(m.data == nullptr ||
                     (m.data >= at.data && m.data + m.data_bytes <= at.data + small.data_bytes));
          sum = static_cast<unsigned char>(sum + std::to_integer<unsigned>(m.slot->body[0]));
          for (std::uint32_t i = 0; i < m.data_bytes; ++i)
            sum = static_cast<unsigned char>(sum + std::to_integer<unsigned>(m.data[i]));
          if (m.op == 255) return 0;  // the engine breaks the connection
          rx.pop(m);
          ++position;
        }
    }
  }
  static volatile unsigned char kept;
  kept = sum;
  (void)kept;
  return 0;
}
