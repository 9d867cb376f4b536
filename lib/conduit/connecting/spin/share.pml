/* One pool of buffers at a sender, from which messages to several ranks take: chunk_pool.hpp, large_buffers.hpp,
 * handed_over.hpp. A rank that polls gives a buffer back; any but one may fall silent for ever (process silence). What
 * goes to the rank that polls finds a buffer, whoever else is silent, and so does a one-sided transfer, which gives its
 * buffer back without any rank (LTL sent, moved). Checked by check.sh, also without the rule (ALL_ALIKE: a
 * message takes any buffer that is free) and without buffers for transfers alone (NONE_KEPT), which must fail.
 *
 * So many ranks may be silent as the pool can be halved: with N - KEPT buffers, log2 of that. */
#ifndef N
#define N 5
#endif
#ifdef NONE_KEPT
#define KEPT 0
#else
#define KEPT 1
#endif
#define RANKS 3 /* rank 0 polls; 1 and 2 may be silent */

byte held[RANKS]; /* buffers of messages that the rank has not answered */
byte moving;      /* of transfers */
byte left = N;
bool silent[RANKS];
bool waits, wants; /* a message to rank 0, and a transfer, that have no buffer yet */

#ifdef ALL_ALIKE
#define MAY(r) (left > KEPT)
#else
#define MAY(r) (left > KEPT + held[r])
#endif

#define send(r) held[r]++; left--
#define check() assert(left + moving + held[0] + held[1] + held[2] == N)

proctype to_one_that_polls() {
end:
  do
  :: atomic { !waits -> waits = true }
  :: atomic { waits && MAY(0) -> send(0); waits = false; check() }
  :: atomic { held[0] > 0 -> held[0]--; left++; check() }
  od
}

proctype to_another(byte r) {
end:
  do
  :: atomic { MAY(r) -> send(r); check() }
  :: atomic { !silent[r] && held[r] > 0 -> held[r]--; left++; check() }
  od
}

proctype silence(byte r) {
end:
  silent[r] = true
}

/* One at a time: a stream of them from other threads competes with messages. */
proctype transfers() {
end:
  do
  :: atomic { !wants -> wants = true }
  :: atomic { wants && left > 0 && moving == 0 -> moving++; left--; wants = false; check() }
  :: atomic { moving > 0 -> moving--; left++; check() }
  od
}

init {
  atomic {
    run to_one_that_polls(); run to_another(1); run to_another(2); run silence(1); run silence(2); run transfers()
  }
}

/* Again and again there is a buffer for it; among those that compete for one, none comes first. */
ltl sent { [] <> (!waits || MAY(0)) }
ltl moved { [] <> (!wants || (left > 0 && moving == 0)) }
