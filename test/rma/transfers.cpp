// Job program: puts, gets and sets of many sizes and alignments, in every form of completion, from
// and to memory inside and outside the segment, to every rank and to the rank itself; each byte is
// checked, and the bytes next to them.
#include <sys/mman.h>

#include <cstring>

#include "penstock/heap.hpp"
#include "test/rma/job.hpp"

using namespace penstock;
using test::fill;
using test::guarded;
using test::holds;

namespace {

// Each rank writes into its own area of every segment, and keeps one of its own for sources.
constexpr std::size_t area = 1 << 17, around = 32;

enum class form { blocking, explicit_, explicit_bulk, implicit, implicit_bulk, region };
constexpr form forms[] = {form::blocking, form::explicit_,     form::explicit_bulk,
                          form::implicit, form::implicit_bulk, form::region};

void put(remote_memory& m, form f, rank_id to, std::byte* there, std::span<std::byte> src) {
  const auto spoil = [&] { std::fill(src.begin(), src.end(), std::byte{0x11}); };
  switch (f) {
    case form::blocking:
      JOB_CHECK(m.put(to, there, src) == status::ok);
      break;
    case form::explicit_: {
      operation op = m.put_nb(to, there, src);
      spoil();
      JOB_CHECK(op.wait() == status::ok);
      JOB_CHECK(!op.in_flight());
      break;
    }
    case form::explicit_bulk: {
      operation op = m.put_nb(to, there, src, source_reuse::on_completion);
      while (op.try_wait() == status::pending) {
      }
      JOB_CHECK(op.wait() == status::ok);
      break;
    }
    case form::implicit:
      JOB_CHECK(m.put_nbi(to, there, src) == status::ok);
      spoil();
      JOB_CHECK(m.wait_puts() == status::ok);
      break;
    case form::implicit_bulk:
      JOB_CHECK(m.put_nbi(to, there, src, source_reuse::on_completion) == status::ok);
      while (m.try_puts() == status::pending) {
      }
      break;
    case form::region: {
      JOB_CHECK(m.begin_region());
      JOB_CHECK(!m.begin_region());
      JOB_CHECK(m.put_nbi(to, there, src) == status::ok);
      operation op = m.end_region();
      JOB_CHECK(op.wait() == status::ok);
      break;
    }
  }
}

void get(remote_memory& m, form f, std::span<std::byte> dest, rank_id from,
         const std::byte* there) {
  switch (f) {
    case form::blocking:
      JOB_CHECK(m.get(dest, from, there) == status::ok);
      break;
    case form::explicit_:
    case form::explicit_bulk: {
      // In two halves, waited for together.
      const std::size_t half = dest.size() / 2;
      operation ops[] = {m.get_nb(dest.first(half), from, there),
                         m.get_nb(dest.subspan(half), from, there + half), operation()};
      if (f == form::explicit_) {
        JOB_CHECK(wait_all(ops) == status::ok);
      } else {
        while (ops[0].in_flight() || ops[1].in_flight()) JOB_CHECK(wait_some(ops) == status::ok);
        JOB_CHECK(wait_some(ops) == status::ok);
        JOB_CHECK(try_some(ops) == status::ok);
      }
      JOB_CHECK(try_all(ops) == status::ok);
      break;
    }
    case form::implicit:
    case form::implicit_bulk:
      JOB_CHECK(m.get_nbi(dest, from, there) == status::ok);
      JOB_CHECK((f == form::implicit ? m.wait_gets() : m.wait_implicit()) == status::ok);
      break;
    case form::region: {
      JOB_CHECK(m.begin_region());
      JOB_CHECK(m.get_nbi(dest, from, there) == status::ok);
      JOB_CHECK(m.wait_gets() == status::ok);  // not the region's
      JOB_CHECK(m.end_region().wait() == status::ok);
      break;
    }
  }
}

void set(remote_memory& m, form f, rank_id to, std::byte* there, std::byte value, std::size_t n) {
  switch (f) {
    case form::blocking:
      JOB_CHECK(m.set(to, there, value, n) == status::ok);
      break;
    case form::explicit_:
    case form::explicit_bulk:
      JOB_CHECK(m.set_nb(to, there, value, n).wait() == status::ok);
      break;
    default:
      JOB_CHECK(m.set_nbi(to, there, value, n) == status::ok);
      JOB_CHECK(m.wait_implicit() == status::ok);
  }
}

std::uint32_t seed = 0;

// One size: there and back, with the neighbours looked at.
void round_trip(test::job& j, remote_memory& m, form f, rank_id to, std::size_t n,
                std::span<std::byte> source, std::span<std::byte> back) {
  const std::size_t place = j.ep.rank() * area + around + seed % 17;
  std::byte* const there = j.at(to, place);
  std::vector<std::byte> frame(n + 2 * around);
  JOB_CHECK(m.set(to, there - around, test::guard, n + 2 * around) == status::ok);
  fill(source, ++seed);
  put(m, f, to, there, source);
  std::fill(back.begin(), back.end(), std::byte{0});
  get(m, f, back, to, there);
  if (!holds(back, seed))
    fatal(9, "form %d, %zu bytes to %u come back wrong", static_cast<int>(f), n, to);
  set(m, f, to, there, static_cast<std::byte>(seed), n);
  JOB_CHECK(m.get(frame, to, there - around) == status::ok);
  for (std::size_t i = 0; i < frame.size(); ++i)
    JOB_CHECK(frame[i] ==
              (i < around || i >= around + n ? test::guard : static_cast<std::byte>(seed)));
}

void values(test::job& j, remote_memory& m, rank_id to) {
  std::byte* const there = j.at(to, j.ep.rank() * area + 3);
  struct three {
    std::uint8_t b[3];
  };
  const three x{{1, 2, 3}};
  three y{};
  JOB_CHECK(m.put_value(to, reinterpret_cast<three*>(there), x) == status::ok);
  JOB_CHECK(m.get_value(y, to, reinterpret_cast<const three*>(there)) == status::ok);
  JOB_CHECK(std::memcmp(&x, &y, 3) == 0);
  for (const double d : {1.5, -2.25}) {
    double back = 0;
    JOB_CHECK(m.put_value(to, reinterpret_cast<double*>(there), d) == status::ok);
    JOB_CHECK(m.get_value(back, to, reinterpret_cast<const double*>(there)) == status::ok);
    JOB_CHECK(back == d);
  }
}

// A source that may only be read.
void read_only(test::job& j, remote_memory& m, rank_id to) {
  constexpr std::size_t n = 40000;
  auto* const page = static_cast<std::byte*>(
      mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  JOB_CHECK(page != MAP_FAILED);
  fill({page, n}, 77);
  JOB_CHECK(mprotect(page, n, PROT_READ) == 0);
  std::vector<std::byte> back(n);
  std::byte* const there = j.at(to, j.ep.rank() * area);
  JOB_CHECK(m.put_nb(to, there, {page, n}, source_reuse::on_completion).wait() == status::ok);
  JOB_CHECK(m.get(back, to, there) == status::ok);
  JOB_CHECK(holds(back, 77));
  JOB_CHECK(munmap(page, n) == 0);
}

// Containers over registered memory, growing while they are sent from.
void from_heap(test::job& j, remote_memory& m, rank_id to) {
  registered_heap heap(j.ep);
  std::pmr::vector<std::byte> grows(&heap), back(60000, &heap);
  std::byte* const there = j.at(to, j.ep.rank() * area);
  for (const std::size_t n : {100, 5000, 59999}) {
    grows.resize(n);
    fill(grows, static_cast<std::uint32_t>(n));
    JOB_CHECK(m.put_nb(to, there, grows, source_reuse::on_completion).wait() == status::ok);
    const std::span<std::byte> into = std::span(back).first(n);
    JOB_CHECK(m.get(into, to, there) == status::ok);
    JOB_CHECK(holds(into, static_cast<std::uint32_t>(n)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t every = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1;
  // With less than a whole area each, `size` of them for others and two of its own.
  auto w = test::job::start(0x40 + 10 * area);
  JOB_CHECK(w.ep.size() <= 8);
  remote_memory m(w.ep);
  const std::span<std::byte> own = w.ep.segment().subspan(8 * area, 2 * area);
  std::size_t i = 0;
  for (rank_id to = 0; to < w.ep.size(); ++to) {
    for (const form f : forms)
      for (const std::size_t n : test::sizes()) {
        if (i++ % every != 0) continue;
        guarded source(n, i % 7), back(n, i % 5);
        round_trip(w, m, f, to, n, source.view(), back.view());
        JOB_CHECK(source.intact() && back.intact());
        round_trip(w, m, f, to, n, own.subspan(i % 3, n), own.subspan(area + i % 11, n));
      }
    values(w, m, to);
    read_only(w, m, to);
    from_heap(w, m, to);
  }
  w.meet();
  return 0;
}
