// Job program: all ranks send large Mediums to all, with large replies, and rank 1 writes odd
// numbers over the words by which buffers of others are given back, or sends messages that name
// buffers that are not its own. The job must end well, with every byte right, or with a line that
// names a peer; never hang. What could be true is not tried: a buffer given back that is not read
// yet.
//   large_rogue SEED
#include <array>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "lib/conduit/engine.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;
using conduit::large_buffers;

namespace penstock::conduit::PENSTOCK_ABI {

// What a peer could do to us with its own copy of the library.
struct test_access {
  static peer& to(engine& e, rank_id r) { return e.core_.begun(e.core_.peers_[r]); }
  static large_buffers& buffers(engine& e) { return *e.core_.large_; }
  static queues::message_queues* queues(engine& e) { return e.core_.domains_[0].queues.get(); }
  static void send(engine& e, peer& p, const outgoing& m) {
    (void)e.ways_.of(p, [&](auto& path) { return path.try_request(p, m); });
  }
};

}  // namespace penstock::conduit::PENSTOCK_ABI

namespace {

using conduit::test_access;

struct party {
  payload_handler<std::uint32_t> answer;
  std::uint64_t handled = 0, answered = 0;

  void on_request(token& t, std::span<std::byte> bytes, std::uint32_t seed) {
    JOB_CHECK(test::holds(bytes, seed));
    ++handled;
    JOB_CHECK(t.reply_medium(answer, bytes, seed) == status::ok);
  }
  void on_answer(token&, std::span<std::byte> bytes, std::uint32_t seed) {
    JOB_CHECK(test::holds(bytes, seed));
    ++answered;
  }
};

// Where the buffers of a rank stand, for those who write there by queue pairs: by block.
struct places {
  std::array<conduit::wire::large_block, large_buffers::count / large_buffers::a_block> block;
};

// Blocks of buffers whose words others write: of requests, replies and offers.
constexpr unsigned told_blocks[] = {0, large_buffers::replies / large_buffers::a_block,
                                    large_buffers::offers / large_buffers::a_block};
constexpr auto word_bytes = std::uint32_t{4};

// Writes an odd number over the word of some buffer of rank r. 1 and 2 may be what is next.
void scribble(conduit::engine& e, rank_id r, const places& there, std::mt19937_64& random) {
  conduit::peer& p = test_access::to(e, r);
  const unsigned buffer = told_blocks[random() % std::size(told_blocks)] * large_buffers::a_block +
                          random() % large_buffers::a_block;
  const auto wrong = static_cast<std::uint32_t>(random() | 0x8000);
  if (std::byte* const here = p.large_here.load(); here != nullptr) {
    std::memcpy(here + large_buffers::offset(buffer), &wrong, word_bytes);
    return;
  }
  if (p.lanes[conduit::lane_request].qp == nullptr || p.request_tx.seen() != nullptr) return;
  auto& chunks = *test_access::queues(e)->request_chunks;
  std::byte* const from = chunks.at(chunks.chunks() - 1);
  std::memcpy(from, &wrong, word_bytes);
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(from), word_bytes, chunks.keys().lkey};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  const auto& block = there.block[buffer / large_buffers::a_block];
  wr.wr.rdma.remote_addr = block.base + large_buffers::offset(buffer);
  wr.wr.rdma.rkey = block.key;
  ibv_send_wr* bad = nullptr;
  (void)ibv_post_send(p.lanes[conduit::lane_request].qp, &wr, &bad);
}

// Sends rank r a message whose payload stands nowhere.
void send_odd(conduit::engine& e, rank_id r, std::uint8_t handler, std::mt19937_64& random) {
  conduit::wire::large_block where{};
  test_access::buffers(e).name(0, test_access::to(e, r).request_tx.seen() != nullptr, where);
  where.number = 1;
  switch (random() % 6) {
    case 0:
      where.buffer = static_cast<std::uint16_t>(large_buffers::count + random() % 60000);
      break;
    case 1:
      where.base += 64 + random() % (1u << 30);
      break;
    case 2:
      where.base = random();
      break;
    case 3:
      where.key ^= 1 + static_cast<std::uint32_t>(random());
      where.base += 4096;
      break;
    case 4:  // more than the buffer holds
      where.buffer =
          static_cast<std::uint16_t>(large_buffers::offers + random() % credit::most_offers);
      break;
    default:
      where.number = 0;
  }
  const std::uint32_t seed = 0;
  test_access::send(e, test_access::to(e, r),
                    {.kind = conduit::wire::kind::large,
                     .handler = handler,
                     .nargs = 1,
                     .args = &seed,
                     .bytes = 20000,
                     .where = &where});
}

}  // namespace

int main(int argc, char** argv) {
  auto w = world::join();
  JOB_CHECK(w);
  party me;
  endpoint ep = test::open_endpoint(*w);
  const auto request = ep.add<&party::on_request>(&me);
  me.answer = ep.add<&party::on_answer>(&me);
  if (auto r = ep.start(4096); !r) fatal(3, "%s", r.error().message().c_str());
  std::mt19937_64 random(std::strtoull(argc > 1 ? argv[1] : "1", nullptr, 10) * 64 + ep.rank());
  std::vector<std::byte> payload(ep.max_medium());
  constexpr std::uint64_t messages = 300;
  const std::uint64_t when = 50 + random() % (messages - 50);
  const bool scribbles = random() % 4 != 0;
  // Where everybody's buffers stand, once they have been made.
  auto& buffers = test_access::buffers(ep.internals());
  buffers.give(buffers.take(large_buffers::use::request, 1 - ep.rank() % 2));
  places mine{};
  for (const unsigned b : told_blocks)
    buffers.name(static_cast<std::uint16_t>(b * large_buffers::a_block), false, mine.block[b]);
  const auto all = w->exchange(std::as_bytes(std::span(&mine, 1)));
  JOB_CHECK(all);
  std::vector<places> there(ep.size());
  for (rank_id r = 0; r < ep.size(); ++r) std::memcpy(&there[r], (*all)[r].data(), sizeof(places));
  for (std::uint64_t i = 0; i < messages; ++i) {
    const auto to = static_cast<rank_id>(random() % ep.size());
    const auto seed = static_cast<std::uint32_t>(random());
    const std::size_t bytes = 5000 + random() % (payload.size() - 5000);
    test::fill({payload.data(), bytes}, seed);
    JOB_CHECK(ep.request_medium(to, request, std::span(payload).first(bytes), seed) == status::ok);
    if (ep.rank() != 1 || i != when) continue;
    const rank_id victim = random() % 2 == 0 ? 0 : 2;
    for (unsigned k = 0; k < 6; ++k)
      if (scribbles)
        scribble(ep.internals(), victim, there[victim], random);
      else if (k == 0)
        send_odd(ep.internals(), victim, request.index, random);
  }
  JOB_CHECK(ep.wait_until([&] { return me.answered == messages; }) == status::ok);
  JOB_CHECK(ep.barrier() == status::ok);
  return 0;
}
