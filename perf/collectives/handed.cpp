// handed: a lock that the ranks hand round by blocking puts and gets, and a sum that the holder
// changes, as programs do that know no other way to wait.
//
//   penrun -n 4 [-x PENSTOCK_DIRECT=no] handed [ROUNDS [messages]]
//
// messages: instead, barriers by dissemination of Shorts, as runtimes make them of remote calls.
// The lock is a word of rank 0 that names the holder; the sum is a word of the last rank. A rank
// gets the lock's word until it names itself, with a poll and a yield between two gets. Printed is
// the time of a round of all ranks. With more processes than cores a rank that waits must give its
// core to the one that holds the lock: otherwise each step takes a time slice.
#include <gasnet_coll.h>
#include <gasnetex.h>
#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"

namespace {

constexpr gex_AM_Index_t met = 200;
volatile std::uint32_t heard[16];  // by step

void on_met(gex_Token_t, gex_AM_Arg_t step) { heard[step] = heard[step] + 1; }

// Barrier number i, from 1 on; a waiting rank only polls.
void meet_by_messages(gex_TM_t tm, std::uint32_t i) {
  const gex_Rank_t me = gex_TM_QueryRank(tm), ranks = gex_TM_QuerySize(tm);
  for (unsigned step = 0; 1u << step < ranks; ++step) {
    gex_AM_RequestShort1(tm, (me + (1u << step)) % ranks, met, 0, static_cast<gex_AM_Arg_t>(step));
    while (heard[step] < i) gasnet_AMPoll();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1000;
  const bool messages = argc > 2 && std::string_view(argv[2]) == "messages";
  gex_AM_Entry_t table{met,
                       reinterpret_cast<gex_AM_Fn_t>(&on_met),
                       GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT,
                       1,
                       nullptr,
                       "met"};
  gex_Client_t client;
  gex_EP_t ep;
  gex_TM_t tm;
  gex_Segment_t segment;
  if (gex_Client_Init(&client, &ep, &tm, "handed", &argc, &argv, 0) != GASNET_OK ||
      gex_EP_RegisterHandlers(ep, &table, 1) != GASNET_OK ||
      gex_Segment_Attach(&segment, tm, 1 << 20) != GASNET_OK)
    return 1;
  const gex_Rank_t me = gex_TM_QueryRank(tm), ranks = gex_TM_QuerySize(tm), last = ranks - 1;
  const auto place_in = [&](gex_Rank_t rank) {
    void* at = nullptr;
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, rank, &at, nullptr, nullptr, 0));
    return static_cast<char*>(at);
  };
  char* const lock = place_in(0);
  char* const sum = place_in(last) + 64;
  const auto meet = [&] { gex_Event_Wait(gex_Coll_BarrierNB(tm, 0)); };
  meet();
  const std::uint64_t began = penstock::now_ns();
  for (int i = 0; i < rounds; ++i) {
    if (messages) {
      meet_by_messages(tm, static_cast<std::uint32_t>(i) + 1);
      continue;
    }
    while (gex_RMA_GetBlockingVal(tm, 0, lock, 8, 0) != me) {
      sched_yield();
      gasnet_AMPoll();
    }
    gasnett_local_rmb();
    const std::uint64_t now = gex_RMA_GetBlockingVal(tm, last, sum, 8, 0);
    if (now != std::uint64_t{ranks} * static_cast<unsigned>(i) + me)
      penstock::fatal(1, "round %d: the sum is %llu", i, static_cast<unsigned long long>(now));
    gex_RMA_PutBlockingVal(tm, last, sum, now + 1, 8, 0);
    gasnett_local_wmb();
    gex_RMA_PutBlockingVal(tm, 0, lock, (me + 1) % ranks, 8, 0);
  }
  meet();
  if (me == 0)
    std::printf("%u processes, %d rounds: %.2f us a round\n", ranks, rounds,
                static_cast<double>(penstock::now_ns() - began) * 1e-3 / rounds);
  meet();
  gasnet_exit(0);
}
