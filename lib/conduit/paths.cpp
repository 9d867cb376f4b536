// Chooses the device, and the path of each peer. The launcher says which ranks share memory with
// this one, and a trial shows whether they can. These are reached by rings, all others by the
// device's queue pairs. Set-up only.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "lib/conduit/collective/host_page.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/introduction.hpp"
#include "lib/conduit/one_sided/rma.hpp"
#include "lib/conduit/peer/core_inl.hpp"
#include "nic/registrar.hpp"
#include "nic/shm/direct.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

// Those of `near` that have the same sign of a host as this process.
result<std::vector<std::uint32_t>> with_same_sign(job::job& j, host_sign kind,
                                                  std::span<const std::uint32_t> near) {
  struct sign {
    host_sign kind;
    char text[256];
  } mine{kind, {}}, his;
  if (kind == host_sign::hostid)
    std::snprintf(mine.text, sizeof mine.text, "%lx", ::gethostid());
  else if (::gethostname(mine.text, sizeof mine.text - 1) != 0)
    return failure{"gethostname", errno, ""};
  auto all = j.exchange(std::as_bytes(std::span(&mine, 1)));
  if (!all) return all.error();
  std::vector<std::uint32_t> same;
  for (std::uint32_t r = 0; r < all->size(); ++r) {
    const auto& said = (*all)[r];
    if (said.size() == sizeof his) std::memcpy(&his, said.data(), sizeof his);
    if (said.size() != sizeof his || his.kind != kind)
      return failure{"PENSTOCK_HOST_DETECT differs at rank " + std::to_string(r), 0,
                     "set it to the same at all ranks"};
    if (std::strncmp(his.text, mine.text, sizeof mine.text) == 0 &&
        std::find(near.begin(), near.end(), r) != near.end())
      same.push_back(r);
  }
  return same;
}

using registrar_of_device = nic::registrar_as<memreg::registrar, memreg::registration>;

}  // namespace

memreg::pin_budget engine::segment_budget(const settings& s, unsigned processes_on_host) {
  auto budget = memreg::probe_pin_budget(s, processes_on_host);
  // Only where ulimit -l is short, or a trial is asked for, is it worth an opened device.
  if (budget.by_memlock || s.physmem_probe) {
    const auto d = nic::open_device(s);
    if (d && !d->pins)
      budget = memreg::probe_pin_budget(s, processes_on_host, false);
    else if (ibv_pd* const pd = d && s.physmem_probe ? d->verbs->alloc_pd(d->context) : nullptr) {
      registrar_of_device to(*d, pd);
      budget = memreg::tried(std::move(budget), to);
      d->verbs->dealloc_pd(pd);
    }
  }
  budget.per_process /= nic::rails_of(s).size();
  budget.per_process -= budget.per_process / 8;
  const std::uint64_t most =
      s.max_segment.of_each(budget.physical, std::max(1u, processes_on_host));
  if (most != 0 && most < budget.per_process) {
    budget.per_process = most;
    budget.binding = "PENSTOCK_MAX_SEGSIZE";
    budget.hint = "raise it";
  }
  return budget;
}

// Opens the device that the settings ask for, in place of the one that was opened before.
result<void> engine::use_device(const settings& s) {
  core_.account_.reset();
  if (core_.pd_ != nullptr) core_.device_.verbs->dealloc_pd(std::exchange(core_.pd_, nullptr));
  core_.events_ = nullptr;
  core_.device_ = nic::device();
  auto d = nic::open_device(s, core_.job_.name());
  if (!d) return d.error();
  core_.device_ = std::move(*d);
  // Two threads may see one event there; only one of them gets it, and the other must not wait.
  if (!never_waits(core_.device_.context->async_fd))
    return failure{"fcntl on the events of " + core_.device_.name, errno, ""};
  if (core_.device_.shared_memory) {
    core_.events_ = &nic::shm::event_count(core_.device_.context);
    nic::shm::peers_may_be_silent(core_.device_.context);
  }
  core_.pd_ = core_.device_.verbs->alloc_pd(core_.device_.context);
  if (core_.pd_ == nullptr) return failure{"ibv_alloc_pd on " + core_.device_.name, errno, ""};
  auto to = std::make_unique<registrar_of_device>(core_.device_, core_.pd_);
  auto budget = memreg::probe_pin_budget(core_.settings_, std::max(1u, core_.job_.host_size()),
                                         core_.device_.pins);
  budget.per_process /= nic::rails_of(core_.settings_).size();  // each rail pins the segment, too
  if (core_.settings_.physmem_probe && core_.device_.pins)
    budget = memreg::tried(std::move(budget), *to);
  core_.account_ = std::make_unique<memreg::account>(std::move(to), std::move(budget));
  return {};
}

// Makes the domains; threads are spread over them by their numbers, which are dense.
void engine::open_domains() {
  const std::uint32_t count = concurrent(build_mode) ? core_.settings_.domain_count : 1;
  static std::atomic<std::uint32_t> files{0};
  core_.first_file_ = files.fetch_add(count, std::memory_order_relaxed);
  core_.domains_ = std::make_unique<domain[]>(count);
  core_.domain_count_ = count;  // they are there, for whoever takes them down
  core_.peers_ = zero_array<peer>(std::size_t{core_.domain_count_} * core_.size_);
  for (std::uint32_t i = 0; i < core_.domain_count_; ++i) {
    domain& d = core_.domains_[i];
    d.index = i;
    d.peers = &core_.peers_[std::size_t{i} * core_.size_];
    d.met.open(core_.size_);
    d.rings.at = zero_array<std::atomic<peer*>>(core_.size_);
    d.verbs.at = zero_array<std::atomic<peer*>>(core_.size_);
  }
  for (std::uint32_t t = 0; t < max_threads; ++t)
    core_.channels_of_[t] =
        core_.domains_[t / core_.settings_.threads_per_domain % core_.domain_count_].peers;
}

// Plans the credits for that room, before any has been lent. A message by rings costs as much as
// its bytes, so there the loans have to grow.
result<void> engine::plan_credits(credit::room room) {
  if (!room.moves && ways_.some_have_rings())
    return failure{"a device of this job has room for " + std::to_string(room.credits) +
                       " credits, too few for messages by rings beside it",
                   0, "lower PENSTOCK_AM_SPARES, set PENSTOCK_DIRECT=0, or use another device"};
  auto c = credit::plan(core_.size_, core_.rank_,
                        credit_settings(core_.settings_, core_.domain_count_, room));
  if (!c) {
    failure f = c.error();
    if (core_.domain_count_ > 1)
      f.what += " (in each of " + std::to_string(core_.domain_count_) +
                " domains, which share what the settings say)";
    return f;
  }
  core_.credit_config_ = *c;
  core_.credit_room_ = room;
  for (std::uint32_t i = 0; i < core_.domain_count_; ++i)
    core_.domains_[i].ledger = std::make_unique<credit::ledger<build_mode>>(core_.credit_config_);
  return {};
}

// Chooses every peer's path, which is the same for both sides: rings to ranks that share memory
// with this one, queue pairs to all others. may: ranks that should share memory can do so.
void engine::choose_paths(bool may) noexcept {
  const bool all_near = core_.neighbours_.size() == core_.size_;
  // With segment everything, remote firehoses do not see messages by rings, which may tell of
  // changed memory (R-a).
  core_.shares_memory_ = may && core_.settings_.direct && (all_near || !transfers_->everything());
  ways_.use(way::rings, core_.shares_memory_ && (all_near || core_.neighbours_.size() > 1));
  ways_.use(way::verbs, !core_.shares_memory_ || !all_near);
}

// Called when all processes are about to start: the paths are only known then. Where all ranks
// share memory, shm0 replaces the device; where some do, shm0 is opened beside it.
result<void> engine::agree_on_paths() {
  if (core_.settings_.host_detect != host_sign::launcher) {
    auto left = with_same_sign(core_.job_, core_.settings_.host_detect, core_.neighbours_);
    if (!left) return left.error();
    core_.neighbours_ = core_.detected_ = std::move(*left);
  }
  choose_paths(true);
  if (!core_.shares_memory_) return {};
  if (!core_.device_.shared_memory) {
    if (auto r = try_neighbours(); !r) return r;
    choose_paths(true);
    if (!ways_.some_post()) {
      if (auto r = use_device(shm0_beside(core_.settings_)); !r) return r;
    }
  }
  if (ways_.some_have_rings() && ways_.some_post()) {
    auto near = near_device::open(core_.settings_, may_sleep());
    if (!near) return near.error();
    core_.near_ = std::move(*near);
  }
  return {};
}

// Tries whether the processes that should share memory can do so, by a page that the first of them
// makes and the others open. Where one cannot open it (in a container of its own), none of them
// shares memory.
result<void> engine::try_neighbours() {
  std::unique_ptr<host_page> page;
  const bool first = core_.neighbours_.front() == core_.rank_;
  if (first && core_.neighbours_.size() > 1) page = host_page::make();
  struct offer {
    common_ground ground;
    host_page::ticket page;
  } mine, his;
  mine.ground = {core_.settings_, transfers_->everything(), core_.device_};
  if (page) mine.page = page->offer();
  auto tickets = core_.job_.exchange(std::as_bytes(std::span(&mine, 1)));
  if (!tickets) return tickets.error();
  if (auto r = compare_grounds(*tickets); !r) return r;
  std::memcpy(&his, (*tickets)[core_.neighbours_.front()].data(), sizeof his);
  if (!first && his.page.proof != 0) page = host_page::open(his.page);
  struct {
    nic::shm::whereabouts place = nic::shm::here();
    std::uint64_t opened = 0;
  } each, leader;
  each.opened = page ? 1 : 0;
  auto all = core_.job_.exchange(std::as_bytes(std::span(&each, 1)));
  if (!all) return all.error();
  for (const std::uint32_t r : core_.neighbours_) {
    if ((*all)[r].size() != sizeof each) return failure{"the library differs", 0, ""};
    std::memcpy(&each, (*all)[r].data(), sizeof each);
    if (r == core_.neighbours_.front()) leader = each;
    const std::string apart = nic::shm::why_apart(leader.place, each.place);
    if (each.opened != 0 && apart.empty()) continue;
    if (core_.neighbours_.size() > 1)
      log(log_level::info, "ranks of this host do not share memory: rank %u %s", r,
          apart.empty() ? "cannot open a page" : apart.c_str());
    core_.neighbours_ = std::span(&core_.rank_, 1);
    break;
  }
  return {};
}

}  // namespace penstock::conduit::PENSTOCK_ABI
