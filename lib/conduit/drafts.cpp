// The engine's side of drafts.hpp, and the C++ interface's (penstock/reserve.hpp).
#include "lib/conduit/drafts.hpp"

#include "lib/base/assert.hpp"
#include "lib/base/log.hpp"
#include "lib/conduit/engine.hpp"
#include "penstock/reserve.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

// The last draft that this thread has let go, so that a thread that sends one message after the
// other allocates once.
thread_local constinit draft* kept __attribute__((tls_model("initial-exec"))) = nullptr;

// Deletes the kept draft when the thread ends. Only the code that makes a draft touches this
// object, since each access to it has a cost.
struct kept_end {
  bool armed = false;
  ~kept_end() { delete std::exchange(kept, nullptr); }
};
thread_local kept_end end_of_kept;

// Why d is not sent as m, or null.
const char* objection(const draft& d, const outgoing& m) noexcept {
  if (d.tag != my_tag()) return "another thread has reserved it";
  if (m.bytes > d.most) return "more bytes than are reserved";
  if (m.kind != d.kind || m.nargs != d.nargs || (d.dest != nullptr && m.dest != d.dest))
    return "of another kind, with other arguments, or for another place, than was reserved";
  return nullptr;
}

void give_chunk(ways& w, core& c, draft& d) noexcept {
  if (d.chunk == draft::no_chunk) return;
  peer& p = c.channel(d.to, d.tag);
  w.of(p, [&](auto& path) { path.cancel(p, d); });
}

}  // namespace

draft* draft::take() noexcept {
  if (draft* const d = std::exchange(kept, nullptr)) [[likely]]
    return d;
  end_of_kept.armed = true;
  return new (std::nothrow) draft;
}

void draft::let_go(draft& d) noexcept {
  if (d.large) [[unlikely]]
    d.large.reset();
  if (kept == nullptr) [[likely]]
    kept = &d;
  else
    delete &d;
}

draft* drafts::reserve(rank_id to, const outgoing& m, std::size_t least, std::size_t most,
                       status& why) noexcept {
  const bool is_long = m.kind == wire::kind::long_;
  const std::size_t limit = is_long ? max_long : std::size_t{max_medium};
  why = status::ok;
  if (running != nullptr || to >= core_.size() || !core_.has_started() || most < least ||
      m.nargs > max_args || least > limit) [[unlikely]] {
    why = running != nullptr                   ? status::in_handler
          : to >= core_.size()                 ? status::bad_rank
          : !core_.has_started()               ? engine::over()
          : most < least || m.nargs > max_args ? status::bad_arguments
                                               : status::too_long;
    return nullptr;
  }
  const std::uint32_t tag = my_tag();
  peer& p = core_.begun(core_.channel(to, tag));
  most = std::min(most, limit);
  if (is_long && m.dest != nullptr) {
    const std::span<std::byte> there = engine_.segment_of(to);
    const auto at =
        reinterpret_cast<std::uintptr_t>(m.dest) - reinterpret_cast<std::uintptr_t>(there.data());
    if (at > there.size() || least > there.size() - at) {
      why = status::out_of_segment;
      return nullptr;
    }
    most = std::min(most, there.size() - at);
  }
  draft* const d = draft::take();
  if (d == nullptr) return nullptr;
  d->to = to;
  d->kind = m.kind;
  d->nargs = m.nargs;
  d->dest = is_long ? m.dest : nullptr;
  d->tag = tag;
  d->payload = nullptr;
  d->buffer = large_buffers::none;
  if (to != core_.rank() && !is_long && most > max_eager) large_.reserve(*d, most);
  if (to != core_.rank() && d->payload == nullptr)
    ways_.of(p, [&](auto& path) { path.reserve(p, *d, least, most); });
  if (d->payload == nullptr && !d->use_own(least, most)) [[unlikely]] {
    draft::let_go(*d);
    why = status::too_long;
    return nullptr;
  }
  return d;
}

status drafts::commit(draft& d, outgoing m, bool wait) noexcept {
  if (const char* const no = objection(d, m); no != nullptr) [[unlikely]] {
    log(log_level::error, "commit of a message to rank %u: %zu bytes of %zu: %s", d.to, m.bytes,
        d.most, no);
    return m.bytes > d.most ? status::too_long : status::bad_arguments;
  }
  m.payload = d.payload;
  m.written = &d;
  m.buffer = d.buffer;
  const status s = wait ? engine_.request(d.to, m) : engine_.try_request(d.to, m);
  if (s == status::ok) [[likely]] {
    give_chunk(ways_, core_, d);  // which it still has if it went by rendezvous
    if (d.buffer != large_buffers::none) [[unlikely]]
      large_.end(d, !m.is_large());
    draft::let_go(d);
  }
  return s;
}

void drafts::find_place(token_state& t, const outgoing& m, reply_place& at,
                        std::size_t most) noexcept {
  if (m.kind == wire::kind::medium && most > max_eager)
    large_.reserve(t, at);
  else
    ways_.of(*t.from, [&](auto& path) { path.reserve(t, m, at, most); });
}

reply_place reply_place::find(token_state& t, const outgoing& m, std::size_t most) noexcept {
  reply_place at;
  // A process answers itself from the client's memory; reply() names what is wrong.
  if (!t.request || t.replied || running != &t || t.from == nullptr) return at;
  t.engine->in_place().find_place(t, m, at, most);
  // A client may store any type there.
  if (reinterpret_cast<std::uintptr_t>(at.payload) % alignof(std::max_align_t) != 0)
    at.payload = nullptr;
  PENSTOCK_ASSERT(at.buffer == large_buffers::none || at.payload != nullptr, ==, true);
  at.most = most;
  return at;
}

void reply_place::drop(engine& e, bool taken) noexcept {
  if (buffer != large_buffers::none && !taken) e.in_place().give_place(*this);
  *this = {};
}

void drafts::cancel(draft& d) noexcept {
  if (d.buffer != large_buffers::none) large_.end(d, true);
  give_chunk(ways_, core_, d);
  if (d.tag == my_tag())
    draft::let_go(d);
  else
    delete &d;  // this thread may never have made one: nothing of it would free what it keeps
}

}  // namespace penstock::conduit::PENSTOCK_ABI

namespace penstock::PENSTOCK_ABI::detail {

reserved::reserved(endpoint& ep, rank_id to, std::uint8_t handler, unsigned nargs, bool is_long,
                   std::size_t least, std::size_t most, void* dest) noexcept
    : engine_(&ep.internals()), handler_(handler) {
  conduit::outgoing m;
  m.kind = is_long ? conduit::wire::kind::long_ : conduit::wire::kind::medium;
  m.nargs = static_cast<std::uint8_t>(nargs);
  m.dest = dest;
  draft_ = engine_->in_place().reserve(to, m, least, most, why_);
  if (draft_ != nullptr) payload_ = {draft_->payload, draft_->most};
}

status reserved::commit_raw(std::size_t bytes, const std::uint32_t* args, bool wait) noexcept {
  if (draft_ == nullptr) {
    log(log_level::error, "commit of a reservation that is empty: %s",
        why_ == status::ok ? "it was committed, cancelled or moved from" : describe(why_));
    return why_ == status::ok ? status::bad_arguments : why_;
  }
  const status s = engine_->in_place().commit(*draft_,
                                              {.kind = draft_->kind,
                                               .handler = handler_,
                                               .nargs = draft_->nargs,
                                               .args = args,
                                               .bytes = bytes,
                                               .dest = draft_->dest},
                                              wait);
  if (s == status::ok) [[likely]] {
    draft_ = nullptr;
    payload_ = {};
  }
  return s;
}

void reserved::cancel() noexcept {
  if (draft_ == nullptr) return;
  if (!is_forked()) engine_->in_place().cancel(*draft_);
  draft_ = nullptr;
  payload_ = {};
}

}  // namespace penstock::PENSTOCK_ABI::detail
