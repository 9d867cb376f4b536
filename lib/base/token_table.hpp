// Names objects of this process by words that go to other processes and come back: what comes back
// is looked up, and never used as an address. A token that was taken, or was never given, names
// nothing.
//
//   token: generation << 32 | index       blocks_[index / 256]->of[index % 256]: generation, object
//
// A generation is odd while its slot names an object, and never comes twice (but after 2^31 names
// of one slot). Who with whom: any threads name, find and take. Effect: the store of the generation
// (N1), its compare-and-swap in take (N2). Blocks are never freed before the table is, so a stalled
// thread holds up no other one. It allocates when more objects than ever before have names; where
// there is no memory, or a quarter of a million have names, name() answers 0.
#pragma once

#include <atomic>
#include <cstdint>
#include <new>

#include "lib/base/index_pool.hpp"

namespace penstock {

template <class T>
class token_table {
 public:
  token_table() = default;
  ~token_table() {
    for (auto& b : blocks_) delete b.load(std::memory_order_relaxed);
  }
  token_table(const token_table&) = delete;
  token_table& operator=(const token_table&) = delete;

  /// The token of x, until take(); 0: there is none.
  [[nodiscard]] std::uint64_t name(T& x) noexcept {
    for (std::uint32_t b = 0; b < most_blocks; ++b) {
      block* const at = block_at(b);
      if (at == nullptr) return 0;
      const auto i = at->free.take();
      if (!i) continue;
      slot& s = at->of[*i];
      s.object.store(&x, std::memory_order_relaxed);
      const std::uint32_t g = s.generation.load(std::memory_order_relaxed) + 1;
      // N1 name  release generation  -> N2: the object
      s.generation.store(g, std::memory_order_release);
      return std::uint64_t{g} << 32 | (b * block_slots + *i);
    }
    return 0;
  }
  /// The object of a token; null: it names none.
  [[nodiscard]] T* find(std::uint64_t token) const noexcept {
    slot* const s = slot_of(token);
    // N2 find  acquire generation  <- N1
    return s != nullptr && s->generation.load(std::memory_order_acquire) == token >> 32
               ? s->object.load(std::memory_order_relaxed)
               : nullptr;
  }
  /// The same, once: the token names nothing after that.
  T* take(std::uint64_t token) noexcept {
    slot* const s = slot_of(token);
    if (s == nullptr) return nullptr;
    T* const x = find(token);
    auto g = static_cast<std::uint32_t>(token >> 32);
    // The next holder of the slot sees it free by the pool's order. relaxed: it claims the slot
    // only
    if (x == nullptr || !s->generation.compare_exchange_strong(g, g + 1, std::memory_order_relaxed))
      return nullptr;
    const auto index = static_cast<std::uint32_t>(token);
    blocks_[index / block_slots].load(std::memory_order_relaxed)->free.give(index % block_slots);
    return x;
  }

 private:
  static constexpr std::uint32_t block_slots = 256, most_blocks = 1024;
  struct slot {
    std::atomic<std::uint32_t> generation{0};
    std::atomic<T*> object{nullptr};
  };
  struct block {
    index_pool<thread_mode::par> free{block_slots};
    slot of[block_slots];
  };

  // The block, which is made if there is none.
  block* block_at(std::uint32_t b) noexcept {
    // B2 look  acquire blocks_  <- B1
    block* at = blocks_[b].load(std::memory_order_acquire);
    if (at != nullptr) return at;
    auto* const made = new (std::nothrow) block;
    if (made == nullptr) return nullptr;
    // B1 made  release blocks_  -> B2, B3: its slots
    if (blocks_[b].compare_exchange_strong(at, made, std::memory_order_acq_rel,
                                           std::memory_order_acquire))
      return made;
    delete made;  // another thread was first
    return at;
  }
  slot* slot_of(std::uint64_t token) const noexcept {
    const auto index = static_cast<std::uint32_t>(token);
    if ((token >> 32 & 1) == 0 || index >= block_slots * most_blocks) return nullptr;
    // B3 find  acquire blocks_  <- B1
    block* const b = blocks_[index / block_slots].load(std::memory_order_acquire);
    return b == nullptr ? nullptr : &b->of[index % block_slots];
  }

  std::atomic<block*> blocks_[most_blocks] = {};
};

}  // namespace penstock
