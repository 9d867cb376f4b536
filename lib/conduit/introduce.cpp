// The exchange at start, in which all processes tell each other their addresses and settings, and
// check that they agree.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "lib/conduit/collective/host_page.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/introduction.hpp"
#include "lib/conduit/one_sided/rma.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

// The least room for credits that a rank's device has; nothing where all have the same.
std::optional<credit::room> least_room(const std::vector<introduction>& all) noexcept {
  const auto room_of = [](const introduction& i) {
    return credit::room{i.credits_move != 0, i.room};
  };
  credit::room least;
  for (const auto& his : all) least = std::min(least, room_of(his));
  for (const auto& his : all)
    if (room_of(his) != least) return least;
  return {};
}

// What ranks must have alike of a handler; 0: there is none. Names may differ.
std::uint32_t kind_of(const handler_entry& h) noexcept {
  return h.call == nullptr ? 0u : 1u + h.words * 4u + static_cast<std::uint32_t>(h.payload);
}

std::uint32_t fingerprint(const handler_entry* table, unsigned n) noexcept {
  std::uint32_t h = 2166136261u;
  for (unsigned i = 0; i < n; ++i) h = (h ^ kind_of(table[i])) * 16777619u;
  return h;
}

constexpr std::array device_kinds = {"an RDMA device", "shm0", "tcp0"};

// "rank 0 has shm0, and rank 1 has tcp0"
std::string devices_of(const common_ground& a, std::size_t of_a, const common_ground& b,
                       std::size_t of_b) {
  const auto named = [](const common_ground& g) {
    return g.device < device_kinds.size() ? device_kinds[g.device] : "a device of another library";
  };
  return "rank " + std::to_string(of_a) + " has " + named(a) + ", and rank " +
         std::to_string(of_b) + " has " + named(b);
}

failure different(const std::string& what) {
  return {what, 0, "start all processes with the same program and settings"};
}

}  // namespace

result<void> compare_grounds(const std::vector<std::vector<std::byte>>& of_ranks) {
  const auto differs = [](const char* what, std::uint64_t first, std::uint64_t his, std::size_t r) {
    return different(std::string(what) + " differs: " + std::to_string(first) + " at rank 0, " +
                     std::to_string(his) + " at rank " + std::to_string(r));
  };
  std::vector<common_settings> values;
  common_ground first;
  std::string devices;
  for (const auto& bytes : of_ranks) {
    common_ground his;
    if (bytes.size() < sizeof his) return different("the library differs");
    std::memcpy(&his, bytes.data(), sizeof his);
    if (values.empty()) first = his;
    if (his.version != first.version)
      return differs("the wire version", first.version, his.version, values.size());
    if (his.max_eager_bytes != first.max_eager_bytes)
      return differs("PENSTOCK_MAX_MEDIUM of the build", first.max_eager_bytes, his.max_eager_bytes,
                     values.size());
    if (devices.empty() && his.device != first.device)
      devices = devices_of(first, 0, his, values.size());
    if (his.everything != first.everything)
      return differs("segment everything", first.everything, his.everything, values.size());
    values.push_back(his.values);
  }
  if (const std::string what = settings_that_differ(values); !what.empty()) return different(what);
  for (const auto& bytes : of_ranks)
    if (bytes.size() != of_ranks[0].size())
      return different(devices.empty() ? "the library differs" : devices);
  return {};
}

std::vector<std::byte> handlers_told(const handler_entry* table, const handler_names& names) {
  std::string lines;
  for (unsigned i = 0; i < user_handlers; ++i) {
    using takes = handler_entry::takes;
    const handler_entry& h = table[i];
    if (h.call == nullptr) continue;
    lines += std::to_string(i) + " " + std::to_string(kind_of(h)) + " ";
    if (std::string name = names.of(i); !name.empty()) {
      std::replace(name.begin(), name.end(), '\n', ' ');  // a line for each handler
      lines += name + ", ";
    }
    lines += h.payload == takes::nothing   ? "Shorts"
             : h.payload == takes::payload ? "Mediums and Longs"
                                           : "any message";
    lines += " with " + (h.words == any_args ? "any number of" : std::to_string(h.words)) +
             " argument words\n";
  }
  const auto bytes = std::as_bytes(std::span(lines));
  return {bytes.begin(), bytes.end()};
}

std::string handler_that_differs(const std::vector<std::vector<std::byte>>& of_ranks) {
  struct entry {
    std::uint32_t kind = 0;
    std::string text = "none";
  };
  std::vector<std::map<unsigned, entry>> told(of_ranks.size());
  for (std::size_t r = 0; r < of_ranks.size(); ++r) {
    std::istringstream text(
        std::string(reinterpret_cast<const char*>(of_ranks[r].data()), of_ranks[r].size()));
    unsigned index = 0;
    entry e;
    while (text >> index >> e.kind && std::getline(text >> std::ws, e.text)) told[r][index] = e;
  }
  const auto of = [&told](std::size_t r, unsigned i) {
    const auto at = told[r].find(i);
    return at == told[r].end() ? entry{} : at->second;
  };
  for (unsigned i = 0; i < user_handlers; ++i)
    for (std::size_t r = 1; r < told.size(); ++r)
      if (of(r, i).kind != of(0, i).kind)
        return "handler " + std::to_string(i) + " differs: at rank 0 " + of(0, i).text +
               "; at rank " + std::to_string(r) + " " + of(r, i).text;
  return "the table of handlers differs";
}

// True if barriers are to be counted in a page of the host; rank 0 decides for all. Between two
// processes with a core each, dissemination is faster.
bool engine::counts_barriers() const noexcept {
  if (core_.size_ != core_.neighbours_.size() || core_.size_ > counting_words::most_ranks)
    return false;
  return core_.settings_.barrier == barrier_kind::counter ||
         (core_.settings_.barrier == barrier_kind::automatic && core_.settings_.barrier_shm &&
          ways_.some_have_rings() && core_.spins_before_yield_ == 1 && core_.size_ > 1);
}

// Exchanges the introductions. The exchange ends when every process has posted the receives that
// messages to it need, so no message comes too early.
result<void> engine::introduce() {
  introduction mine;
  mine.ground = {core_.settings_, transfers_->everything(), core_.device_};
  mine.address = core_.device_.self;
  if (core_.near_) mine.near_address = core_.near_->device.self;
  mine.datagram_qp = connections_.port();
  mine.handlers = fingerprint(core_.handlers_.user, user_handlers);
  mine.credits = core_.credit_config_.fingerprint();
  mine.credits_move = core_.credit_room_.moves ? 1 : 0;
  mine.room = core_.credit_room_.credits;
  mine.leader = core_.shares_memory_ ? core_.neighbours_.front() : core_.rank_;
  if (core_.segment_) {
    mine.segment_base = reinterpret_cast<std::uintptr_t>(core_.segment_->base());
    mine.segment_bytes = core_.segment_->bytes();
    mine.segment_mapped =
        core_.near_ || !core_.device_.pins ? core_.segment_->capacity() : core_.segment_->bytes();
    mine.segment_rkey = mine.map_rkey = core_.segment_->keys().rkey;
    if (core_.near_) mine.map_rkey = core_.near_->registration->rkey;
  }
  if (ways_.some_post()) mine.chunk_bytes = core_.queue_sizes().chunk_bytes;
  mine.domains = core_.domain_count_;
  mine.wakes = ways_.some_have_rings() && channel_ != nullptr;
  mine.sleeps = events_fd_ != nullptr;
  mine.reads = transfers_->reads_here();
  mine.device_atomics = transfers_->device_atomics();
  mine.place = nic::shm::here();
  if (core_.rank_ == 0 && counts_barriers()) page_ = host_page::make();
  if (page_) mine.page = page_->offer();
  auto all = core_.job_.exchange(std::as_bytes(std::span(&mine, 1)));
  if (!all) return all.error();
  if (auto r = compare_grounds(*all); !r) return r;
  std::vector<introduction> known(core_.size_);
  for (std::uint32_t r = 0; r < core_.size_; ++r)
    std::memcpy(&known[r], (*all)[r].data(), sizeof known[r]);
  all->clear();
  for (std::uint32_t r = 0; ways_.some_post() && r < core_.size_; ++r)
    if (known[r].ground.device != mine.ground.device)
      return failure{devices_of(mine.ground, core_.rank_, known[r].ground, r), 0,
                     "set PENSTOCK_DEVICE=tcp0, or use hosts that all have RDMA devices"};
  if (const auto room = least_room(known)) {
    // All ranks see this, make their queues again for the least room, and tell each other so.
    const auto queues = [&](auto&& f) { return ways_.at(way::verbs, f); };
    queues([](auto& path) { path.close(); });
    if (auto r = plan_credits(*room); !r) return r;
    if (auto r = queues([&](auto& path) { return path.open(channel_); }); !r) return r;
    return introduce();
  }
  // All ranks see this, and tell each other what they have.
  if (std::any_of(known.begin(), known.end(),
                  [&](const introduction& his) { return his.handlers != mine.handlers; })) {
    const auto told = core_.job_.exchange(handlers_told(core_.handlers_.user, core_.names_));
    return told ? different(handler_that_differs(*told)) : told.error();
  }
  host_page::ticket page;
  bool sleep = false;
  core_.known_.open(core_.size_, core_.neighbours_);
  for (std::uint32_t r = 0; r < core_.size_; ++r) {
    const introduction& his = known[r];
    const auto disagree = [r](const char* what, std::uint64_t here, std::uint64_t there) {
      return different(std::string(what) + " differs: " + std::to_string(here) + " here, " +
                       std::to_string(there) + " at rank " + std::to_string(r));
    };
    if (r == 0) page = his.page;
    sleep = sleep || his.sleeps != 0;
    if (his.credits != mine.credits)
      return disagree("the credit settings (fingerprint)", mine.credits, his.credits);
    if (his.chunk_bytes != mine.chunk_bytes)
      return disagree("the size of send chunks", mine.chunk_bytes, his.chunk_bytes);
    if (his.domains != mine.domains)
      return disagree("the number of domains (PAR or not)", mine.domains, his.domains);
    // Beside a NIC, ranks that do not find each other have been told apart before (try_neighbours).
    if (core_.device_.shared_memory)
      if (const std::string why = nic::shm::why_apart(mine.place, his.place); !why.empty())
        return failure{"rank " + std::to_string(r) + " " + why, 0, ""};
    if (his.leader == r) core_.leaders_.push_back(r);
    core_.known_.add(r, {.address = his.address,
                         .near_address = his.near_address,
                         .datagram_qp = his.datagram_qp,
                         .segment_base = reinterpret_cast<std::byte*>(his.segment_base),
                         .segment_bytes = his.segment_bytes,
                         .segment_mapped = his.segment_mapped,
                         .segment_rkey = his.segment_rkey,
                         .map_rkey = his.map_rkey,
                         .wakes = his.wakes != 0,
                         .reads = static_cast<std::uint8_t>(std::clamp(his.reads, 1u, 255u))});
    transfers_->agree(his.device_atomics != 0);
  }
  core_.known_.shut();
  known = {};
  if (core_.leaders_.size() == 1 || core_.leaders_.size() == core_.size_) core_.leaders_ = {};
  // Messages to this process itself, and its own segment, need no connection. By the first peer of
  // a domain its threads know the domain (my_domain).
  for (std::uint32_t i = 0; i < core_.domain_count_; ++i) {
    core_.begun(core_.domains_[i].peers[0]);
    peer& self = core_.begun(core_.domains_[i].peers[core_.rank_]);
    if (core_.segment_) self.segment_here.store(core_.segment_->base(), std::memory_order_relaxed);
  }
  transfers_->know_segments();
  if (sleep) page_.reset();  // a count in a page wakes nobody: all barriers go by messages
  if (page.proof == 0 || sleep) return {};
  auto shared = host_page::share(core_.job_, page, std::move(page_));
  if (!shared) return shared.error();
  page_ = std::move(*shared);
  if (!page_ && core_.rank_ == 0)
    log(log_level::info, "barriers go by messages: not all processes can map a page of rank 0");
  return {};
}

}  // namespace penstock::conduit::PENSTOCK_ABI
