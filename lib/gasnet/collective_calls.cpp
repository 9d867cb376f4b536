// gasnet_coll.h's operations over coll/: images, addresses and lists, flags, the table of
// functions, handles.
#include <mutex>
#include <vector>

#include "lib/base/log.hpp"
#include "lib/gasnet/coll/call_word.hpp"
#include "lib/gasnet/operations.hpp"
#include "lib/gasnet/teams.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

// What the client has passed to gasnet_coll_init. GASNet-EX has no such call, so it may be left
// out; then each process is one image, and there are no functions.
struct agreement {
  std::mutex lock;
  bool begun = false;  // (lock)
  std::vector<gasnet_coll_fn_entry_t> functions;
  std::atomic<bool> done{false};

  [[nodiscard]] std::size_t function_count() const noexcept {
    // acquire: functions is whole
    return done.load(std::memory_order_acquire) ? functions.size() : 0;
  }
} known;

constexpr const char* names[] = {
    "gasnet_coll_broadcast",  "gasnet_coll_broadcastM",  "gasnet_coll_scatter",
    "gasnet_coll_scatterM",   "gasnet_coll_gather",      "gasnet_coll_gatherM",
    "gasnet_coll_gather_all", "gasnet_coll_gather_allM", "gasnet_coll_exchange",
    "gasnet_coll_exchangeM",  "gasnet_coll_reduce",      "gasnet_coll_reduceM",
};
static_assert(std::size(names) == GASNET_COLL_NUM_COLL_OPTYPES);

constexpr coll::kind kinds[] = {
    coll::kind::broadcast,  coll::kind::scatter,  coll::kind::gather,
    coll::kind::gather_all, coll::kind::exchange, coll::kind::reduce,
};
// Every second operation type is the M form, in which the non-rooted addresses are lists.
bool has_lists(gasnet_coll_optype_t op) noexcept { return (op & 1) != 0; }
coll::kind kind_of(gasnet_coll_optype_t op) noexcept { return kinds[op / 2]; }
bool dst_is_list(gasnet_coll_optype_t op) noexcept {
  return has_lists(op) && op != GASNET_COLL_GATHERM_OP && op != GASNET_COLL_REDUCEM_OP;
}
bool src_is_list(gasnet_coll_optype_t op) noexcept {
  return has_lists(op) && op != GASNET_COLL_BROADCASTM_OP && op != GASNET_COLL_SCATTERM_OP;
}

bool exactly_one(int flags, int mask) noexcept {
  const int set = flags & mask;
  return set != 0 && (set & (set - 1)) == 0;
}

unsigned sync_of(int flags, const char* call) {
  constexpr int in = GASNET_COLL_IN_NOSYNC | GASNET_COLL_IN_MYSYNC | GASNET_COLL_IN_ALLSYNC;
  constexpr int out = GASNET_COLL_OUT_NOSYNC | GASNET_COLL_OUT_MYSYNC | GASNET_COLL_OUT_ALLSYNC;
  if (!exactly_one(flags, in) || !exactly_one(flags, out) ||
      !exactly_one(flags, GASNET_COLL_SINGLE | GASNET_COLL_LOCAL))
    fatal(
        1,
        "%s: flags 0x%x: one of IN_NOSYNC, IN_MYSYNC and IN_ALLSYNC, one of the same with OUT, and "
        "one of SINGLE and LOCAL are needed",
        call, static_cast<unsigned>(flags));
  if ((flags & GASNET_COLL_AGGREGATE) != 0)
    fatal(1, "%s: GASNET_COLL_AGGREGATE is not offered", call);
  return ((flags & GASNET_COLL_IN_ALLSYNC) != 0 ? coll::in_all : 0u) |
         ((flags & GASNET_COLL_OUT_ALLSYNC) != 0 ? coll::out_all : 0u);
}

// An image's call, with the arguments that the client has passed.
struct client_call {
  gasnet_coll_optype_t op;
  gasnet_team_handle_t team;
  const void* dst;
  gasnet_image_t root;
  const void* src;
  std::size_t bytes;
  int flags;
  const coll::reduction* how = nullptr;
};

void begin(const client_call& c, coll::op_counter& done) {
  const char* const call = names[c.op];
  coll::team& t = *team_of(c.team, call).team;
  const std::uint32_t image = local_image(t, call);
  coll::request r{.what = kind_of(c.op),
                  .root = c.root,
                  .dst = const_cast<void*>(c.dst),
                  .src = c.src,
                  .bytes = c.bytes,
                  .sync = sync_of(c.flags, call),
                  .how = c.how};
  if (c.root >= t.images()) fatal(1, "%s: image %u of %u", call, c.root, t.images());
  const std::size_t entry =
      (c.flags & GASNET_COLL_SINGLE) != 0 ? t.first_image(t.rank()) + image : image;
  const auto pick = [entry](const void* list) { return static_cast<void* const*>(list)[entry]; };
  if (dst_is_list(c.op)) r.dst = pick(c.dst);
  if (src_is_list(c.op)) r.src = pick(c.src);
  coll::call(t, coll::team::by_image, image, r, done);
}

// Runs start(counter) and returns its handle.
template <class Start>
gasnet_coll_handle_t with_handle(Start&& start) {
  operation& op = my_operations().take();
  op.collective = true;
  start(op.pending);
  return reinterpret_cast<gasnet_coll_handle_t>(event_or_done(op));
}
template <class Start>
void and_wait(Start&& start) {
  coll::op_counter done{0};
  start(done);
  coll::wait(done);
}

// ---- reductions ----

void run_function(const coll::reduction& how, void* left, void* right, std::size_t count) {
  reinterpret_cast<gasnet_coll_reduce_fn_t>(how.function)(
      left, count, left, count, right, how.element_bytes, how.flags, how.argument);
}

coll::reduction reduction_of(const gasnetc_reduction& how, const char* call) {
  if (how.src_blksz != 0 || how.src_offset != 0)
    fatal(1, "%s: src_blksz %zu and src_offset %zu are not 0", call, how.src_blksz, how.src_offset);
  if (how.elem_size == 0) fatal(1, "%s: elements of no bytes", call);
  if (how.func < 0 || static_cast<std::size_t>(how.func) >= known.function_count())
    fatal(1, "%s: function %d of %zu", call, how.func, known.function_count());
  const gasnet_coll_fn_entry_t& f = known.functions[static_cast<std::size_t>(how.func)];
  const bool ordered = (f.flags & GASNET_COLL_NONCOMM) != 0;
  return {.combine = &run_function,
          .element_bytes = how.elem_size,
          .result_in_right = false,
          .commutative = !ordered,
          .function = reinterpret_cast<void (*)()>(f.fnptr),
          .context = nullptr,
          .argument = how.func_arg,
          .flags = ordered ? GASNET_COLL_NONCOMM : 0,
          .code = coll::function_code(static_cast<unsigned>(how.func))};
}

void begin_reduction(client_call c, const gasnetc_reduction& how, coll::op_counter& done) {
  const coll::reduction r = reduction_of(how, names[c.op]);
  c.bytes = how.elem_size * how.elem_count;
  c.how = &r;
  begin(c, done);
}

// ---- handles ----

// Frees the handles that are done. True: as many are done as the caller waits for.
bool look(gasnet_coll_handle_t* handles, std::size_t count, bool some) {
  std::size_t valid = 0, done = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (handles[i] == GASNET_COLL_INVALID_HANDLE) continue;
    ++valid;
    auto e = reinterpret_cast<gex_Event_t>(handles[i]);
    if (!reap(e, "gasnet_coll_*_sync")) continue;
    ++done;
    handles[i] = GASNET_COLL_INVALID_HANDLE;
  }
  return some ? valid == 0 || done != 0 : valid == done;
}

// ---- init ----

// Checks the client's numbers of images, and finds out which image this thread is.
std::uint32_t check_images(const gasnet_image_t images[], gasnet_image_t my_image) {
  std::uint64_t first = 0;
  for (gasnet_node_t n = 0; n < GASNETC_(nodes); ++n) {
    if (images[n] == 0 || (images[n] != 1 && !concurrent(build_mode)))
      fatal(1, "gasnet_coll_init: %u images on node %u%s", images[n], n,
            images[n] == 0 ? "" : "; without GASNET_PAR there is one on each");
    if (n < GASNETC_(mynode)) first += images[n];
  }
  if (my_image < first || my_image - first >= images[GASNETC_(mynode)])
    fatal(1, "gasnet_coll_init: image %u is not one of this node's, which are %llu to %llu",
          my_image, static_cast<unsigned long long>(first),
          static_cast<unsigned long long>(first + images[GASNETC_(mynode)] - 1));
  return my_image - static_cast<std::uint32_t>(first);
}

}  // namespace
}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock;
using namespace penstock::gasnet;

extern "C" {

void GASNETC_(coll_init)(const gasnet_image_t images[], gasnet_image_t my_image,
                         const gasnet_coll_fn_entry_t fn_tbl[], size_t fn_count) {
  gasnetc_team& all = team_of(GASNET_TEAM_ALL, "gasnet_coll_init");
  const std::uint32_t local = images == nullptr ? 0 : check_images(images, my_image);
  {
    const std::lock_guard guard(known.lock);
    if (!known.begun) {
      known.begun = true;
      known.functions.assign(fn_tbl, fn_tbl + fn_count);
      if (images != nullptr) {
        coll::set_images(*all.team, images);
        all.of_images.resize(images[GASNETC_(mynode)]);
      }
    }
  }
  set_local_image(local);
  known.done.store(true, std::memory_order_release);  // release: functions is whole
  and_wait([&](coll::op_counter& done) {
    coll::call(*all.team, coll::team::by_image, local, {.what = coll::kind::barrier}, done);
  });
}

void GASNETC_(coll_move)(gasnet_coll_optype_t op, gasnet_team_handle_t team, const void* dst,
                         gasnet_image_t root, const void* src, size_t nbytes, int flags) {
  and_wait([&](coll::op_counter& done) { begin({op, team, dst, root, src, nbytes, flags}, done); });
}
gasnet_coll_handle_t GASNETC_(coll_move_nb)(gasnet_coll_optype_t op, gasnet_team_handle_t team,
                                            const void* dst, gasnet_image_t root, const void* src,
                                            size_t nbytes, int flags) {
  return with_handle([&](coll::op_counter& done) {
    begin({op, team, dst, root, src, nbytes, flags}, done);
  });
}

void GASNETC_(coll_reduce)(gasnet_coll_optype_t op, gasnet_team_handle_t team, gasnet_image_t root,
                           void* dst, const void* src, const struct gasnetc_reduction* how,
                           int flags) {
  and_wait([&](coll::op_counter& done) {
    begin_reduction({op, team, dst, root, src, 0, flags}, *how, done);
  });
}
gasnet_coll_handle_t GASNETC_(coll_reduce_nb)(gasnet_coll_optype_t op, gasnet_team_handle_t team,
                                              gasnet_image_t root, void* dst, const void* src,
                                              const struct gasnetc_reduction* how, int flags) {
  return with_handle([&](coll::op_counter& done) {
    begin_reduction({op, team, dst, root, src, 0, flags}, *how, done);
  });
}

void GASNETC_(coll_no_scan)(void) {
  fatal(1, "gasnet_coll_scan: GASNet-1 declares scans, and does not implement them");
}

int GASNETC_(coll_try)(gasnet_coll_handle_t* handles, size_t count, int some) {
  if (look(handles, count, some != 0)) return GASNET_OK;
  (void)GASNETC_(poll)();
  return look(handles, count, some != 0) ? GASNET_OK : GASNET_ERR_NOT_READY;
}

void GASNETC_(coll_wait)(gasnet_coll_handle_t* handles, size_t count, int some) {
  const penstock::conduit::long_wait named(penstock::gasnet::self.engine->waits(),
                                           penstock::conduit::wait_for::collective);
  for (unsigned empty = 0; !look(handles, count, some != 0);) gasnet::wait_step(empty);
}

}  // extern "C"
