#include "lib/gasnet/vis/packed.hpp"

#include <cstring>

#include "lib/base/log.hpp"
#include "lib/gasnet/vis/vis.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace vis {
namespace {

using conduit::running;

// A pointer as two words of a message.
struct words {
  explicit words(const void* p) noexcept { std::memcpy(at, &p, sizeof p); }
  std::uint32_t at[4] = {};  // two more for who needs them
};
template <class T>
T* pointer_in(const std::uint32_t* args) noexcept {
  T* p = nullptr;
  std::memcpy(&p, args, sizeof p);
  return p;
}

void began(const char* call, status s) {
  if (s != status::ok) [[unlikely]]
    failed(call, s);
}

// relaxed: the message carries the order to whoever completes it
void count_up(op_counter& c) noexcept { c.fetch_add(1, std::memory_order_relaxed); }
// P1 complete  release counter  -> P2 (operations.hpp): the bytes fetched are there
void count_down(op_counter& c) noexcept { c.fetch_sub(1, std::memory_order_release); }

// Calls visit(address, bytes) for the runs of n rows that lie at `from`, as they were packed.
template <class Visit>
void each_run(const std::byte* from, std::uint32_t n, Visit&& visit) {
  for (std::uint32_t i = 0; i < n; ++i) {
    row r;
    std::memcpy(&r, from + i * sizeof r, sizeof r);
    for (std::uint32_t k = 0; k < r.count; ++k, r.at += static_cast<std::uint64_t>(r.stride))
      visit(reinterpret_cast<std::byte*>(r.at), std::size_t{r.bytes});
  }
}

[[noreturn]] void makes_no_sense(const char* what) {
  fatal(1, "pieces to %s that rank %u sent make no sense", what, running->source());
}

// A run that a peer named lies in the client's part of this node's segment.
bool own(const std::byte* at, std::size_t bytes) {
  if (self.everything) return true;
  const auto part = client_segment(GASNETC_(mynode));
  const auto offset =
      reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(part.data());
  return offset <= part.size() && bytes <= part.size() - offset;
}

// args: counter, rows.
void handle_put(void*, token&, const std::uint32_t* args, std::byte* payload, std::size_t bytes) {
  const std::size_t table = std::size_t{args[2]} * sizeof(row);
  if (table > bytes) makes_no_sense("put");
  const std::byte* from = payload;
  const std::byte* const end = payload + (bytes - table);
  each_run(end, args[2], [&](std::byte* at, std::size_t n) {
    if (n > static_cast<std::size_t>(end - from) || !own(at, n)) makes_no_sense("put");
    std::memcpy(at, from, n);
    from += n;
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
  alignas(8) std::byte data[conduit::max_medium];
  std::size_t used = 0;
  each_run(payload, args[2], [&](const std::byte* at, std::size_t n) {
    if (n > sizeof data - used || !own(at, n)) makes_no_sense("get");
    std::memcpy(data + used, at, n);
    used += n;
  });
  began("the answer to a get of pieces",
        conduit::engine::reply_medium(*running, on_pieces_got, args, 2, data, used));
}
void handle_got(void*, token&, const std::uint32_t* args, std::byte* payload, std::size_t bytes) {
  const std::unique_ptr<awaited> here(pointer_in<awaited>(args));
  if (here->bytes != bytes) makes_no_sense("get");
  each_run(reinterpret_cast<const std::byte*>(here->where.data()), here->where.count(),
           [&](std::byte* at, std::size_t n) {
             std::memcpy(at, payload, n);
             payload += n;
           });
  count_down(*here->counter);
}

}  // namespace

void put_packer::add(std::byte* remote, const std::byte* local, std::size_t bytes) {
  // Room for the run, for padding, and for one row more than there are.
  if (used_ + bytes + 8 + where_.bytes() + sizeof(row) > sizeof data_) flush();
  (void)where_.add(remote, bytes);
  std::memcpy(data_ + used_, local, bytes);
  used_ += bytes;
}

void put_packer::flush() {
  if (where_.empty()) return;
  if (where_.one_piece()) {
    began(call_, self.engine->one_sided().put(to_, where_.begin(), data_, used_,
                                              conduit::reuse::on_return, counter_));
  } else {
    std::memcpy(data_ + used_, where_.data(), where_.bytes());
    words args(&counter_);
    args.at[2] = where_.count();
    count_up(counter_);
    began(call_,
          self.engine->request_medium(to_, on_pieces, args.at, 3, data_, used_ + where_.bytes()));
  }
  where_.clear();
  used_ = 0;
}

void get_packer::add(std::byte* local, const std::byte* remote, std::size_t bytes) {
  if (here_ && here_->bytes + bytes > conduit::max_medium) flush();
  if (!here_) here_ = std::make_unique<awaited>();
  // Either list may be full.
  if (where_.count() == rows::most || here_->where.count() == rows::most) {
    flush();
    here_ = std::make_unique<awaited>();
  }
  (void)where_.add(remote, bytes);
  (void)here_->where.add(local, bytes);
  here_->bytes += bytes;
}

void get_packer::flush() {
  if (where_.empty()) return;
  if (where_.one_piece() && here_->where.one_piece()) {
    began(call_, self.engine->one_sided().get(here_->where.begin(), from_, where_.begin(),
                                              here_->bytes, counter_));
    here_.reset();
  } else {
    here_->counter = &counter_;
    words args(here_.get());
    args.at[2] = where_.count();
    count_up(counter_);
    (void)here_.release();  // the reply's
    began(call_, self.engine->request_medium(from_, on_pieces_wanted, args.at, 3, where_.data(),
                                             where_.bytes()));
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
