// A process that was started by a PMIx launcher: Slurm's srun, Open MPI's mpirun, prterun. The
// library of PMIx is opened at run time, so that programs run where it is not installed; a build
// needs its header only.
#include <cerrno>
#include <cstring>

#include "lib/base/descriptors.hpp"
#include "lib/job/launchers.hpp"

#ifdef PENSTOCK_HAVE_PMIX

#include <dlfcn.h>
#include <pmix.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>

#include "lib/job/wire.hpp"

namespace penstock::job {
namespace {

// The library's calls that are used here, looked up once.
struct library {
  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  decltype(&PMIx_Put) put = nullptr;
  decltype(&PMIx_Commit) commit = nullptr;
  decltype(&PMIx_Fence) fence = nullptr;
  decltype(&PMIx_Fence_nb) begin_fence = nullptr;
  decltype(&PMIx_Get) get = nullptr;
  decltype(&PMIx_Abort) abort = nullptr;
  decltype(&PMIx_Error_string) error_string = nullptr;
  decltype(&PMIx_Register_event_handler) on_event = nullptr;

  result<void> open() {
    void* handle = nullptr;
    for (const char* name : {"libpmix.so.2", "libpmix.so"})
      if (handle == nullptr) handle = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (handle == nullptr)
      return failure{
          std::string("started by a PMIx launcher, but there is no PMIx library: ") + ::dlerror(),
          0, "install libpmix2, or use penrun"};
    const bool all = find(handle, "PMIx_Init", init) && find(handle, "PMIx_Finalize", finalize) &&
                     find(handle, "PMIx_Put", put) && find(handle, "PMIx_Commit", commit) &&
                     find(handle, "PMIx_Fence", fence) &&
                     find(handle, "PMIx_Fence_nb", begin_fence) && find(handle, "PMIx_Get", get) &&
                     find(handle, "PMIx_Abort", abort) &&
                     find(handle, "PMIx_Error_string", error_string) &&
                     find(handle, "PMIx_Register_event_handler", on_event);
    if (!all) return failure{std::string("the PMIx library is unusable: ") + ::dlerror(), 0, ""};
    return {};
  }

  template <class F>
  static bool find(void* handle, const char* name, F& into) {
    into = reinterpret_cast<F>(::dlsym(handle, name));
    return into != nullptr;
  }
};

class pmix_job final : public job {
 public:
  ~pmix_job() override {
    // Events may come until the library is finalized, by finalize() or here.
    if (!missed()) leave();
    listener_.store(nullptr, std::memory_order_relaxed);  // relaxed: nothing is behind it
    if (ended_fd_ >= 0) ::close(ended_fd_);
  }

  result<void> open() {
    if (auto r = pmix_.open(); !r) return r;
    if (auto r = check(pmix_.init(&me_, nullptr, 0), "PMIx_Init"); !r) return r;
    inside_ = true;
    auto size = get_number(PMIX_JOB_SIZE);
    if (!size) return size.error();
    if (auto r = check_place("PMIx", me_.rank, *size); !r) return r;
    rank_ = me_.rank;
    size_ = *size;
    find_host();
    ended_fd_ = opened("eventfd", ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (ended_fd_ < 0) return failure{"eventfd", errno, ""};
    listen();
    // The launcher's name for the job can be guessed; the random one of rank 0 cannot.
    const std::string mine = rank_ == 0 ? random_name() : std::string();
    auto names = exchange(std::as_bytes(std::span(mine)));
    if (!names) return names.error();
    auto name = name_from((*names)[0]);
    if (!name) return name.error();
    name_ = std::move(*name);
    return {};
  }

  result<std::vector<std::vector<std::byte>>> exchange(std::span<const std::byte> mine) override {
    const std::string key = "penstock." + std::to_string(round_++);
    pmix_value_t value{};
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = const_cast<char*>(reinterpret_cast<const char*>(mine.data()));
    value.data.bo.size = mine.size();
    if (auto r = check(pmix_.put(PMIX_GLOBAL, key.c_str(), &value), "PMIx_Put"); !r)
      return r.error();
    if (auto r = check(pmix_.commit(), "PMIx_Commit"); !r) return r.error();
    if (auto r = meet(true); !r) return r.error();
    std::vector<std::vector<std::byte>> out;
    for (std::uint32_t peer = 0; peer < size_; ++peer) {
      auto got = get(peer, key.c_str());
      if (!got) return got.error();
      const auto* const bytes = reinterpret_cast<const std::byte*>((*got)->data.bo.bytes);
      std::vector<std::byte>& theirs = out.emplace_back();
      if ((*got)->type != PMIX_BYTE_OBJECT) return unfit(key, **got);
      if (bytes != nullptr) theirs.assign(bytes, bytes + (*got)->data.bo.size);
    }
    return out;
  }

  result<void> fence() override { return meet(false); }

  result<void> begin_fence() override {
    fence_.store(fence_pending, std::memory_order_relaxed);
    pmix_proc_t all = me_;
    all.rank = PMIX_RANK_WILDCARD;
    const pmix_status_t s = pmix_.begin_fence(&all, 1, nullptr, 0, on_fence, nullptr);
    // PMIx may have completed the fence before it returns; it does not call back then.
    if (s == PMIX_OPERATION_SUCCEEDED) fence_.store(PMIX_SUCCESS, std::memory_order_relaxed);
    return s == PMIX_OPERATION_SUCCEEDED ? result<void>() : check(s, "PMIx_Fence_nb");
  }

  result<bool> fence_is_over() override {
    // N2 fence  load-acquire fence_  <- N1
    const int s = fence_.load(std::memory_order_acquire);
    if (s == fence_pending) return ended() ? result<bool>(over()) : false;
    if (auto r = check(s, "PMIx_Fence_nb"); !r) return r.error();
    return true;
  }

  void finalize(int) override { leave(); }  // the exit code is the process's own

 protected:
  void tell_abort(int code) noexcept override {
    // The launcher may kill this process before the call returns; if it never answers, the alarm
    // ends the process.
    std::signal(SIGALRM, SIG_DFL);
    ::alarm(5);
    if (inside_) pmix_.abort(code, "", nullptr, 0);
  }

 private:
  [[nodiscard]] failure over() const {
    return failure{"the job is over: " + ended_by()->text(), 0, ""};
  }
  result<void> check(pmix_status_t s, const char* call) const {
    if (s == PMIX_SUCCESS) return {};
    if (ended()) return over();
    return failure{std::string(call) + ": " + pmix_.error_string(s), 0, ""};
  }

  result<void> meet(bool collect) {
    pmix_info_t info{};
    std::strncpy(info.key, PMIX_COLLECT_DATA, PMIX_MAX_KEYLEN);
    info.value.type = PMIX_BOOL;
    info.value.data.flag = collect;
    pmix_proc_t all = me_;
    all.rank = PMIX_RANK_WILDCARD;
    return check(pmix_.fence(&all, 1, &info, 1), "PMIx_Fence");
  }

  // Frees a value, which the library has allocated, with what it has.
  struct release {
    void operator()(pmix_value_t* v) const noexcept {
      if (v->type == PMIX_STRING) ::free(v->data.string);
      if (v->type == PMIX_BYTE_OBJECT) ::free(v->data.bo.bytes);
      ::free(v);
    }
  };
  using held_value = std::unique_ptr<pmix_value_t, release>;

  // What a process has put, or the launcher says of the job (PMIX_RANK_WILDCARD); not null.
  result<held_value> get(pmix_rank_t of, const char* key) {
    pmix_proc_t who = me_;
    who.rank = of;
    pmix_value_t* got = nullptr;
    if (auto r = check(pmix_.get(&who, key, nullptr, 0, &got), "PMIx_Get"); !r) return r.error();
    if (got == nullptr) return failure{std::string("PMIx_Get of ") + key + " gives nothing", 0, ""};
    return held_value(got);
  }
  static failure unfit(const std::string& key, const pmix_value_t& v) {
    return failure{"PMIx_Get of " + key + " gives a value of type " + std::to_string(v.type), 0,
                   ""};
  }

  result<std::uint32_t> get_number(const char* key) {
    auto got = get(PMIX_RANK_WILDCARD, key);
    if (!got) return got.error();
    if ((*got)->type != PMIX_UINT32) return unfit(key, **got);
    return (*got)->data.uint32;
  }

  // PMIX_LOCAL_PEERS is "0,1,2". Where the launcher does not tell, each process counts as a host of
  // its own.
  void find_host() {
    host_ranks_.clear();
    if (auto got = get(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS);
        got && (*got)->type == PMIX_STRING && (*got)->data.string != nullptr) {
      const char* at = (*got)->data.string;
      const char* const end = at + std::strlen(at);
      std::uint32_t peer = 0;
      while (at < end) {
        const auto [next, error] = std::from_chars(at, end, peer);
        if (error != std::errc{}) break;
        if (peer < size_) host_ranks_.push_back(peer);
        at = next < end ? next + 1 : end;
      }
    }
    std::sort(host_ranks_.begin(), host_ranks_.end());
    host_ranks_.erase(std::unique(host_ranks_.begin(), host_ranks_.end()), host_ranks_.end());
    auto self = std::find(host_ranks_.begin(), host_ranks_.end(), rank_);
    if (self == host_ranks_.end()) {
      host_ranks_ = {rank_};
      self = host_ranks_.begin();
    }
    host_rank_ = static_cast<std::uint32_t>(self - host_ranks_.begin());
  }

  // Asks the launcher to announce deaths. One that cannot kills the job itself.
  void listen() {
    // L1 publish  store-release listener_  -> L2  members used by on_event are set
    listener_.store(this, std::memory_order_release);
    static pmix_status_t codes[] = {
        PMIX_ERR_PROC_ABORTED,        PMIX_ERR_PROC_REQUESTED_ABORT, PMIX_ERR_PROC_TERM_WO_SYNC,
        PMIX_ERR_PROC_ABORTED_BY_SIG, PMIX_ERR_EXIT_NONZERO_TERM,    PMIX_ERR_PROC_KILLED_BY_CMD,
        PMIX_ERR_JOB_ABORTED,         PMIX_ERR_JOB_ABORTED_BY_SIG,   PMIX_ERR_JOB_NON_ZERO_TERM,
        PMIX_ERR_LOST_CONNECTION,     PMIX_ERR_JOB_TERM_WO_SYNC};
    pmix_.on_event(codes, std::size(codes), nullptr, 0, on_event, nullptr, nullptr);
  }

  static void on_event(std::size_t, pmix_status_t, const pmix_proc_t* source, pmix_info_t*,
                       std::size_t, pmix_info_t*, std::size_t,
                       pmix_event_notification_cbfunc_fn_t done, void* data) {
    // L2 use  load-acquire listener_  <- L1
    if (pmix_job* self = listener_.load(std::memory_order_acquire)) {
      const bool known = source != nullptr && source->rank < self->size_;
      self->announce({known ? static_cast<int>(source->rank) : -1, 1});
    }
    if (done != nullptr) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, data);
  }

  static void on_fence(pmix_status_t s, void*) {
    // N1 fence  store-release fence_  -> N2  what all others wrote before it is visible
    fence_.store(s, std::memory_order_release);
  }

  void leave() {
    if (!inside_) return;
    inside_ = false;
    pmix_.finalize(nullptr, 0);
  }

  inline static std::atomic<pmix_job*> listener_{nullptr};  // PMIx passes no pointer of ours
  static constexpr int fence_pending = 1;                   // PMIx's own codes are 0 and negative
  inline static std::atomic<int> fence_{fence_pending};  // may be answered after the job has gone
  library pmix_;
  pmix_proc_t me_{};
  std::uint32_t round_ = 0;
  bool inside_ = false;
};

}  // namespace

result<std::unique_ptr<job>> join_pmix(const settings&) {
  auto j = std::make_unique<pmix_job>();
  if (auto r = j->open(); !r) return r.error();
  return std::unique_ptr<job>(std::move(j));
}

}  // namespace penstock::job

#else

namespace penstock::job {

result<std::unique_ptr<job>> join_pmix(const settings& s) {
  return failure{"started by a PMIx launcher (job " + s.pmix + "), but built without PMIx", 0,
                 "use penrun, or build with libpmix-dev installed"};
}

}  // namespace penstock::job

#endif
