// What a thread does that finds another one inside an owner (owner.hpp) and need not wait: it
// leaves an object behind in a list (hand_over.hpp), and the thread inside sees to the object when
// it leaves. The ends of the engine's queues use it.
//
// Who with whom: any threads. Each object is seen to once, by a thread inside, before a thread that
// leaves the owner has come back from its look at asked() (O-e). The callers leave the owner by
// leave() and see_to_left(), where asked() is true. A thread that is stalled inside holds up what
// was left there, and no thread.
#pragma once

#include <cstdint>
#include <utility>

namespace penstock {

/// Called where asked() is true of o, by a thread that is not inside: sees to what the list holds,
/// each object by see_to(T&), inside o. That function owns the object, and may push it again: then
/// it stays in the list until somebody calls this again.
template <class Owner, class List, class SeeTo>
void see_to_left(Owner& o, List& list, std::uint32_t tag, SeeTo&& see_to) {
  do {
    o.heard();
    if (!o.try_enter(tag) && !o.try_enter_or_ask(tag)) return;
    for (auto* x = list.take_all(); x != nullptr;) see_to(*std::exchange(x, x->next));
    o.leave(tag);
  } while (o.asked());
}

/// Leaves x, in the list, to the thread inside o; where none is inside, the caller sees to it.
template <class Owner, class List, class T, class SeeTo>
void leave_behind(Owner& o, List& list, T& x, std::uint32_t tag, SeeTo&& see_to) {
  list.push(x);
  if (!o.try_enter_or_ask(tag)) return;
  o.leave(tag);
  see_to_left(o, list, tag, std::forward<SeeTo>(see_to));
}

}  // namespace penstock
