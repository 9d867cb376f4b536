// The four programs over gasnetex.h, Penstock's or another: penrun -n N programs_gex_penstock
// PROGRAM WAY [SIZE]. `mail` is active messages, whose handlers run while a rank polls; `memory` is
// puts, gets and atomics on the segment.
#include <gasnet_ratomic.h>

#include <algorithm>
#include <array>
#include <vector>

#include "perf/gasnet_ex.hpp"
#include "perf/programs/run.hpp"

namespace penstock::programs {

using gasnet_ex::high, gasnet_ex::low, gasnet_ex::must, gasnet_ex::row, gasnet_ex::word_of;

struct over_gasnetex {
  using job = gasnet_ex::job;

  template <class Program>
  class mail {
   public:
    mail(job& j, Program& p) : job_(j), program_(p) {
      if (std::min(gex_AM_LUBRequestMedium(), gex_AM_LUBReplyMedium()) < most_words * sizeof(word))
        must(GASNET_ERR_RESOURCE, "Mediums of 4,000 bytes");
      self_ = this;
      constexpr gex_Flags_t request = GEX_FLAG_AM_REQUEST, reply = GEX_FLAG_AM_REPLY;
      gex_AM_Entry_t handlers[] = {
          row(a_letter, request | GEX_FLAG_AM_SHORT, on_letter<true>),
          row(a_span, request | GEX_FLAG_AM_MEDIUM, on_words<true>),
          row(letter_back, reply | GEX_FLAG_AM_SHORT, on_letter<false>),
          row(span_back, reply | GEX_FLAG_AM_MEDIUM, on_words<false>),
      };
      j.start(handlers, 0);
    }
    mail(const mail&) = delete;
    mail& operator=(const mail&) = delete;

    void send(rank_number to, letter l) {
      must(gex_AM_RequestShort6(job_.tm(), to, a_letter, 0, high(l.kind), low(l.kind), high(l.a),
                                low(l.a), high(l.b), low(l.b)),
           "a request");
      ++sent_;
    }
    void send(rank_number to, std::vector<word>& words) {
      must(gex_AM_RequestMedium0(job_.tm(), to, a_span, words.data(), words.size() * sizeof(word),
                                 GEX_EVENT_NOW, 0),
           "a request");
      ++sent_;
      words.clear();
    }
    void poll() { job::poll(); }
    template <class Condition>
    void wait(Condition&& c) {
      GASNET_BLOCKUNTIL(c());
    }
    /// Who is here sends no requests any more, so that what has been sent does not grow.
    void settle() {
      while (job_.sum(sent_ - handled_) != 0) poll();
    }

   private:
    enum : gex_AM_Index_t { a_letter = GEX_AM_INDEX_BASE, a_span, letter_back, span_back };
    struct envelope {
      gex_Token_t token;
      [[nodiscard]] rank_number from() const {
        gex_Token_Info_t info;
        (void)gex_Token_Info(token, &info, GEX_TI_SRCRANK);
        return info.gex_srcrank;
      }
      void answer(letter l) {
        must(gex_AM_ReplyShort6(token, letter_back, 0, high(l.kind), low(l.kind), high(l.a),
                                low(l.a), high(l.b), low(l.b)),
             "a reply");
      }
      void answer(std::vector<word>& words) {
        must(gex_AM_ReplyMedium0(token, span_back, words.data(), words.size() * sizeof(word),
                                 GEX_EVENT_NOW, 0),
             "a reply");
      }
    };
    template <bool Request>
    static void on_letter(gex_Token_t t, gex_AM_Arg_t kind1, gex_AM_Arg_t kind0, gex_AM_Arg_t a1,
                          gex_AM_Arg_t a0, gex_AM_Arg_t b1, gex_AM_Arg_t b0) {
      self_->program_.on(envelope{t},
                         letter{word_of(kind1, kind0), word_of(a1, a0), word_of(b1, b0)});
      self_->handled_ += Request;
    }
    template <bool Request>
    static void on_words(gex_Token_t t, void* payload, std::size_t bytes) {
      self_->program_.on(envelope{t}, words_view({static_cast<const std::byte*>(payload), bytes}));
      self_->handled_ += Request;
    }
    static inline mail* self_ = nullptr;
    job& job_;
    Program& program_;
    word sent_ = 0, handled_ = 0;  // requests
  };

  class memory {
   public:
    memory(job& j, std::size_t words) : job_(j), words_(words) {
      j.start({}, words * sizeof(word));
      gex_AD_Create(&each_, j.tm(), GEX_DT_U64, GEX_OP_GET | GEX_OP_FCAS | GEX_OP_FADD, 0);
      gex_AD_Create(&inverted_, j.tm(), GEX_DT_U64, GEX_OP_XOR, 0);
      under_way_.fill(GEX_EVENT_INVALID);
    }
    word get(rank_number from, word at) { return former(from, at, GEX_OP_GET, 0, 0); }
    void get(rank_number from, word at, std::span<word> to) {
      gex_RMA_GetBlocking(job_.tm(), to.data(), from, place(from, at), to.size_bytes(), 0);
    }
    void put(rank_number to, word at, std::span<const word> from) {
      gex_RMA_PutBlocking(job_.tm(), to, place(to, at), const_cast<word*>(from.data()),
                          from.size_bytes(), 0);
    }
    word compare_and_swap(rank_number to, word at, word expected, word desired) {
      return former(to, at, GEX_OP_FCAS, expected, desired);
    }
    word fetch_add(rank_number to, word at, word value) {
      return former(to, at, GEX_OP_FADD, value, 0);
    }
    void exclusive_or(rank_number to, word at, word value) {
      gex_Event_t& e = under_way_[next_++ % under_way_.size()];
      gex_Event_Wait(e);
      e = gex_AD_OpNB_U64(inverted_, nullptr, to, place(to, at), GEX_OP_XOR, value, 0, 0);
    }
    void flush() { gex_Event_WaitAll(under_way_.data(), under_way_.size(), 0); }
    [[nodiscard]] std::span<const word> here() const noexcept {
      return {place(job_.rank(), 0), words_};
    }
    void poll() { job::poll(); }

   private:
    [[nodiscard]] word* place(rank_number r, word at) const noexcept {
      return reinterpret_cast<word*>(job_.segment_of(r)) + at;
    }
    word former(rank_number of, word at, gex_OP_t op, word a, word b) {
      word value = 0;
      gex_Event_Wait(gex_AD_OpNB_U64(each_, &value, of, place(of, at), op, a, b,
                                     GEX_FLAG_AD_ACQ | GEX_FLAG_AD_REL));
      return value;
    }
    job& job_;
    std::size_t words_;
    gex_AD_t each_ = GEX_AD_INVALID, inverted_ = GEX_AD_INVALID;
    std::array<gex_Event_t, 64> under_way_;
    std::size_t next_ = 0;
  };

  /// Each face goes in pieces, as Mediums or as Longs, whose handler unpacks them. As in
  /// ghost::exchange no neighbour is more than a step ahead, so that the segment has the faces of
  /// two steps, and there are two counters.
  template <bool Long>
  class faces {
   public:
    faces(job& j, const decomposition& cut, field& f)
        : job_(j), faces_(j.rank(), j.size(), cut, f), field_(f) {
      self_ = this;
      const std::size_t bytes = Long ? gex_AM_LUBRequestLong() : gex_AM_LUBRequestMedium();
      most_ = std::min<std::size_t>(bytes / sizeof(double), faces_.size());
      for (unsigned i = 0; i < 6; ++i)
        if (const face each = face_of(i); !faces_.is_own(each)) expected_ += faces_.count(each);
      gex_AM_Entry_t handlers[] = {row(
          a_piece, GEX_FLAG_AM_REQUEST | (Long ? GEX_FLAG_AM_LONG : GEX_FLAG_AM_MEDIUM), on_piece)};
      j.start(handlers, Long ? 2 * faces_.size() * sizeof(double) : 0);
    }
    faces(const faces&) = delete;
    faces& operator=(const faces&) = delete;

    void send(std::uint32_t step) {
      faces_.each(step, [&](face f, std::span<const double> cells) {
        for (std::size_t at = 0; at < cells.size(); at += most_)
          send_piece(step, f, at, cells.subspan(at, std::min(most_, cells.size() - at)));
      });
    }
    void poll() { job::poll(); }
    void finish(std::uint32_t step) {
      std::size_t& arrived = arrived_[step % 2];
      GASNET_BLOCKUNTIL(arrived == expected_);
      arrived = 0;
    }

   private:
    enum : gex_AM_Index_t { a_piece = GEX_AM_INDEX_BASE };
    void send_piece(std::uint32_t step, face f, std::size_t at, std::span<const double> cells) {
      const rank_number to = faces_.neighbour(f);
      const face theirs = f.opposite();
      double* const from = const_cast<double*>(cells.data());
      const auto step_arg = static_cast<gex_AM_Arg_t>(step),
                 face_arg = static_cast<gex_AM_Arg_t>(theirs.index()),
                 at_arg = static_cast<gex_AM_Arg_t>(at);
      if constexpr (Long)
        must(gex_AM_RequestLong3(job_.tm(), to, a_piece, from, cells.size_bytes(),
                                 reinterpret_cast<double*>(job_.segment_of(to)) +
                                     step % 2 * faces_.size() + faces_.place_of(theirs) + at,
                                 GEX_EVENT_NOW, 0, step_arg, face_arg, at_arg),
             "a request");
      else
        must(gex_AM_RequestMedium3(job_.tm(), to, a_piece, from, cells.size_bytes(), GEX_EVENT_NOW,
                                   0, step_arg, face_arg, at_arg),
             "a request");
    }
    static void on_piece(gex_Token_t, void* payload, std::size_t bytes, gex_AM_Arg_t step,
                         gex_AM_Arg_t index, gex_AM_Arg_t at) {
      const auto number = static_cast<std::uint32_t>(step);
      self_->field_.unpack(number, face_of(static_cast<unsigned>(index)),
                           static_cast<std::uint32_t>(at),
                           {static_cast<const std::byte*>(payload), bytes});
      self_->arrived_[number % 2] += bytes / sizeof(double);
    }
    static inline faces* self_ = nullptr;
    job& job_;
    packed_faces faces_;
    field& field_;
    std::size_t most_ = 0, expected_ = 0;  // doubles of a piece, of all faces
    std::array<std::size_t, 2> arrived_{};
  };
  using faces_by_mail = faces<false>;
  using faces_by_memory = faces<true>;
};

}  // namespace penstock::programs

int main(int argc, char** argv) {
  const int rc = penstock::programs::run<penstock::programs::over_gasnetex>(argc, argv);
  std::fflush(nullptr);
  gasnet_exit(rc);
}
