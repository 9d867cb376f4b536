// Job program: rank 1 sends rubbish to rank 0, which must report it and end the job, and never
// crash or hang.
//   am_rogue SEED
// The rubbish goes where a peer could put it: into the rings of the direct path, or as SENDs and as
// writes with immediate on the queue pairs.
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/conduit/engine.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace penstock::conduit::PENSTOCK_ABI {

// What a peer could do to us with its own copy of the library.
struct test_access {
  static peer& to(engine& e, rank_id r) { return e.core_.begun(e.core_.peers_[r]); }
  static queues::message_queues* queues(engine& e) { return e.core_.domains_[0].queues.get(); }
};

}  // namespace penstock::conduit::PENSTOCK_ABI

namespace {

using conduit::test_access;

void on_short(token& t, std::uint32_t) { (void)t.source(); }
void on_payload(token&, std::span<std::byte>, std::uint32_t) {}

// Bytes that are sometimes nearly right.
std::uint64_t rubbish(std::mt19937_64& random) {
  conduit::wire::header h;
  const std::uint64_t r = random();
  h.handler = static_cast<std::uint8_t>(r % 4);
  h.kind_args =
      conduit::wire::kind_args(static_cast<conduit::wire::kind>(r >> 8 & 7), r >> 12 & 31);
  h.length = static_cast<std::uint16_t>(r >> 20);
  h.chunk = static_cast<std::uint16_t>(r >> 40);
  h.credit = static_cast<std::uint8_t>(r >> 56);
  h.flags = static_cast<std::uint8_t>(r >> 60);
  return r % 3 == 0 ? random() : conduit::wire::word_of(h);
}

void ring_rubbish(nic::shm::ring_tx& tx, std::mt19937_64& random) {
  const auto bytes = static_cast<std::uint32_t>(random() % 3 == 0 ? random() % 5000 : 0);
  (void)tx.try_push(static_cast<std::uint8_t>(random() % 8 == 0 ? random() : 0), rubbish(random),
                    bytes, [&](std::byte* body, std::byte* data) {
                      for (std::size_t i = 0; i < nic::shm::slot_body; i += 8) {
                        const std::uint64_t w = random();
                        std::memcpy(body + i, &w, 8);
                      }
                      if (data != nullptr)
                        test::fill({data, bytes}, static_cast<std::uint32_t>(random()));
                    });
}

void post_rubbish(conduit::peer& p, queues::message_queues& q, std::mt19937_64& random) {
  const unsigned lane = random() % 2 == 0 ? conduit::lane_request : conduit::lane_reply;
  const auto chunk = static_cast<std::uint32_t>(random() % q.request_chunks->chunks());
  std::byte* const at = q.request_chunks->at(chunk);
  const std::uint64_t head = rubbish(random);
  std::memcpy(at, &head, 8);
  for (std::size_t i = 8; i < 200; i += 8) {
    const std::uint64_t w = random();
    std::memcpy(at + i, &w, 8);
  }
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(at), static_cast<std::uint32_t>(random() % 201),
              q.request_chunks->keys().lkey};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  const bool placed = lane == conduit::lane_request && p.placed != nullptr && random() % 2 == 0;
  wr.opcode = placed || lane == conduit::lane_reply ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND;
  wr.imm_data = static_cast<std::uint32_t>(random());
  wr.wr.rdma.remote_addr = p.buffers_base;
  wr.wr.rdma.rkey = p.buffers_rkey;
  if (placed) {  // into the word or the space, with an immediate that may be right
    if (random() % 2 == 0)
      wr.imm_data = htobe32(static_cast<std::uint32_t>(random() % 8) * 0x10001);
    wr.wr.rdma.remote_addr = p.placed->word_base + 64 * (random() % 8);
    wr.wr.rdma.rkey = p.placed->word_rkey;
  }
  ibv_send_wr* bad = nullptr;
  (void)ibv_post_send(p.lanes[lane].qp, &wr, &bad);
}

}  // namespace

int main(int argc, char** argv) {
  auto w = world::join();
  JOB_CHECK(w);
  endpoint ep = test::open_endpoint(*w);
  const auto s = ep.add<on_short>();
  (void)ep.add<on_payload>();
  if (auto r = ep.start(4096); !r) fatal(3, "%s", r.error().message().c_str());
  JOB_CHECK(ep.request_short((ep.rank() + 1) % ep.size(), s, 1u) == status::ok);
  JOB_CHECK(ep.barrier() == status::ok);
  std::mt19937_64 random(std::strtoull(argc > 1 ? argv[1] : "1", nullptr, 10));
  const std::uint64_t until = now_ns() + 20'000'000'000;
  while (now_ns() < until) {
    if (ep.rank() == 1) {
      auto& p = test_access::to(ep.internals(), 0);
      if (p.request_tx.seen() != nullptr)
        ring_rubbish(random() % 2 == 0 ? *p.request_tx.seen() : *p.reply_tx.seen(), random);
      else
        post_rubbish(p, *test_access::queues(ep.internals()), random);
    }
    (void)ep.poll();
  }
  return 0;  // nobody noticed: the test wants another code
}
