#include "lib/gasnet/vis/packed.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/log.hpp"
#include "lib/gasnet/vis/vis.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace vis {
namespace {

using conduit::running;

// A pointer as two words of a message.
struct words {
  explicit words(const void* p) noexcept { std::memcpy(at, &p, sizeof p); }
  std::uint32_t at[4] = {};  // the pointer's two words, and two more
};
template <class T>
T* pointer_in(const std::uint32_t* args) noexcept {
  T* p = nullptr;
  std::memcpy(&p, args, sizeof p);
  return p;
}

// relaxed: the message carries the order to the thread that completes it
void count_up(op_counter& c) noexcept { c.fetch_add(1, std::memory_order_relaxed); }
// P1 complete  release counter  -> P2 (operations.hpp): the bytes fetched are there
void count_down(op_counter& c) noexcept { c.fetch_sub(1, std::memory_order_release); }

// Calls visit(row) for the n rows that lie at `from`, as they were packed.
template <class Visit>
void each_row(const std::byte* from, std::uint32_t n, Visit&& visit) {
  for (std::uint32_t i = 0; i < n; ++i) {
    row r;
    std::memcpy(&r, from + i * sizeof r, sizeof r);
    if (r.bytes != 0 && r.count != 0) visit(r);
  }
}
std::byte* begin_of(const row& r) noexcept { return reinterpret_cast<std::byte*>(r.at); }
std::size_t total(const row& r) noexcept { return std::size_t{r.bytes} * r.count; }

[[noreturn]] void makes_no_sense(const char* what) {
  fatal(1, "pieces to %s that rank %u sent make no sense", what, running->source());
}

// True if the runs that a peer has named lie in the client's parts of this node's segments.
bool own(const row& r) {
  return self.everything || each_in(r, [](std::uint64_t at, std::uint64_t bytes) {
           return is_in_parts(GASNETC_(mynode), reinterpret_cast<const void*>(at), bytes);
         });
}

// args: counter, rows.
void handle_put(void*, token&, const std::uint32_t* args, std::byte* payload, std::size_t bytes) {
  const std::size_t table = std::size_t{args[2]} * sizeof(row);
  if (table > bytes) makes_no_sense("put");
  const std::byte* from = payload;
  const std::byte* const end = payload + (bytes - table);
  each_row(end, args[2], [&](const row& r) {
    if (total(r) > static_cast<std::size_t>(end - from) || !own(r)) makes_no_sense("put");
    copy_runs({begin_of(r), r.stride, from, r.bytes, r.bytes, r.count});
    from += total(r);
  });
  began("the answer to a put of pieces",
        conduit::engine::reply_short(*running, on_pieces_put, args, 2));
}
void handle_put_done(void*, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  count_down(*pointer_in<op_counter>(args));
}

// args: what awaits it, rows.
void handle_get(void*, token&, const std::uint32_t* args, std::byte* payload, std::size_t bytes) {
  if (std::size_t{args[2]} * sizeof(row) > bytes) makes_no_sense("get");
  conduit::outgoing answer = conduit::medium_of(on_pieces_got, args, 2, nullptr, 0);
  const auto place = conduit::reply_place::find(*running, answer, conduit::max_eager);
  alignas(8) std::byte own_place[conduit::max_eager];
  std::byte* const data = place.payload != nullptr ? place.payload : own_place;
  std::size_t used = 0;
  each_row(payload, args[2], [&](const row& r) {
    if (total(r) > conduit::max_eager - used || !own(r)) makes_no_sense("get");
    copy_runs({data + used, r.bytes, begin_of(r), r.stride, r.bytes, r.count});
    used += total(r);
  });
  answer.payload = data;
  answer.bytes = used;
  began("the answer to a get of pieces", self.engine->reply(*running, answer));
}
void handle_got(void*, token&, const std::uint32_t* args, std::byte* payload, std::size_t bytes) {
  const std::unique_ptr<awaited> here(pointer_in<awaited>(args));
  if (here->bytes != bytes) makes_no_sense("get");
  each_row(reinterpret_cast<const std::byte*>(here->where.data()), here->where.count(),
           [&](const row& r) {
             copy_runs({begin_of(r), r.stride, payload, r.bytes, r.bytes, r.count});
             payload += total(r);
           });
  count_down(*here->counter);
}

}  // namespace

put_packer::~put_packer() {
  if (draft_ != nullptr) self.engine->in_place().cancel(*draft_);
}

std::byte* put_packer::data() {
  if (draft_ == nullptr) {
    status why = status::ok;
    draft_ = self.engine->in_place().reserve(to_, {.kind = conduit::wire::kind::medium, .nargs = 3},
                                             room, room, why);
    if (draft_ == nullptr) failed(call_, why);
  }
  return draft_->payload;
}

status put_packer::directly(gasnet_node_t to, std::byte* remote, const std::byte* local,
                            std::size_t bytes, op_counter& c) noexcept {
  return engine_put(to, remote, local, bytes, conduit::reuse::on_completion, c);
}

void put_packer::add(std::byte* remote, const std::byte* local, std::size_t bytes) {
  // There must be room for the run, for padding, and for one more row.
  if (used_ + bytes + 8 + where_.bytes() + sizeof(row) > room) flush();
  (void)where_.add(remote, bytes);
  std::memcpy(data() + used_, local, bytes);
  used_ += bytes;
}

void put_packer::add(runs r) {
  while (r.count != 0) {
    const std::size_t taken = used_ + 8 + where_.bytes() + sizeof(row);
    const std::size_t fit = taken < room ? (room - taken) / r.bytes : 0;
    if (fit == 0) {
      flush();
      continue;
    }
    runs some = r;
    some.count = std::min(r.count, fit);
    (void)where_.add(r.to, r.to_stride, r.bytes, some.count);
    some.to = data() + used_;
    some.to_stride = static_cast<std::ptrdiff_t>(r.bytes);
    copy_runs(some);
    used_ += r.bytes * some.count;
    r.skip(some.count);
  }
}

void put_packer::flush() {
  if (where_.empty()) return;
  if (where_.one_piece()) {
    began(call_,
          engine_put(to_, where_.begin(), data(), used_, conduit::reuse::on_return, counter_));
  } else {
    std::memcpy(data() + used_, where_.data(), where_.bytes());
    words args(&counter_);
    args.at[2] = where_.count();
    count_up(counter_);
    const auto m = conduit::medium_of(on_pieces, args.at, 3, nullptr, used_ + where_.bytes());
    began(call_, self.engine->in_place().commit(*draft_, m, true));
    draft_ = nullptr;
  }
  where_.clear();
  used_ = 0;
}

status get_packer::directly(gasnet_node_t from, std::byte* local, const std::byte* remote,
                            std::size_t bytes, op_counter& c) noexcept {
  return engine_get(local, from, remote, bytes, c);
}

void get_packer::make_room(std::size_t bytes) {
  // The list of either side may be full.
  if (here_ && (here_->bytes + bytes > conduit::max_eager || where_.count() == rows::most ||
                here_->where.count() == rows::most))
    flush();
  if (!here_) here_ = std::make_unique_for_overwrite<awaited>();
}

void get_packer::add(std::byte* local, const std::byte* remote, std::size_t bytes) {
  make_room(bytes);
  (void)where_.add(remote, bytes);
  (void)here_->where.add(local, bytes);
  here_->bytes += bytes;
}

void get_packer::add(runs r) {
  while (r.count != 0) {
    make_room(r.bytes);
    const std::size_t n = std::min(r.count, (conduit::max_eager - here_->bytes) / r.bytes);
    (void)where_.add(r.from, r.from_stride, r.bytes, n);
    (void)here_->where.add(r.to, r.to_stride, r.bytes, n);
    here_->bytes += r.bytes * n;
    r.skip(n);
  }
}

void get_packer::flush() {
  if (where_.empty()) return;
  if (where_.one_piece() && here_->where.one_piece()) {
    began(call_, engine_get(here_->where.begin(), from_, where_.begin(), here_->bytes, counter_));
    here_.reset();
  } else {
    here_->counter = &counter_;
    words args(here_.get());
    args.at[2] = where_.count();
    count_up(counter_);
    (void)here_.release();  // the handler of the reply frees it
    const auto m = conduit::medium_of(on_pieces_wanted, args.at, 3, where_.data(), where_.bytes());
    began(call_, self.engine->request(from_, m));
  }
  where_.clear();
}

}  // namespace vis

void register_pieces(conduit::engine& e) {
  using takes = conduit::handler_entry::takes;
  const auto add = [&e](std::uint8_t index, detail::raw_handler call, std::uint8_t words,
                        takes payload) {
    e.add_handler(index, {.call = call, .context = nullptr, .words = words, .payload = payload});
  };
  add(on_pieces, &vis::handle_put, 3, takes::payload);
  add(on_pieces_put, &vis::handle_put_done, 2, takes::nothing);
  add(on_pieces_wanted, &vis::handle_get, 3, takes::payload);
  add(on_pieces_got, &vis::handle_got, 2, takes::payload);
}

}  // namespace penstock::gasnet::PENSTOCK_ABI
