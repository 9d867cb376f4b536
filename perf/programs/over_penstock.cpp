// The four programs over Penstock: penrun -n N programs_penstock PROGRAM WAY [SIZE].
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "penstock/atomic.hpp"
#include "penstock/penstock.hpp"
#include "perf/ghost/exchange.hpp"
#include "perf/programs/run.hpp"

namespace penstock::programs {

namespace {

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr, "programs_penstock: %s\n", why);
  std::exit(1);
}
void must(status s) {
  if (is_failure(s)) give_up(describe(s));
}
template <class T>
T need(result<T> r) {
  if (!r) give_up(r.error().message().c_str());
  if constexpr (!std::is_void_v<T>) return std::move(*r);
}

struct over_penstock {
  class job {
   public:
    job(int, char**) : world_(need(world::join())), ep_(need(endpoint::open(world_))) {}
    [[nodiscard]] rank_number rank() const noexcept { return ep_.rank(); }
    [[nodiscard]] rank_number size() const noexcept { return ep_.size(); }
    void barrier() { must(ep_.barrier()); }
    word sum(word mine) {
      barrier();  // the exchange runs no handlers
      word all = 0;
      for (const auto& theirs : need(world_.exchange(std::as_bytes(std::span(&mine, 1)))))
        all += words_view(theirs)[0];
      return all;
    }
    [[nodiscard]] endpoint& ep() noexcept { return ep_; }

   private:
    world world_;
    endpoint ep_;
  };

  template <class Program>
  class mail {
   public:
    mail(job& j, Program& p)
        : ep_(j.ep()),
          program_(p),
          letter_(ep_.add<&mail::on_letter>(this)),
          words_(ep_.add<&mail::on_words>(this)) {
      need(ep_.start());
    }
    void send(rank_number to, letter l) { must(ep_.request_short(to, letter_, l.kind, l.a, l.b)); }
    void send(rank_number to, std::vector<word>& words) {
      must(ep_.request_medium(to, words_, std::as_bytes(std::span(words))));
      words.clear();
    }
    void poll() { must(ep_.poll()); }
    template <class Condition>
    void wait(Condition&& c) {
      must(ep_.wait_until(c));
    }
    void settle() {
      must(ep_.quiet());
      must(ep_.barrier());
    }

   private:
    struct envelope {
      mail& m;
      token& t;
      [[nodiscard]] rank_number from() const noexcept { return t.source(); }
      void answer(letter l) { must(t.reply_short(m.letter_, l.kind, l.a, l.b)); }
      void answer(std::vector<word>& words) {
        must(t.reply_medium(m.words_, std::as_bytes(std::span(words))));
      }
    };
    void on_letter(token& t, word kind, word a, word b) {
      program_.on(envelope{*this, t}, letter{kind, a, b});
    }
    void on_words(token& t, std::span<std::byte> payload) {
      program_.on(envelope{*this, t}, words_view(payload));
    }
    endpoint& ep_;
    Program& program_;
    short_handler<word, word, word> letter_;
    payload_handler<> words_;
  };

  class memory {
   public:
    memory(job& j, std::size_t words) : ep_(j.ep()), words_(words) {
      need(ep_.start(words * sizeof(word)));
      reach_.emplace(ep_);
      each_.emplace(*reach_, atomic_ops::get | atomic_ops::cas | atomic_ops::add);
      inverted_.emplace(*reach_, atomic_ops::bit_xor);
    }
    word get(rank_number from, word at) {
      word value = 0;
      must(each_->get(from, place(from, at), value));
      return value;
    }
    void get(rank_number from, word at, std::span<word> to) {
      must(reach_->get(std::as_writable_bytes(to), from, place(from, at)));
    }
    void put(rank_number to, word at, std::span<const word> from) {
      must(reach_->put(to, place(to, at), std::as_bytes(from)));
    }
    word compare_and_swap(rank_number to, word at, word expected, word desired) {
      word former = 0;
      must(each_->cas(to, place(to, at), expected, desired, former));
      return former;
    }
    word fetch_add(rank_number to, word at, word value) {
      word former = 0;
      must(each_->fetch_add(to, place(to, at), value, former));
      return former;
    }
    void exclusive_or(rank_number to, word at, word value) {
      operation& o = under_way_[next_++ % under_way_.size()];
      must(o.wait());
      o = inverted_->start<atomic_ops::bit_xor>(to, place(to, at), value);
    }
    void flush() { must(wait_all(under_way_)); }
    [[nodiscard]] std::span<const word> here() const noexcept {
      return {place(ep_.rank(), 0), words_};
    }
    void poll() { must(ep_.poll()); }

   private:
    [[nodiscard]] word* place(rank_number r, word at) const noexcept {
      return reinterpret_cast<word*>(ep_.segment_of(r).data()) + at;
    }
    endpoint& ep_;
    std::size_t words_;
    std::optional<remote_memory> reach_;
    std::optional<atomic_domain<word>> each_, inverted_;
    std::array<operation, 64> under_way_;
    std::size_t next_ = 0;
  };

  class faces_by_mail {
   public:
    faces_by_mail(job& j, const decomposition& cut, field& f)
        : ep_(j.ep()), exchange_(ep_, cut, f) {
      need(ep_.start());
    }
    void send(std::uint32_t step) { must(exchange_.send(step)); }
    void poll() { must(ep_.poll()); }
    void finish(std::uint32_t step) { must(exchange_.finish(step)); }

   private:
    endpoint& ep_;
    ghost::exchange exchange_;
  };

  /// Each face is a Long, whose handler unpacks it. As in ghost::exchange no neighbour is more than
  /// a step ahead, so that the segment has the faces of two steps.
  class faces_by_memory {
   public:
    faces_by_memory(job& j, const decomposition& cut, field& f)
        : ep_(j.ep()),
          faces_(j.rank(), j.size(), cut, f),
          came_(ep_.add<&faces_by_memory::on_face>(this)) {
      for (unsigned i = 0; i < 6; ++i) expected_ += !faces_.is_own(face_of(i));
      need(ep_.start(2 * faces_.size() * sizeof(double)));
    }
    void send(std::uint32_t step) {
      faces_.each(step, [&](face f, std::span<const double> cells) {
        const rank_number to = faces_.neighbour(f);
        double* const there = reinterpret_cast<double*>(ep_.segment_of(to).data()) +
                              step % 2 * faces_.size() + faces_.place_of(f.opposite());
        must(ep_.request_long(to, came_, std::as_bytes(cells), there, step, f.opposite().index()));
      });
    }
    void poll() { must(ep_.poll()); }
    void finish(std::uint32_t step) {
      unsigned& arrived = arrived_[step % 2];
      must(ep_.wait_until([&] { return arrived == expected_; }));
      arrived = 0;
    }

   private:
    void on_face(token&, std::span<std::byte> payload, std::uint32_t step, unsigned index) {
      faces_.unpack(step, face_of(index), payload);
      ++arrived_[step % 2];
    }
    endpoint& ep_;
    packed_faces faces_;
    payload_handler<std::uint32_t, unsigned> came_;
    unsigned expected_ = 0;
    std::array<unsigned, 2> arrived_{};
  };
};

}  // namespace

}  // namespace penstock::programs

int main(int argc, char** argv) {
  return penstock::programs::run<penstock::programs::over_penstock>(argc, argv);
}
