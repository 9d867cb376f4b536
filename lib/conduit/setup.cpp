// How an engine comes to be and goes: device, queues, the exchange in which all processes tell each
// other where they are, and the close in which nobody leaves before all have finished. No message
// flows here.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "lib/base/backoff.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/shortage.hpp"
#include "lib/conduit/engine.hpp"
#include "memreg/memreg.hpp"
#include "nic/registrar.hpp"
#include "nic/shm/direct.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr std::uint32_t wire_version = 1;

/// The settings of the credit system that must be equal everywhere, in the order of credit_names.
using credit_numbers = std::array<std::uint32_t, 11>;
constexpr const char* credit_names[] = {"FLOW_CONTROL",    "DYNAMIC_CREDITS",      "CRED_PER_NODE",
                                        "BANKED_CREDITS",  "MAX_CRED_PER_NODE",    "LENDER_LIMIT",
                                        "REVOKE_LIMIT",    "EPOCH_DURATION",       "NUM_SCAVENGE",
                                        "DECAY_LAST_CURR", "LENDER_COUNTS_REVOKED"};
static_assert(std::size(credit_names) == std::tuple_size_v<credit_numbers>);

credit_numbers numbers_of(const credit::config& c) noexcept {
  return {c.flow_control ? 1u : 0u,
          c.dynamic ? 1u : 0u,
          c.credits_per_peer,
          c.bank,
          c.max_per_peer,
          c.lender_limit,
          c.revoke_limit,
          c.epoch_requests,
          c.num_scavenge,
          c.fade == credit::decay::last_curr ? 1u : 0u,
          c.revoked == credit::revoked_at::lender ? 1u : 0u};
}

/// What each process tells all others at start, as bytes; checked by every receiver.
struct introduction {
  std::uint32_t version = wire_version;
  std::uint32_t max_medium_bytes = max_medium;
  nic::address address;
  std::uint32_t datagram_qp = 0;
  std::uint32_t handlers = 0;  ///< fingerprint of the handler table
  std::uint64_t credits = 0;   ///< fingerprint of the credit settings
  credit_numbers each_credit{};
  std::uint64_t segment_base = 0, segment_bytes = 0;
  std::uint32_t segment_rkey = 0;
  std::uint32_t direct = 0, chunk_bytes = 0;
  std::uint32_t domains = 1;
  std::uint32_t wakes = 0;  ///< 1: it has a progress thread to be woken by senders
  std::uint32_t reads = 1, device_atomics = 0;  ///< what its device can do
  std::uint32_t everything = 0, unused = 0;     ///< puts and gets may go anywhere
  host_page::ticket page;                       ///< rank 0's, if barriers are to be counted
};

std::uint32_t fingerprint(const handler_entry* table, unsigned n) noexcept {
  std::uint32_t h = 2166136261u;
  for (unsigned i = 0; i < n; ++i) {
    const std::uint32_t what =
        table[i].call == nullptr
            ? 0u
            : 1u + table[i].words * 4u + static_cast<std::uint32_t>(table[i].payload);
    h = (h ^ what) * 16777619u;
  }
  return h;
}

std::uint64_t secret_of(const std::string& name) noexcept {
  std::uint64_t h = 14695981039346656037ull;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return h;
}

credit::overrides credit_settings(const settings& s) {
  credit::overrides o;
  o.credits_per_peer = s.cred_per_node;
  o.bank = s.banked_credits;
  o.receive_bytes = static_cast<std::int64_t>(s.amrecv_space);
  o.max_per_peer = s.max_cred_per_node;
  // No more requests are in flight than there are credits; a full message must have enough.
  if (s.am_oust_pp != 0)
    o.max_per_peer =
        std::min(s.max_cred_per_node, std::max(s.am_oust_pp, wire::full_cost(max_medium)));
  o.lender_limit = s.lender_limit;
  o.revoke_limit = s.revoke_limit;
  o.epoch_requests = s.epoch_duration;
  o.num_scavenge = s.num_scavenge;
  o.flow_control = s.flow_control;
  o.dynamic = s.dynamic_credits;
  if (s.decay_last_curr) o.fade = credit::decay::last_curr;
  if (s.lender_counts_revoked) o.revoked = credit::revoked_at::lender;
  return o;
}

}  // namespace

engine::engine(job::job& j, const settings& s)
    : job_(j), settings_(s), job_secret_(secret_of(j.name())), rank_(j.rank()), size_(j.size()) {
  // Waiting processes that outnumber the cores give them away at once.
  if (j.host_size() > std::thread::hardware_concurrency()) spins_before_yield_ = 1;
}

result<std::unique_ptr<engine>> engine::open(job::job& j, const settings& s) {
  log_threshold(s.log);
  std::unique_ptr<engine> e(new engine(j, s));
  if (auto r = e->open_device(); !r) return r.error();
  return e;
}

memreg::pin_budget engine::segment_budget(const settings& s, unsigned processes_on_host) {
  auto budget = memreg::probe_pin_budget(s.physmem_max, processes_on_host);
  // Only where ulimit -l is short is it worth an opened device to learn whether that matters.
  if (budget.by_memlock)
    if (const auto d = nic::open_device(s); d && d->shared_memory)
      budget = memreg::probe_pin_budget(s.physmem_max, processes_on_host, false);
  budget.per_process -= budget.per_process / 8;
  if (s.max_segment != 0 && s.max_segment < budget.per_process) {
    budget.per_process = s.max_segment;
    budget.binding = "PENSTOCK_MAX_SEGSIZE";
    budget.hint = "raise it";
  }
  return budget;
}

result<void> engine::open_device() {
  auto d = nic::open_device(settings_);
  if (!d) return d.error();
  device_ = std::move(*d);
  log(log_level::info, "device %s: %s", device_.name.c_str(), device_.reason.c_str());
  if (device_.shared_memory && job_.host_size() != size_)
    return failure{device_.name +
                       " reaches the processes of one host, and this job has processes on " +
                       "others (" + std::to_string(job_.host_size()) + " of " +
                       std::to_string(size_) + " are here)",
                   0, "use hosts with RDMA devices (peninfo lists them), or one host"};
  // The direct path does not know what is in flight to all others together.
  direct_ = device_.shared_memory && settings_.direct && settings_.am_oust_limit == 0;
  if (settings_.progress_thread && !concurrent(build_mode))
    log(log_level::warning,
        "PENSTOCK_PROGRESS_THREAD is ignored: it takes the PAR library, since elsewhere handlers "
        "run in the program's one thread only");
  if (settings_.domain_count > 1 && !concurrent(build_mode))
    log(log_level::warning,
        "PENSTOCK_DOMAIN_COUNT is ignored: it takes the PAR library, since elsewhere one thread "
        "sends at a time");
  // Two threads may see one event there; only one of them gets it, and the other must not wait.
  if (!never_waits(device_.context->async_fd))
    return failure{"fcntl on the events of " + device_.name, errno, ""};
  if (device_.shared_memory) events_ = &nic::shm::event_count(device_.context);
  pd_ = device_.verbs->alloc_pd(device_.context);
  if (pd_ == nullptr) return failure{"ibv_alloc_pd on " + device_.name, errno, ""};
  registrar_ =
      std::make_unique<nic::registrar_as<memreg::registrar, memreg::registration>>(device_, pd_);
  auto c = credit::plan(size_, rank_, credit_settings(settings_));
  if (!c) return c.error();
  credit_config_ = *c;
  open_domains();
  am_limit_ = settings_.am_limit == 0 ? ~0u : settings_.am_limit;
  safe_limit_ = settings_.safe_limit == 0 ? ~0u : settings_.safe_limit;
  max_inline_ = std::min(device_.max_inline, settings_.inline_limit);
  short_inline_ = std::min(max_inline_, wire::credit_bytes);
  return {};
}

// Threads are given to the domains by their numbers, which are dense.
void engine::open_domains() {
  domain_count_ = concurrent(build_mode) ? settings_.domain_count : 1;
  domains_ = std::make_unique<domain[]>(domain_count_);
  peers_ = std::vector<peer>(std::size_t{domain_count_} * size_);
  for (std::uint32_t i = 0; i < domain_count_; ++i) {
    domain& d = domains_[i];
    d.index = i;
    d.peers = &peers_[std::size_t{i} * size_];
    d.ledger = std::make_unique<credit::ledger<build_mode>>(credit_config_);
    d.order = std::make_unique<std::atomic<peer*>[]>(size_);
    for (std::uint32_t r = 0; r < size_; ++r) {
      d.peers[r].rank = r;
      d.peers[r].home = &d;
      loan_changed(d.peers[r], 0, 0);
    }
  }
  for (std::uint32_t t = 0; t < max_threads; ++t)
    channels_of_[t] = domains_[t / settings_.threads_per_domain % domain_count_].peers;
}

result<void> engine::open_queues() {
  if (settings_.progress_thread && concurrent(build_mode)) {
    channel_ = device_.verbs->create_comp_channel(device_.context);
    if (channel_ == nullptr)
      return failure{"ibv_create_comp_channel on " + device_.name, errno, what_to_raise(errno)};
  }
  hello_channel_ = device_.verbs->create_comp_channel(device_.context);
  if (hello_channel_ == nullptr)
    return failure{"ibv_create_comp_channel for connections on " + device_.name, errno,
                   what_to_raise(errno)};
  // Datagrams of all others may come at once; what is lost is said again.
  auto port = datagrams::open(device_, pd_, std::clamp(size_ * 2 * domain_count_, 16u, 1024u),
                              hello_channel_);
  if (!port) return port.error();
  datagram_port_ = std::move(*port);
  if (direct_) {
    unused_cq_ = device_.verbs->create_cq(device_.context, 16, nullptr, channel_, 0);
    ibv_srq_init_attr init{};
    init.attr.max_wr = 1;
    init.attr.max_sge = 1;
    unused_srq_ = device_.verbs->create_srq(pd_, &init);
    if (unused_cq_ == nullptr || unused_srq_ == nullptr)
      return failure{"ibv_create_cq or ibv_create_srq on " + device_.name, errno, ""};
    return {};
  }
  const queues::dimensions size = dimensions_for(size_);
  for (std::uint32_t i = 0; i < domain_count_; ++i) {
    domain& d = domains_[i];
    if (settings_.long_depth != 0) d.longs.resize(size_);
    auto q = queues::message_queues::open(device_, pd_, *registrar_, size, channel_);
    if (!q) return q.error();
    d.queues = std::move(*q);
  }
  unanswered_limit_ = std::clamp(size.request_chunks / 4, 1u, max_unanswered);
  return {};
}

queues::dimensions engine::dimensions_for(std::uint32_t ranks) const {
  queues::dimensions d;
  d.peers = ranks - 1;
  const auto planned = credit::plan(ranks, 0, credit_settings(settings_));
  d.credits = std::max(planned ? planned->total_credits() : credit_config_.total_credits(), 1u);
  d.spares = settings_.am_spares != 0 ? settings_.am_spares : concurrent(build_mode) ? 4 : 2;
  d.full_bytes = wire::full_bytes(max_medium);
  d.full_cost = wire::full_cost(max_medium);
  d.chunk_bytes = wire::full_bytes(max_medium);
  // A request holds a chunk until it is answered, a reply until it has left.
  d.request_chunks = std::min(settings_.sb_chunks, settings_.msg_limit);
  if (settings_.am_oust_limit != 0)
    d.request_chunks = std::min(d.request_chunks, settings_.am_oust_limit);
  d.reply_chunks = std::min(settings_.rpl_chunks, settings_.msg_limit);
  // The progress thread has a reply chunk and a spare buffer of its own.
  if (channel_ != nullptr) ++d.spares, ++d.reply_chunks;
  d.depth = settings_.op_oust_pp;
  d.max_inline = max_inline_;
  return d;
}

bool engine::add_handler(std::uint8_t index, const handler_entry& h) noexcept {
  if (started_ || handlers_.user[index].call != nullptr) return false;
  handlers_.user[index] = h;
  return true;
}

std::uint8_t engine::next_handler() const noexcept {
  unsigned i = 1;
  while (i < user_handlers && handlers_.user[i].call != nullptr) ++i;
  return static_cast<std::uint8_t>(i < user_handlers ? i : 0);
}

void engine::add_system_handler(std::uint8_t index, const handler_entry& h) noexcept {
  handlers_.own[index] = h;
}

result<void> engine::start(std::size_t segment_bytes) {
  if (started_) return failure{"the endpoint has been started already", 0, ""};
  if (auto r = open_queues(); !r) return r;
  if (segment_bytes != 0) {
    memreg::segment_options o;
    o.bytes = segment_bytes;
    auto made = memreg::segment::create(o);
    if (!made) return made.error();
    segment_ = std::make_unique<memreg::segment>(std::move(*made));
    if (auto r = segment_->attach(*registrar_); !r) return r;
  }
  if (!direct_)
    if (auto r = transfers_.open(); !r) return r;
  for (unsigned i = 0; i < user_handlers; ++i) {
    handler_entry& h = handlers_.user[i];
    if (h.call == nullptr) continue;
    constexpr std::uint32_t fitting = (2u << nic::shm::slot_body / 4) - 1;
    const std::uint32_t words = h.words == any_args ? fitting : fitting & 1u << h.words;
    if (h.payload != handler_entry::takes::payload) h.plain_words[0] = words;
    if (h.payload != handler_entry::takes::nothing) h.plain_words[1] = words;
  }
  if (auto r = introduce(); !r) return r;
  auto c = connector::start(*this, hello_channel_);
  if (!c) return c.error();
  connector_ = std::move(*c);
  attendance_ = domain_count_ != 1 || channel_ != nullptr;
  started_ = true;
  quick_polls_ = direct_ && !attendance_;
  plain_verbs_ = !direct_ && !transfers_.everything();
  quick_verbs_ = plain_verbs_ && !attendance_;
  if (settings_.memory_report && rank_ == 0) std::fputs(memory_report(0).c_str(), stderr);
  return {};
}

result<void> engine::start_progress() {
  if (channel_ == nullptr) return {};
  auto p = progress::start(*this, channel_);
  if (!p) {
    stop_calls();  // there is nothing to close
    return p.error();
  }
  progress_ = std::move(*p);
  return {};
}

// Rank 0 decides for all. Between two processes with a core each a flag is faster than a count.
bool engine::counts_barriers() const noexcept {
  if (size_ != job_.host_size() || size_ > counting_words::most_ranks) return false;
  return settings_.barrier == barrier_kind::counter ||
         (settings_.barrier == barrier_kind::automatic && settings_.barrier_shm && direct_ &&
          spins_before_yield_ == 1 && size_ > 1);
}

// All processes learn where the others are, and that they agree. The exchange ends when everybody
// has posted what it takes to be spoken to, so nobody speaks too early.
result<void> engine::introduce() {
  introduction mine;
  mine.address = device_.self;
  mine.datagram_qp = datagram_port_->number();
  mine.handlers = fingerprint(handlers_.user, user_handlers);
  mine.credits = credit_config_.fingerprint();
  mine.each_credit = numbers_of(credit_config_);
  mine.direct = direct_;
  if (segment_) {
    mine.segment_base = reinterpret_cast<std::uintptr_t>(segment_->base());
    mine.segment_bytes = segment_->bytes();
    mine.segment_rkey = segment_->keys().rkey;
  }
  if (!direct_) mine.chunk_bytes = sizes().chunk_bytes;
  mine.domains = domain_count_;
  mine.wakes = direct_ && channel_ != nullptr;
  mine.reads = transfers_.reads_here();
  mine.device_atomics = transfers_.device_atomics();
  mine.everything = transfers_.everything();
  if (rank_ == 0 && counts_barriers()) page_ = host_page::make();
  if (page_) mine.page = page_->offer();
  auto all = job_.exchange(std::as_bytes(std::span(&mine, 1)));
  if (!all) return all.error();
  host_page::ticket page;
  for (std::uint32_t r = 0; r < size_; ++r) {
    introduction his;
    const auto disagree = [r](const char* what, std::uint64_t here, std::uint64_t there) {
      return failure{std::string(what) + " differs: " + std::to_string(here) + " here, " +
                         std::to_string(there) + " at rank " + std::to_string(r),
                     0, "start all processes with the same program and settings"};
    };
    if ((*all)[r].size() != sizeof his)
      return disagree("the library", sizeof his, (*all)[r].size());
    std::memcpy(&his, (*all)[r].data(), sizeof his);
    if (r == 0) page = his.page;
    if (his.version != mine.version) return disagree("the wire version", mine.version, his.version);
    if (his.max_medium_bytes != max_medium)
      return disagree("PENSTOCK_MAX_MEDIUM of the build", max_medium, his.max_medium_bytes);
    if (his.handlers != mine.handlers)
      return disagree("the table of handlers (fingerprint)", mine.handlers, his.handlers);
    for (std::size_t i = 0; i < std::size(credit_names); ++i)
      if (his.each_credit[i] != mine.each_credit[i])
        return disagree((std::string("PENSTOCK_") + credit_names[i]).c_str(), mine.each_credit[i],
                        his.each_credit[i]);
    if (his.credits != mine.credits)
      return disagree("the credit settings (fingerprint)", mine.credits, his.credits);
    if (his.direct != mine.direct) return disagree("PENSTOCK_DIRECT", mine.direct, his.direct);
    if (his.everything != mine.everything)
      return disagree("segment everything", mine.everything, his.everything);
    if (his.chunk_bytes != mine.chunk_bytes)
      return disagree("the size of send chunks", mine.chunk_bytes, his.chunk_bytes);
    if (his.domains != mine.domains)
      return disagree("PENSTOCK_DOMAIN_COUNT", mine.domains, his.domains);
    for (std::uint32_t i = 0; i < domain_count_; ++i) {
      peer& p = domains_[i].peers[r];
      p.address = his.address;
      p.datagram_qp = his.datagram_qp;
      p.segment_base = reinterpret_cast<std::byte*>(his.segment_base);
      p.segment_bytes = his.segment_bytes;
      p.segment_rkey = his.segment_rkey;
      p.wakes = his.wakes != 0;
      p.reads = static_cast<std::uint8_t>(std::clamp(his.reads, 1u, 255u));
      if (r == rank_ && segment_) p.segment_here.store(segment_->base(), std::memory_order_relaxed);
    }
    transfers_.agree(his.device_atomics != 0);
  }
  transfers_.know_segments();
  if (page.proof == 0) return {};
  auto shared = host_page::share(job_, page, std::move(page_));
  if (!shared) return shared.error();
  page_ = std::move(*shared);
  if (!page_ && rank_ == 0)
    log(log_level::info, "barriers go by messages: not all processes can map a page of rank 0");
  return {};
}

void engine::close() noexcept {
  if (!started_) return;
  if (size_ > 1 && !job_.ended()) departure_.leave(settings_.exit_limit_ns(size_));
  // Until here others are connected that need it to finish.
  connector_.reset();
  progress_.reset();
  write_credit_statistics();
  stop_calls();
}

// From here on every request goes the long way, which says that it is over.
void engine::stop_calls() noexcept {
  for (peer& p : peers_) p.stream.store(nullptr, std::memory_order_relaxed);
  started_ = quick_polls_ = quick_verbs_ = plain_verbs_ = false;
}

void engine::leave_to_parent(void* self) noexcept {
  auto& e = *static_cast<engine*>(self);
  e.stop_calls();
  e.transfers_.forget_mapped();
}

status engine::over() noexcept {
  if (is_forked()) refuse_forked();
  return status::shut_down;
}

void engine::finish_sends(std::uint64_t limit_ns) noexcept {
  const std::uint64_t until = now_ns() + limit_ns;
  for (std::uint32_t i = 0; i < domain_count_ && !direct_; ++i) {
    domain& d = domains_[i];
    backoff b(64);
    while (!job_.ended() && now_ns() < until && !sent_all(d))
      if (reap_sends(d) == 0) b.idle();
    while (!job_.ended() && now_ns() < until && !transfers_.drained(d))
      if (transfers_.reap(d) == 0) b.idle();
  }
}

bool engine::sent_all(domain& d) noexcept {
  const std::uint32_t all = d.connected.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < all; ++i)
    if (const peer& p = *d.order[i].load(std::memory_order_relaxed); !sent_all(p)) return false;
  return true;
}

bool engine::sent_all(const peer& p) noexcept {
  // A7 made  acquire p.made  <- R7 (connect.cpp): a lane that another process asks for may just be
  // on its way
  const std::uint8_t made = p.made.load(std::memory_order_acquire);
  for (unsigned l = 0; l < lane_count; ++l)
    if ((made >> l & 1) != 0 && !p.lanes[l].drained()) return false;
  return true;
}

engine::~engine() {
  close();
  closing_.store(true, std::memory_order_relaxed);
  connector_.reset();
  if (device_.verbs == nullptr) return;
  for (peer& p : peers_)
    for (auto& l : p.lanes)
      if (l.qp != nullptr) device_.verbs->destroy_qp(l.qp);
  datagram_port_.reset();
  if (hello_channel_ != nullptr) device_.verbs->destroy_comp_channel(hello_channel_);
  transfers_.close();
  domains_.reset();
  if (unused_srq_ != nullptr) device_.verbs->destroy_srq(unused_srq_);
  if (unused_cq_ != nullptr) device_.verbs->destroy_cq(unused_cq_);
  if (channel_ != nullptr) device_.verbs->destroy_comp_channel(channel_);
  segment_.reset();
  if (pd_ != nullptr) device_.verbs->dealloc_pd(pd_);
}

std::span<std::byte> engine::segment() const noexcept {
  return segment_ ? std::span(segment_->base(), segment_->bytes()) : std::span<std::byte>();
}

std::span<std::byte> engine::segment_of(rank_id r) const noexcept {
  return r < size_ ? std::span(peers_[r].segment_base, peers_[r].segment_bytes)
                   : std::span<std::byte>();
}

std::byte* engine::segment_here(rank_id r) noexcept {
  if (r >= size_ || is_forked()) return nullptr;
  peer& p = peers_[r];
  if (r == rank_ || !direct_ || p.segment_bytes == 0)
    return p.segment_here.load(std::memory_order_relaxed);
  for (unsigned empty = 0; (p.ready.load(std::memory_order_acquire) >> lane_request & 1) == 0;)
    if (is_failure(connect(p, lane_request)) || is_failure(wait_step(empty))) return nullptr;
  return p.segment_here.load(std::memory_order_relaxed);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
