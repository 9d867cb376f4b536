// gasnet_init and gasnet_attach, and the calls that tell about the job and its segments.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <string>

#include "lib/base/log.hpp"
#include "lib/base/no_memory.hpp"
#include "lib/gasnet/ex/objects.hpp"
#include "lib/gasnet/process.hpp"
#include "lib/gasnet/statistics.hpp"
#include "lib/gasnet/tools_hooks.hpp"
#include "lib/gasnet/vis/vis.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {

immortal<process> own_process;

int report(const failure& f) {
  if (GASNETC_(verbose_errors) != 0) log(log_level::error, "%s", f.message().c_str());
  return GASNET_ERR_RESOURCE;
}

namespace {

// Whether this is the first call of that name that comes too early. A program that does not look at
// the results of its calls makes them in a loop. relaxed: nothing else is read because of a name.
bool is_news(const char* call) {
  static std::atomic<const char*> said[16];
  for (auto& name : said) {
    const char* other = nullptr;
    if (name.compare_exchange_strong(other, call, std::memory_order_relaxed)) return true;
    if (std::strcmp(other, call) == 0) return false;
  }
  return false;
}

}  // namespace

int too_early(const char* call) {
  if (!is_news(call)) return GASNET_ERR_NOT_INIT;
  log(log_level::warning, "%s: %s", call,
      self.membership == nullptr ? "neither gasnet_init nor gex_Client_Init was called before it"
                                 : "gasnet_attach was not called before it");
  return GASNET_ERR_NOT_INIT;
}

int too_late(const char* call) {
  log(log_level::warning, "%s: this process has called it before, or gex_Client_Init", call);
  return GASNET_ERR_NOT_INIT;
}

namespace {

// What each process tells the others in gasnet_init.
struct announcement {
  std::uint64_t local_max;
  std::uint32_t host_leader;       // lowest rank on its host
  std::uint32_t supernode_leader;  // lowest rank that it shares memory with
};

std::uint64_t page_floor(std::uint64_t bytes) { return bytes - bytes % GASNET_PAGESIZE; }

result<void> meet_others() {
  auto& j = *self.membership;
  const bool may_share = self.options.direct && self.options.am_oust_limit == 0;
  announcement mine{self.local_max, j.host_ranks().front(),
                    j.neighbours(may_share ? self.options.supernode_size : 1).front()};
  auto all = j.exchange(std::as_bytes(std::span(&mine, 1)));
  if (!all) return all.error();
  self.global_max = self.local_max;
  // Leaders are numbered in the order of their appearance.
  std::map<std::uint32_t, gasnet_node_t> hosts, supernodes;
  const auto number_of = [](auto& of, std::uint32_t leader) {
    return of.try_emplace(leader, static_cast<gasnet_node_t>(of.size())).first->second;
  };
  for (const auto& blob : *all) {
    announcement a;
    if (blob.size() != sizeof a)
      return failure{"the processes of this job run different versions of Penstock", 0, ""};
    std::memcpy(&a, blob.data(), sizeof a);
    self.global_max = std::min(self.global_max, a.local_max);
    self.nodes.push_back({.host = number_of(hosts, a.host_leader),
                          .supernode = number_of(supernodes, a.supernode_leader)});
  }
  return {};
}

// Numbers the supernodes again by what the engine has found out; before it started, only the
// settings told which ranks share memory.
void know_supernodes() {
  const conduit::engine& e = *self.engine;
  const std::vector<std::uint32_t>& leaders = e.fixed().leaders();
  const bool all_share =
      e.fixed().shares_memory() && e.fixed().neighbours().size() == self.nodes.size();
  std::vector<gasnet_node_t> number(self.nodes.size());  // by the number before
  gasnet_node_t next = 0;
  for (std::uint32_t r = 0; r < self.nodes.size(); ++r) {
    const bool leads = leaders.empty() ? !all_share || r == 0
                                       : std::binary_search(leaders.begin(), leaders.end(), r);
    gasnet_node_t& of = number[self.nodes[r].supernode];
    if (leads) of = next++;
    self.nodes[r].supernode = of;
  }
}

void (*function_of(const gasnet_handlerentry_t& e))() { return e.fnptr; }

// Registers the entries with a fixed index first, and then gives the others the lowest free
// indexes. So ranks that pass the same table get the same indexes.
// False, with a line, if an entry cannot be entered.
bool enter_table(gasnet_handlerentry_t* table, int count) {
  const auto refuse = [&](int i, const char* why) {
    log(log_level::error, "gasnet_attach: entry %d of %d handlers (index %u): %s", i, count,
        table != nullptr && i < count ? unsigned{table[i].index} : 0u, why);
    return false;
  };
  if (count < 0 || count > static_cast<int>(conduit::user_handlers - first_client_handler))
    return refuse(count, "a table has 0 to 128 entries");
  if (count != 0 && table == nullptr) return refuse(0, "the table is a null pointer");
  for (int i = 0; i < count; ++i) {
    const unsigned index = table[i].index;
    if (index == 0) continue;
    if (index < first_client_handler)
      return refuse(i, "a client's indexes are 128 to 255, and 0 asks for one");
    if (!set_client_handler(table[i].index, function_of(table[i])))
      return refuse(i, "its index is taken");
  }
  unsigned next = first_client_handler;
  for (int i = 0; i < count; ++i) {
    if (table[i].index != 0) continue;
    while (next < conduit::user_handlers &&
           !set_client_handler(static_cast<std::uint8_t>(next), function_of(table[i])))
      ++next;
    if (next == conduit::user_handlers) return refuse(i, "no index is left");
    table[i].index = static_cast<gasnet_handler_t>(next++);
  }
  return true;
}

constexpr gasnetc_window nowhere{GASNETC_NOWHERE, 0, 0, 0};
// Pages of it that no node needs are never touched.
alignas(cache_line) constinit gasnetc_window window_table[GASNETC_MOST_NODES] = {};

void open_windows() {
  const std::uint32_t n = self.engine->size();
  self.parts.resize(n);
  // Where calls are counted, drawn or checked, the clients' code finds no mapping, and calls the
  // library.
  self.windows = watched() ? new (std::align_val_t{cache_line}) gasnetc_window[n] : window_table;
  std::fill_n(self.windows, n, nowhere);
  if (self.everything)
    // Its own memory needs no mapping.
    open_window(self.engine->rank(), 0, ~std::uintptr_t{0}, 0);
  else
    for (std::uint32_t r = 0; r < n; ++r)
      if (const auto part = self.engine->segment_of(r).subspan(front_bytes); !part.empty())
        know_segment(r, {part.data(), part.size(), 0});
}

}  // namespace

void open_window(std::uint32_t rank, std::uintptr_t base, std::uintptr_t size,
                 std::uintptr_t here) noexcept {
  gasnetc_window& w = self.windows[rank];
  if (size < sizeof(std::uint64_t)) return;
  // Several threads may come here at once; all store the same values.
  std::atomic_ref(w.here).store(here, std::memory_order_relaxed);
  std::atomic_ref(w.size).store(size, std::memory_order_relaxed);
  std::atomic_ref(w.words).store(size - sizeof(std::uint64_t) + 1, std::memory_order_relaxed);
  // W1 window  release base  -> W2 (gasnet_reach.h), W3 (transfer.cpp)
  std::atomic_ref(w.base).store(base, std::memory_order_release);
}

void know_segment(std::uint32_t rank, const client_part& part) noexcept {
  self.parts[rank] = part;
  // Its own memory needs no mapping.
  if (rank != self.engine->rank()) return;
  const auto base = reinterpret_cast<std::uintptr_t>(part.base);
  open_window(rank, base, part.bytes, base);
}

void know_more(std::uint32_t rank, std::size_t index, const client_part& part) {
  self.more_parts.resize(self.nodes.size() * more_endpoints);
  const std::span all(&self.more_parts[rank * more_endpoints], more_endpoints);
  for (client_part& p : all)
    if (p.shift != part.shift && p.base < part.base + part.bytes && part.base < p.base + p.bytes)
      p = {};
  all[index - 1] = part;
}
void forget_more(std::uint32_t rank, std::size_t index) noexcept {
  if (!self.more_parts.empty()) self.more_parts[rank * more_endpoints + index - 1] = {};
}

const client_part* more_part_with(std::uint32_t rank, const void* addr,
                                  std::size_t bytes) noexcept {
  if (self.more_parts.empty()) return nullptr;
  const client_part* const first = &self.more_parts[rank * more_endpoints];
  const client_part* const end = first + more_endpoints;
  const auto* const p = std::find_if(
      first, end, [&](const client_part& x) { return x.bytes != 0 && has(x, addr, bytes); });
  return p == end ? nullptr : p;
}

static result<void> try_start(std::uint64_t segment_bytes, std::uint64_t reserve_bytes) {
  auto e = conduit::engine::open(*self.membership, self.options);
  if (!e) return e.error();
  self.engine = std::move(*e);
  register_messages(*self.engine);
  register_collectives(*self.engine);
  register_pieces(*self.engine);
  register_exit(*self.engine);
  self.barrier = std::make_unique<conduit::barrier>(*self.engine, on_barrier);
  if (self.everything) self.engine->one_sided().allow_everything();
  if (auto r = self.engine->start(front_bytes + segment_bytes, front_bytes + reserve_bytes); !r)
    return r;
  know_supernodes();
  self.barrier->use_segment();
  open_windows();
  self.attached = true;
  heed_from_now_on();
  // After this barrier all processes are here, and the neighbours in barriers are connected.
  conduit::barrier_vote all;
  self.barrier->notify({.mismatch = !coll::shared::prepare()});
  if (const status s = self.barrier->pass(all); s != status::ok)
    return failure{"the first barrier", 0, describe(s)};
  coll::shared::use(!all.mismatch);
  // That barrier polls. A process that passes it first may send at once, and its messages must not
  // be handled before this process has returned to its client, too. So all wait here until all have
  // stopped polling; messages that come from here on wait until the client, or the progress thread,
  // polls.
  if (auto met = self.membership->fence(); !met) return met;
  static const fork_notice in_child(&turn_off_in_child, nullptr);
  self.engine->step_in_progress(&coll::advance_in_progress);
  return self.engine->start_progress();
}

result<void> start_engine(std::uint64_t segment_bytes, std::uint64_t reserve_bytes) {
  auto r = or_no_memory("starting", [=] { return try_start(segment_bytes, reserve_bytes); });
  self.membership->note_start(r);
  return r;
}

void turn_off_in_child(void*) noexcept {
  std::fill_n(self.windows, GASNETC_(nodes), nowhere);
  exit_news.raise();
}

void failed(const char* call, status s) noexcept {
  not_in_child(call);
  fatal(1, "%s: %s", call, describe(s));
}

}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock;
using namespace penstock::gasnet;

extern "C" {

// The text that GASNET_CONFIG_STRING promises to be in every binary.
GASNETT_IDENT(GASNETC_(config), "$GASNetConfig: (libgasnet) " GASNET_CONFIG_STRING " $");

gasnet_node_t GASNETC_(mynode) = 0, GASNETC_(nodes) = 0;
struct gasnetc_window* const GASNETC_(windows) = window_table;
void (*GASNETC_(attach_hook))(void*, uintptr_t) = nullptr;

int GASNETC_(init)(int*, char***) {
  if (self.membership) return too_late("gasnet_init");
  if (const long page = sysconf(_SC_PAGESIZE); GASNET_PAGESIZE % page != 0)
    return report({"this system's pages have " + std::to_string(page) + " bytes, and gasnet.h's " +
                       std::to_string(GASNET_PAGESIZE),
                   0, "compile the program and Penstock with a larger GASNETT_PAGESHIFT"});
  auto s = read_settings();
  if (!s) fatal(1, "%s", s.error().message().c_str());
  self.options = std::move(*s);
  self.checked = self.checked || self.options.checks;
  self.membership = job::job::joined();
  if (self.membership == nullptr) {
    auto j = job::job::join(self.options);
    if (!j) return report(j.error());
    self.membership = j->release();
  }
  if (self.membership->size() > GASNETC_MOST_NODES)
    return report({"this job has " + std::to_string(self.membership->size()) + " processes", 0,
                   "gasnet.h and gasnetex.h know " + std::to_string(GASNETC_MOST_NODES)});
  GASNETC_(mynode) = self.membership->rank();
  GASNETC_(nodes) = self.membership->size();
  set_speaker(self.membership->rank() == 0);
  watch_faults(GASNETC_(mynode), GASNETC_(nodes));
  const unsigned beside = self.membership->host_size();
  self.segment_limit = conduit::engine::segment_budget(self.options, beside);
  self.local_max = page_floor(self.segment_limit.per_process);
  if (auto r = meet_others(); !r) return report(r.error());
  if (auto r = statistics::begin(); !r) return report(r.error());
  prepare_exit();
  describe_objects(nullptr, GEX_FLAG_USES_GASNET1);
  return GASNET_OK;
}

int GASNETC_(attach)(gasnet_handlerentry_t* table, int numentries, uintptr_t segsize, uintptr_t,
                     int everything) {
  if (!self.membership) return too_early("gasnet_attach");
  if (self.engine) return too_late("gasnet_attach");
  self.everything = everything != 0;
  if (self.everything) segsize = 0;
  if (segsize % GASNET_PAGESIZE != 0 || segsize > self.local_max) {
    log(log_level::error,
        "gasnet_attach: a segment of %zu bytes; allowed are multiples of %d up to %zu by %s: %s",
        static_cast<std::size_t>(segsize), GASNET_PAGESIZE,
        static_cast<std::size_t>(self.local_max), self.segment_limit.binding.c_str(),
        self.segment_limit.hint.c_str());
    return GASNET_ERR_BAD_ARG;
  }
  if (!enter_table(table, numentries)) return GASNET_ERR_BAD_ARG;
  if (auto r = start_engine(segsize, 0); !r) {
    if (r.error().code == ECANCELED) leave_after_another();
    return report(r.error());
  }
  const auto part = client_segment(GASNETC_(mynode));
  if (GASNETC_(attach_hook) != nullptr) GASNETC_(attach_hook)(part.data(), part.size());
  describe_objects(nullptr, GEX_FLAG_USES_GASNET1);
  return GASNET_OK;
}

uintptr_t GASNETC_(max_local_segment)(void) { return self.local_max; }
uintptr_t GASNETC_(max_global_segment)(void) { return self.global_max; }

int GASNETC_(segment_info)(gasnet_seginfo_t* table, int numentries) {
  if (!self.attached) return too_early("gasnet_getSegmentInfo");
  if (numentries < 0 || (table == nullptr && numentries != 0)) return GASNET_ERR_BAD_ARG;
  const auto n = std::min(static_cast<std::uint32_t>(numentries), self.engine->size());
  for (std::uint32_t r = 0; r < n; ++r) {
    const auto part = client_segment(r);
    if (self.everything)
      table[r] = {nullptr, ~std::uintptr_t{0}};
    else
      table[r] = {part.empty() ? nullptr : part.data(), part.size()};
  }
  return GASNET_OK;
}

int GASNETC_(node_info)(gasnet_nodeinfo_t* table, int numentries) {
  if (!self.membership) return too_early("gasnet_getNodeInfo");
  if (numentries < 0 || (table == nullptr && numentries != 0)) return GASNET_ERR_BAD_ARG;
  std::copy_n(self.nodes.begin(),
              std::min<std::size_t>(self.nodes.size(), static_cast<unsigned>(numentries)), table);
  return GASNET_OK;
}

int GASNETC_(set_waitmode)(int mode) {
  if (mode != GASNET_WAIT_SPIN && mode != GASNET_WAIT_BLOCK && mode != GASNET_WAIT_SPINBLOCK)
    return GASNET_ERR_BAD_ARG;
  // This is for the clients' own polling loops; the engine waits as PENSTOCK_WAIT_MODE says.
  self.idle.store(mode == GASNET_WAIT_BLOCK  ? idle_mode::always
                  : mode == GASNET_WAIT_SPIN ? idle_mode::never
                                             : idle_mode::where_crowded,
                  std::memory_order_relaxed);
  return GASNET_OK;
}

void GASNETC_(lock_failed)(int error) {
  fatal(1, "a handler-safe lock: %s",
        error == EDEADLK ? "gasnet_hsl_lock by the thread that holds it"
        : error == EPERM ? "gasnet_hsl_unlock by a thread that does not hold it"
        : error == EBUSY ? "gasnet_hsl_destroy while it is held"
                         : std::strerror(error));
}

}  // extern "C"
