// Changes of this process's address space, as far as they are reported. Code that unmaps, remaps,
// trims or discards pages reports it before and after: interpose.cpp for the calls of libc and of
// the client, kernel_events.hpp for what the kernel reports, an allocator's hooks. A holder of
// registrations listens, and stops using those that overlap.
//
// Why before: once the pages are gone, another thread may map the address again, and must not find
// the old registration. Why until after: a registration of neighbouring pages that is being made
// meanwhile could contain the pages that go, so a registration that overlaps a change in progress
// is not kept.
//
// The lock is a leaf: under it nothing allocates, logs, registers or calls out, because changes are
// reported from inside malloc, with malloc's locks held, and registering a region allocates.
//
// After fork the child owns none of the parent's registrations: the gate's page is wiped by the
// kernel in every child, however it was made, and everything here then does nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace penstock::firehose {

/// A listener is told of every change. It must not allocate or block; it is called under
/// changes::lock().
class change_listener {
 public:
  /// [start, end) changes: registrations that overlap it must not be used from now on.
  virtual void on_change(std::uint64_t start, std::uint64_t end) noexcept = 0;
  /// True if the listener keeps, or is about to keep, a registration that overlaps [start, end).
  [[nodiscard]] virtual bool keeps(std::uint64_t start, std::uint64_t end) noexcept = 0;

 protected:
  ~change_listener() = default;
};

namespace changes {

enum class gate : std::uint32_t {
  forked = 0,   ///< this process is a child of the one that made the page
  open = 1,     ///< lookups may hit
  pending = 2,  ///< an event of the kernel is being worked on: lookups must wait
};

/// The word that every lookup reads. It stays valid for ever after the first call; null when there
/// is no memory.
const std::atomic<gate>* gate_word() noexcept;
/// For kernel_events only.
void set_gate(gate g) noexcept;
/// True in a forked child, and before gate_word() was first called.
bool closed() noexcept;

/// The leaf lock. Also protects the listeners' tables.
std::mutex& lock() noexcept;

void add(change_listener& l);
void remove(change_listener& l) noexcept;

/// Under the lock: does a change in progress overlap [start, end)?
bool in_progress(std::uint64_t start, std::uint64_t end) noexcept;

/// Under the lock: does any listener keep a registration that overlaps [start, end)?
bool kept(std::uint64_t start, std::uint64_t end) noexcept;

/// Reports a change for as long as it lives: construct before the system call, destroy after it. No
/// allocation; keeps errno. Costs a load until the first pool is made, later the lock twice and a
/// few lookups.
class scope {
 public:
  scope(const void* addr, std::size_t bytes) noexcept;
  ~scope();
  scope(const scope&) = delete;
  scope& operator=(const scope&) = delete;

 private:
  std::uint32_t slot_;
};

/// Reports a change that has happened already, because it could not be announced before.
void happened(std::uint64_t start, std::uint64_t end) noexcept;

/// Changes reported so far, those of the whole address space included; for statistics and tests.
std::uint64_t count() noexcept;

/// How calls of libc become known: interpose.hpp sets an activator, pools call activate(). It
/// answers whether every mapping call made through libc, from libc itself too, is reported: the
/// first call puts that in place, later ones look whether it still is (a few loads). Not under the
/// lock.
using activator = bool (*)() noexcept;
void set_activator(activator a) noexcept;
bool activate() noexcept;

}  // namespace changes
}  // namespace penstock::firehose
