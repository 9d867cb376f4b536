// The whole program's heap, where the program has asked for that by linking or preloading
// libpenstock-heap: malloc's memory then lies in one region whose pages never go back to the
// kernel. This class keeps the registrations of that region with one device. A chunk is registered
// when memory in it is first transferred, and stays registered. So put, get and Long find the
// registration of any malloc'ed address by an array access. The malloc side is program_malloc.cpp,
// of which this class knows one function.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "memreg/registrar.hpp"

namespace penstock::memreg {

/// Every call but create and the destructor: any thread, several at once.
class program_heap {
 public:
  /// Null where malloc is not libpenstock-heap's. The device must outlive it.
  static std::unique_ptr<program_heap> create(registrar& device);
  ~program_heap();
  program_heap(const program_heap&) = delete;
  program_heap& operator=(const program_heap&) = delete;

  /// The registration of [at, at+bytes); bytes is reduced to what lies in one chunk. Null: `at` is
  /// not malloc'ed memory, or the device refused to register its chunk. About 2 ns, except for the
  /// first time in a chunk.
  const registration* find(const void* at, std::size_t& bytes) noexcept {
    const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(at) - base_;
    if (offset >= bytes_) return nullptr;
    chunk& c = chunks_[offset / chunk_bytes_];
    // H4 program  acquire there  <- H3: the registration can be read
    if (!c.there.load(std::memory_order_acquire) && !registered(c, offset / chunk_bytes_))
      return nullptr;
    const std::size_t left = chunk_bytes_ - offset % chunk_bytes_;
    if (bytes > left) bytes = left;
    return &c.keys;
  }

 private:
  struct chunk {
    std::atomic<bool> there{false};
    bool refused = false;  // under lock_
    registration keys;
  };
  explicit program_heap(registrar& device) noexcept : device_(device) {}
  bool registered(chunk& c, std::size_t index) noexcept;

  registrar& device_;
  std::uintptr_t base_ = 0;
  std::size_t bytes_ = 0, chunk_bytes_ = 1;
  std::unique_ptr<chunk[]> chunks_;
  std::mutex lock_;
};

}  // namespace penstock::memreg

/// A function of libpenstock-heap: where malloc's memory lies. False: in no region of its own.
extern "C" bool penstock_program_memory(std::uintptr_t* base, std::size_t* bytes,
                                        std::size_t* chunk_bytes) noexcept;
