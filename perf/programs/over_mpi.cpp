// The four programs over MPI: mpirun -n N programs_mpi PROGRAM WAY [SIZE]. `mail` is two-sided: a
// rank keeps receives posted for whoever sends, and looks at the oldest. `memory` is a window that
// all have locked for good.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <deque>
#include <vector>

#include "perf/programs/run.hpp"

namespace penstock::programs {

namespace {

const MPI_Comm all_ranks = MPI_COMM_WORLD;

struct over_mpi {
  class job {
   public:
    job(int argc, char** argv) {
      MPI_Init(&argc, &argv);
      MPI_Comm_rank(all_ranks, &rank_);
      MPI_Comm_size(all_ranks, &size_);
    }
    job(const job&) = delete;
    job& operator=(const job&) = delete;
    ~job() { MPI_Finalize(); }
    [[nodiscard]] rank_number rank() const noexcept { return static_cast<rank_number>(rank_); }
    [[nodiscard]] rank_number size() const noexcept { return static_cast<rank_number>(size_); }
    void barrier() { MPI_Barrier(all_ranks); }
    word sum(word mine) {
      word all = 0;
      MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, all_ranks);
      return all;
    }

   private:
    int rank_ = 0, size_ = 0;
  };

  template <class Program>
  class mail {
   public:
    mail(job& j, Program& p) : size_(j.size()), program_(p) {
      for (message& m : in_) {
        m.words.resize(most_words);
        receive(m);
      }
    }
    mail(const mail&) = delete;
    mail& operator=(const mail&) = delete;
    ~mail() {
      for (message& m : in_) {
        MPI_Cancel(&m.request);
        MPI_Wait(&m.request, MPI_STATUS_IGNORE);
      }
    }
    void send(rank_number to, letter l) {
      message& m = free_one();
      m.words.assign({l.kind, l.a, l.b});
      send(to, m, a_letter);
    }
    void send(rank_number to, std::vector<word>& words) {
      message& m = free_one();
      m.words.swap(words);
      words.clear();
      send(to, m, a_span);
    }
    void poll() {
      for (std::size_t most = in_.size(); most != 0; --most) {
        message& m = in_[oldest_];
        if (!has_ended(m)) return;
        handle(m);
        receive(m);
        oldest_ = (oldest_ + 1) % in_.size();
      }
    }
    template <class Condition>
    void wait(Condition&& c) {
      while (!c()) poll();
    }
    /// Messages of two ranks do not overtake each other: the last one of each rank says so.
    void settle() {
      for (rank_number r = 0; r < size_; ++r) {
        message& m = free_one();
        m.words.clear();
        send(r, m, the_last);
      }
      wait([&] { return last_ones_ == size_; });
      last_ones_ = 0;
      for (message& m : out_) wait([&] { return has_ended(m); });
      for (message& m : answers_) wait([&] { return has_ended(m); });
      MPI_Barrier(all_ranks);
    }

   private:
    enum : int { a_letter, a_span, the_last };
    struct message {
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Status status{};
      std::vector<word> words;
    };
    struct envelope {
      mail& m;
      int source;
      [[nodiscard]] rank_number from() const noexcept { return static_cast<rank_number>(source); }
      void answer(letter l) {
        message& a = m.free_answer();
        a.words.assign({l.kind, l.a, l.b});
        m.send(from(), a, a_letter);
      }
      void answer(std::vector<word>& words) {
        message& a = m.free_answer();
        a.words.swap(words);
        m.send(from(), a, a_span);
      }
    };
    static bool has_ended(message& m) {
      int ended = 0;
      MPI_Test(&m.request, &ended, &m.status);
      return ended != 0;
    }
    static void receive(message& m) {
      MPI_Irecv(m.words.data(), static_cast<int>(m.words.size()), MPI_UINT64_T, MPI_ANY_SOURCE,
                MPI_ANY_TAG, all_ranks, &m.request);
    }
    static void send(rank_number to, message& m, int kind) {
      MPI_Isend(m.words.data(), static_cast<int>(m.words.size()), MPI_UINT64_T,
                static_cast<int>(to), kind, all_ranks, &m.request);
    }
    /// Waits for the oldest.
    message& free_one() {
      message& m = out_[sent_++ % out_.size()];
      wait([&] { return has_ended(m); });
      return m;
    }
    /// A handler does not wait: there are as many answers as are under way.
    message& free_answer() {
      if (answers_.empty() || !has_ended(answers_.front())) return answers_.emplace_back();
      answers_.push_back(std::move(answers_.front()));
      answers_.pop_front();
      return answers_.back();
    }
    void handle(const message& m) {
      int count = 0;
      MPI_Get_count(&m.status, MPI_UINT64_T, &count);
      envelope about{*this, m.status.MPI_SOURCE};
      if (m.status.MPI_TAG == the_last)
        ++last_ones_;
      else if (m.status.MPI_TAG == a_letter)
        program_.on(about, letter{m.words[0], m.words[1], m.words[2]});
      else
        program_.on(about, words_view(std::as_bytes(std::span(m.words))
                                          .first(static_cast<std::size_t>(count) * sizeof(word))));
    }
    rank_number size_;
    Program& program_;
    std::array<message, 64> in_, out_;
    std::deque<message> answers_;
    std::size_t oldest_ = 0, sent_ = 0;
    rank_number last_ones_ = 0;
  };

  class memory {
   public:
    memory(job& j, std::size_t words) : words_(words) {
      MPI_Win_allocate(static_cast<MPI_Aint>(words * sizeof(word)), sizeof(word), MPI_INFO_NULL,
                       all_ranks, &here_, &window_);
      std::fill_n(here_, words, 0);
      MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
      j.barrier();
    }
    memory(const memory&) = delete;
    memory& operator=(const memory&) = delete;
    ~memory() {
      MPI_Win_unlock_all(window_);
      MPI_Win_free(&window_);
    }
    word get(rank_number from, word at) { return fetch(from, at, 0, MPI_NO_OP); }
    void get(rank_number from, word at, std::span<word> to) {
      const int n = static_cast<int>(to.size()), r = static_cast<int>(from);
      MPI_Get(to.data(), n, MPI_UINT64_T, r, place(at), n, MPI_UINT64_T, window_);
      MPI_Win_flush(r, window_);
    }
    void put(rank_number to, word at, std::span<const word> from) {
      const int n = static_cast<int>(from.size()), r = static_cast<int>(to);
      MPI_Put(from.data(), n, MPI_UINT64_T, r, place(at), n, MPI_UINT64_T, window_);
      MPI_Win_flush(r, window_);
    }
    word compare_and_swap(rank_number to, word at, word expected, word desired) {
      const int r = static_cast<int>(to);
      word former = 0;
      MPI_Compare_and_swap(&desired, &expected, &former, MPI_UINT64_T, r, place(at), window_);
      MPI_Win_flush(r, window_);
      return former;
    }
    word fetch_add(rank_number to, word at, word value) { return fetch(to, at, value, MPI_SUM); }
    void exclusive_or(rank_number to, word at, word value) {
      if (under_way_ == sources_.size()) flush();
      word& source = sources_[under_way_++];
      source = value;
      MPI_Accumulate(&source, 1, MPI_UINT64_T, static_cast<int>(to), place(at), 1, MPI_UINT64_T,
                     MPI_BXOR, window_);
    }
    void flush() {
      MPI_Win_flush_all(window_);
      under_way_ = 0;
    }
    [[nodiscard]] std::span<const word> here() const {
      MPI_Win_sync(window_);
      return {here_, words_};
    }
    void poll() {  // what others do here may need this rank's help
      int any = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, all_ranks, &any, MPI_STATUS_IGNORE);
    }

   private:
    static MPI_Aint place(word at) noexcept { return static_cast<MPI_Aint>(at); }
    word fetch(rank_number from, word at, word value, MPI_Op op) {
      word former = 0;
      const int r = static_cast<int>(from);
      MPI_Fetch_and_op(&value, &former, MPI_UINT64_T, r, place(at), op, window_);
      MPI_Win_flush(r, window_);
      return former;
    }
    std::size_t words_;
    word* here_ = nullptr;
    MPI_Win window_ = MPI_WIN_NULL;
    std::array<word, 64> sources_{};
    std::size_t under_way_ = 0;
  };

  class faces_by_mail {
   public:
    faces_by_mail(job& j, const decomposition& cut, field& f)
        : faces_(j.rank(), j.size(), cut, f), came_(faces_.size()) {
      requests_.fill(MPI_REQUEST_NULL);
    }
    void send(std::uint32_t step) {
      for (unsigned i = 0; i < 6; ++i)
        if (const face f = face_of(i); !faces_.is_own(f))
          MPI_Irecv(&came_[faces_.place_of(f)], static_cast<int>(faces_.count(f)), MPI_DOUBLE,
                    static_cast<int>(faces_.neighbour(f)), static_cast<int>(i), all_ranks,
                    &requests_[i]);
      faces_.each(step, [&](face f, std::span<const double> cells) {
        MPI_Isend(cells.data(), static_cast<int>(cells.size()), MPI_DOUBLE,
                  static_cast<int>(faces_.neighbour(f)), static_cast<int>(f.opposite().index()),
                  all_ranks, &requests_[6 + f.index()]);
      });
    }
    void poll() {
      int all = 0;
      MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all, MPI_STATUSES_IGNORE);
    }
    void finish(std::uint32_t step) {
      MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
      faces_.unpack_from(step, came_);
    }

   private:
    packed_faces faces_;
    std::vector<double> came_;
    std::array<MPI_Request, 12> requests_;
  };

  /// Neighbours open their windows to each other for each step.
  class faces_by_memory {
   public:
    faces_by_memory(job& j, const decomposition& cut, field& f)
        : faces_(j.rank(), j.size(), cut, f) {
      MPI_Win_allocate(static_cast<MPI_Aint>(faces_.size() * sizeof(double)), sizeof(double),
                       MPI_INFO_NULL, all_ranks, &came_, &window_);
      std::vector<int> near;
      for (unsigned i = 0; i < 6; ++i)
        if (!faces_.is_own(face_of(i)))
          near.push_back(static_cast<int>(faces_.neighbour(face_of(i))));
      std::sort(near.begin(), near.end());
      near.erase(std::unique(near.begin(), near.end()), near.end());
      MPI_Group all = MPI_GROUP_NULL;
      MPI_Comm_group(all_ranks, &all);
      MPI_Group_incl(all, static_cast<int>(near.size()), near.data(), &neighbours_);
      MPI_Group_free(&all);
    }
    faces_by_memory(const faces_by_memory&) = delete;
    faces_by_memory& operator=(const faces_by_memory&) = delete;
    ~faces_by_memory() {
      MPI_Group_free(&neighbours_);
      MPI_Win_free(&window_);
    }
    void send(std::uint32_t step) {
      MPI_Win_post(neighbours_, 0, window_);
      MPI_Win_start(neighbours_, 0, window_);
      faces_.each(step, [&](face f, std::span<const double> cells) {
        const int n = static_cast<int>(cells.size());
        MPI_Put(cells.data(), n, MPI_DOUBLE, static_cast<int>(faces_.neighbour(f)),
                static_cast<MPI_Aint>(faces_.place_of(f.opposite())), n, MPI_DOUBLE, window_);
      });
      MPI_Win_complete(window_);
    }
    void poll() {
      int any = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, all_ranks, &any, MPI_STATUS_IGNORE);
    }
    void finish(std::uint32_t step) {
      MPI_Win_wait(window_);
      faces_.unpack_from(step, std::span<const double>(came_, faces_.size()));
    }

   private:
    packed_faces faces_;
    double* came_ = nullptr;
    MPI_Win window_ = MPI_WIN_NULL;
    MPI_Group neighbours_ = MPI_GROUP_NULL;
  };
};

}  // namespace

}  // namespace penstock::programs

int main(int argc, char** argv) {
  return penstock::programs::run<penstock::programs::over_mpi>(argc, argv);
}
