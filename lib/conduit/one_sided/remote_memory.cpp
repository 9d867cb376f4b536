// The C++ interface's put and get (penstock/rma.hpp) for memory that is not mapped, or not yet, and
// their handles.
#include "penstock/heap.hpp"
#include "penstock/rma.hpp"

#include <new>

#include "lib/base/assert.hpp"
#include "lib/base/log.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/one_sided/remote_memory_inl.hpp"
#include "lib/conduit/one_sided/rma.hpp"

namespace penstock::PENSTOCK_ABI {
namespace {

conduit::reuse as_reuse(source_reuse r) noexcept {
  return r == source_reuse::on_return ? conduit::reuse::on_return : conduit::reuse::on_completion;
}

}  // namespace

remote_memory::remote_memory(endpoint& ep) noexcept
    : engine_(&ep.internals()),
      windows_(engine_->one_sided().windows()),
      size_(windows_ != nullptr ? engine_->size() : 0) {}

status remote_memory::put_slow(rank_id to, void* dest, std::span<const std::byte> src) noexcept {
  auto& t = engine_->one_sided();
  conduit::op_counter c{0};
  const status s = t.put(to, dest, src.data(), src.size(), conduit::reuse::on_completion, c);
  t.settle(c);
  return s;
}

status remote_memory::get_slow(std::span<std::byte> dest, rank_id from, const void* src) noexcept {
  auto& t = engine_->one_sided();
  conduit::op_counter c{0};
  const status s = t.get(dest.data(), from, src, dest.size(), c);
  t.settle(c);
  return s;
}

operation remote_memory::put_nb_slow(rank_id to, void* dest, std::span<const std::byte> src,
                                     source_reuse r) noexcept {
  return start([&](conduit::op_counter& c) {
    return engine_->one_sided().put(to, dest, src.data(), src.size(), as_reuse(r), c);
  });
}
operation remote_memory::get_nb_slow(std::span<std::byte> dest, rank_id from,
                                     const void* src) noexcept {
  return start([&](conduit::op_counter& c) {
    return engine_->one_sided().get(dest.data(), from, src, dest.size(), c);
  });
}
operation remote_memory::set_nb(rank_id to, void* dest, std::byte value,
                                std::size_t bytes) noexcept {
  if (std::byte* const here = reach(to, dest, bytes); here != nullptr && bytes != 0) {
    std::memset(here, std::to_integer<int>(value), bytes);
    // release: who learns of the set by a word that this thread writes next sees its bytes
    std::atomic_thread_fence(std::memory_order_release);
    return {};
  }
  return start([&](conduit::op_counter& c) {
    return engine_->one_sided().set(to, dest, std::to_integer<int>(value), bytes, c);
  });
}

status remote_memory::put_nbi_slow(rank_id to, void* dest, std::span<const std::byte> src,
                                   source_reuse r) noexcept {
  auto& t = engine_->one_sided();
  return t.put(to, dest, src.data(), src.size(), as_reuse(r), t.my_ops().puts());
}
status remote_memory::get_nbi_slow(std::span<std::byte> dest, rank_id from,
                                   const void* src) noexcept {
  auto& t = engine_->one_sided();
  return t.get(dest.data(), from, src, dest.size(), t.my_ops().gets());
}
status remote_memory::set_nbi(rank_id to, void* dest, std::byte value, std::size_t bytes) noexcept {
  auto& t = engine_->one_sided();
  return t.set(to, dest, std::to_integer<int>(value), bytes, t.my_ops().puts());
}

status remote_memory::wait_implicit(bool puts, bool gets) noexcept {
  auto& t = engine_->one_sided();
  const conduit::transfer_ops& mine = t.my_ops();
  if (puts)
    if (const status s = t.wait(mine.standing_puts()); s != status::ok) return s;
  return gets ? t.wait(mine.standing_gets()) : status::ok;
}

status remote_memory::try_implicit(bool puts, bool gets) noexcept {
  auto& t = engine_->one_sided();
  const conduit::transfer_ops& mine = t.my_ops();
  const auto complete = [&] {
    return (!puts || t.done(mine.standing_puts())) && (!gets || t.done(mine.standing_gets()));
  };
  if (complete()) return status::ok;
  if (const status s = engine_->poll(); is_failure(s)) return s;
  return complete() ? status::ok : status::pending;
}

bool remote_memory::begin_region() noexcept {
  conduit::transfer_ops& mine = engine_->one_sided().my_ops();
  if (mine.region != nullptr) return false;
  mine.region = &mine.take();
  return true;
}

operation remote_memory::end_region() noexcept {
  conduit::transfer_ops& mine = engine_->one_sided().my_ops();
  if (mine.region == nullptr) return operation(status::bad_arguments);
  conduit::transfer_op& op = *std::exchange(mine.region, nullptr);
  if (conduit::transfers::done(op.pending)) {
    mine.give(op, op.owner);
    return {};
  }
  return operation(*engine_, op, op.generation, status::ok);
}

// ---- registered memory ----

void* detail::heap_allocate(conduit::engine& e, memreg::heap_maker make, std::size_t bytes,
                            std::size_t align) noexcept {
  const auto h = e.one_sided().heap(make);
  void* const p = h ? (*h)->allocate(bytes, align) : nullptr;
  if (p == nullptr) {
    const failure why = h ? (*h)->last_failure() : h.error();
    log(log_level::error, "registered heap: %s", why.message().c_str());
  }
  return p;
}
void detail::heap_deallocate(conduit::engine& e, memreg::heap_maker make, void* p) noexcept {
  if (const auto h = e.one_sided().heap(make); h) (*h)->deallocate(p);
}

// ---- handles ----

status operation::sync(bool wait) noexcept {
  auto& t = engine_->one_sided();
  PENSTOCK_ASSERT(op_->generation, ==, generation_);
  if (wait) {
    if (const status s = t.wait(op_->pending); s != status::ok) return s;
  } else if (!conduit::transfers::done(op_->pending)) {
    if (const status s = engine_->poll(); is_failure(s)) return s;
    if (!conduit::transfers::done(op_->pending)) return status::pending;
  }
  conduit::transfer_op& op = *std::exchange(op_, nullptr);
  t.give(op);
  return result_;
}

void operation::finish() noexcept {
  const conduit::no_limit waits_on;
  (void)sync(true);
}

status wait_all(std::span<operation> ops) noexcept {
  status first = status::ok;
  for (operation& o : ops)
    if (const status s = o.wait(); first == status::ok) first = s;
  return first;
}

status try_all(std::span<operation> ops) noexcept {
  status answer = status::ok;
  for (operation& o : ops) {
    const status s = o.try_wait();
    if (is_failure(s)) return s;
    if (s == status::pending) answer = s;
  }
  return answer;
}

status try_some(std::span<operation> ops) noexcept {
  bool any = false, some = false;
  for (operation& o : ops) {
    if (!o.in_flight()) continue;
    any = true;
    const status s = o.try_wait();
    if (is_failure(s)) return s;
    some = some || s == status::ok;
  }
  return some || !any ? status::ok : status::pending;
}

status wait_some(std::span<operation> ops) noexcept {
  status s = try_some(ops);
  if (s != status::pending) return s;
  const auto of =
      std::find_if(ops.begin(), ops.end(), [](const operation& o) { return o.op_ != nullptr; });
  const conduit::long_wait named(of->engine_->waits(), conduit::wait_for::transfers);
  for (unsigned empty = 0; s == status::pending; s = try_some(ops))
    for (const operation& o : ops)
      if (o.op_ != nullptr) {
        if (o.engine_->one_sided().look()) break;
        if (const status w = o.engine_->limited_step(empty, !o.engine_->one_sided().everything());
            w != status::ok)
          return w;
        break;
      }
  return s;
}

}  // namespace penstock::PENSTOCK_ABI
