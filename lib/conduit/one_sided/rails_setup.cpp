// Opens and closes side rails. See rails.hpp.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/base/log.hpp"
#include "lib/base/shortage.hpp"
#include "lib/conduit/one_sided/rails_inl.hpp"
#include "lib/conduit/peer/core_inl.hpp"
#include "nic/shm/direct.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr std::uint32_t link_depth = 64;     // pieces under way to a rank
constexpr std::uint32_t most_pieces = 1024;  // and on a rail

}  // namespace

rails::rails(engine& e, core& c, transfers& t) : engine_(e), core_(c), transfers_(t) {
  e.add_system_handler(rma_rail_ask, {&rails::on_ask, this, 0, handler_entry::takes::payload});
  e.add_system_handler(rma_rail_answer,
                       {&rails::on_answer, this, 0, handler_entry::takes::payload});
}
rails::~rails() = default;

// ---- opening and closing ----

result<void> rails::open(const firehose::pool_settings* cache) {
  const std::vector<settings> named = nic::rails_of(core_.options());
  const auto all = static_cast<unsigned>(named.size());
  if (all > 1 && transfers_.everything()) {
    if (core_.rank() == 0)
      log(log_level::warning, "with segment everything the first rail of %s carries all",
          core_.options().device.c_str());
    return {};
  }
  for (unsigned i = 1; i < all; ++i) {
    auto made = open_rail(named[i], i + 1, all, cache);
    if (!made) {
      failure f = made.error();
      f.what = "rail " + std::to_string(i + 1) + " of PENSTOCK_DEVICE=" + core_.options().device +
               ": " + f.what;
      if (f.hint.empty()) f.hint = "mend it, or leave it out of PENSTOCK_DEVICE";
      return f;
    }
    rails_.push_back(std::move(*made));
  }
  use_.reserve(rails_.size());
  if (!rails_.empty()) least_ = core_.options().rail_min;
  return {};
}

result<std::unique_ptr<rails::rail>> rails::open_rail(const settings& s, unsigned number,
                                                      unsigned all,
                                                      const firehose::pool_settings* cache) {
  auto opened = nic::open_device(s, core_.membership().name());
  if (!opened) return opened.error();
  auto r = std::make_unique<rail>();
  r->device = std::move(*opened);
  r->number = number;
  nic::device& d = r->device;
  r->name = "rail " + std::to_string(number) + " (" + d.name + ")";
  const auto is_same = [&](const nic::device& o) {
    return d.pins && o.pins && o.name == d.name && o.self.port == d.self.port;
  };
  if (is_same(core_.device()) ||
      std::ranges::any_of(rails_, [&](const auto& o) { return is_same(o->device); }))
    return failure{"port " + std::to_string(d.self.port) + " of " + d.name + " is named twice", 0,
                   "name each port once"};
  if (d.shared_memory && core_.membership().host_size() != core_.size())
    return failure{"shm0 reaches the processes of one host, and this job has several", 0, ""};
  if (d.shared_memory) nic::shm::peers_may_be_silent(d.context);
  if (!never_waits(d.context->async_fd)) return failure{"fcntl on its events", errno, ""};
  r->pd = d.verbs->alloc_pd(d.context);
  if (r->pd == nullptr) return failure{"ibv_alloc_pd", errno, what_to_raise(errno)};
  // Twice as many: completions of a queue pair that was destroyed may stay.
  r->entries = std::clamp(static_cast<std::uint32_t>(d.limits.max_cqe) / 2, 1u, most_pieces);
  r->cq = d.verbs->create_cq(d.context, static_cast<int>(2 * r->entries), nullptr, nullptr, 0);
  if (r->cq == nullptr) return failure{"ibv_create_cq", errno, what_to_raise(errno)};
  r->spare.resize(r->entries + 1);
  r->depth = std::min(link_depth, static_cast<std::uint32_t>(d.limits.max_qp_wr));
  r->reads = static_cast<std::uint32_t>(
      std::clamp(std::min(d.limits.max_qp_rd_atom, d.limits.max_qp_init_rd_atom), 1,
                 static_cast<int>(transfers_.reads_here())));
  auto budget = memreg::probe_pin_budget(core_.options(),
                                         std::max(1u, core_.membership().host_size()), d.pins);
  budget.per_process /= all;
  r->account = std::make_unique<memreg::account>(
      std::make_unique<nic::registrar_as<memreg::registrar, memreg::registration>>(d, r->pd),
      std::move(budget));
  if (const memreg::segment* const own = core_.own_segment()) {
    r->base = own->base();
    r->bytes = d.pins ? own->bytes() : own->capacity();
    if (d.pins)
      if (auto taken = r->account->take(r->bytes); !taken) return taken.error();
    r->account->device().declare_shared(r->base, own->capacity(), own->fd(), 0);
    auto keys = r->account->device().reg(r->base, r->bytes, memreg::access::all);
    if (!keys) return keys.error();
    r->segment = *keys;
  }
  if (cache != nullptr) {
    firehose::pool_settings f = *cache;
    f.max_bytes = std::min(f.max_bytes, r->account->left_to_caches());
    if (!d.pins)
      f.protect = firehose::protection::none;
    else if (!core_.device().pins)
      f.protect = firehose::protection::automatic;
    auto made = firehose::pool::create(r->account->caches(), f);
    if (!made) return made.error();
    r->cache = std::move(*made);
  }
  return r;
}

rails::rail::~rail() {
  for (auto& [rank, l] : links) {
    destroy(l.qp);
    destroy(l.theirs);
  }
  links.clear();
  cache.reset();
  if (segment.handle != nullptr) account->device().dereg(segment);
  if (base != nullptr) account->device().forget_shared(base);
  account.reset();
  if (cq != nullptr) device.verbs->destroy_cq(cq);
  if (pd != nullptr) device.verbs->dealloc_pd(pd);
}

void rails::close() noexcept {
  for (const auto& r : rails_)
    log(log_level::info, "%s carried %llu bytes in %llu pieces, and was left out %llu times",
        r->name.c_str(), static_cast<unsigned long long>(r->carried),
        static_cast<unsigned long long>(r->pieces), static_cast<unsigned long long>(r->times_out));
  rails_.clear();
}

}  // namespace penstock::conduit::PENSTOCK_ABI
