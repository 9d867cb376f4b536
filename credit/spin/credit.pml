/* Loan, use, return, revoke, want and epoch between three nodes: one lender and two borrowers that
 * compete for its bank, with messages that overtake each other. Checked by credit/spin/check.sh:
 *   conservation (C-1, C-2, C-3) and room for every request, after every step;
 *   a request that stalls is sent in the end, whatever the others do (LTL sent, weak fairness).
 * One lender is enough: a node answers each event at once and waits for nothing, so what it borrows
 * elsewhere cannot delay it (DEADLOCK.md, claim 5). A handler is one step here; that its threads
 * interleave safely is what test/credit/interleave_test.cpp shows.
 *
 * Borrower 1 sends the largest messages only (its Shorts never wait), which halves the search. With
 * LIVE defined no epoch ends, as statistics have no part in whether a request is sent: that search is
 * the one for cycles, and needs the room.
 *
 * Smallest numbers that have all cases: minimum 1, largest message 3, the least that may move (2).
 * Messages are counters by content, so any of those in flight may come next. */

#define MIN 1
#define BIG 3
#define MOVABLE (BIG - MIN)
#define TOTAL (2 * MIN + MOVABLE)

/* borrower b */
byte credits[2] = MIN; byte owed[2]; byte inuse[2];
bool stalled[2];            /* note_stall was called, and has not faded */
byte cost[2];               /* of the request that waits; 0 none */
byte need[2];               /* what it lacked; 1 stands for all */
byte want[2];               /* 0 none, 1 hinted, 2 asked, 3 granted */

/* lender */
byte bank = MOVABLE;
byte loan[2] = MIN;
bool zero[2]; bool sys[2]; bool reached[2];
bool waits[2]; byte wish[2]; byte first = 2;  /* who waits first; 2 nobody */

/* under way; requests by need, replies by granted * 2 + E, of cost 1 and of cost BIG */
typedef pair { byte small_req[2]; byte big_req[2]; byte small_rep[4]; byte big_rep[4] }
pair wire[2];
bool revoke[2]; bool revoke_e[2]; bool revoke_urgent[2];
bool ret[2]; byte ret_n[2];
bool wants[2]; byte wants_n[2];
bool grant[2]; byte grant_n[2]; bool grant_e[2];

byte moving[2];  /* ghost: credits in replies, GRANTs and RETURNs of this pair */

#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define LEAST(a, b) ((a) < (b) -> (a) : (b))

inline check() {
  assert(bank + loan[0] + loan[1] == TOTAL);
  assert(credits[0] + owed[0] + moving[0] == loan[0]);
  assert(credits[1] + owed[1] + moving[1] == loan[1]);
  assert(inuse[0] <= credits[0] + owed[0] && inuse[1] <= credits[1] + owed[1]);
  assert(inuse[0] + inuse[1] <= TOTAL);  /* every request in flight finds its buffers */
  assert(loan[0] >= MIN && loan[1] >= MIN)
}

/* Any of those in flight: the guards are alternatives, and block when there is none. */
#define ONE_OF_2(a) if :: a[0] > 0 -> i = 0 :: a[1] > 0 -> i = 1 fi
#define ONE_OF_4(a) if :: a[0] > 0 -> i = 0 :: a[1] > 0 -> i = 1 :: a[2] > 0 -> i = 2 \
                       :: a[3] > 0 -> i = 3 fi

/* ---- borrower */

inline fade(b) { stalled[b] = false }

inline take(b, n) {
  inuse[b] = inuse[b] + n; need[b] = 0; cost[b] = 0;
  if :: want[b] == 3 -> want[b] = 0 :: want[b] == 2 -> want[b] = 1 :: else fi;
  check()
}

proctype sender(byte b) {
end:
  do
  :: atomic { cost[b] == 0 -> if :: b == 0 -> cost[b] = 1 :: cost[b] = BIG fi;
       if
       :: inuse[b] + cost[b] > credits[b] -> stalled[b] = true; need[b] = 1
       :: else
       fi }
  :: atomic { cost[b] == 1 && inuse[b] + 1 <= credits[b] ->
       wire[b].small_req[need[b]]++; take(b, 1) }
  :: atomic { cost[b] == BIG && inuse[b] + BIG <= credits[b] ->
       wire[b].big_req[need[b]]++; take(b, BIG) }
  :: atomic { cost[b] > credits[b] && want[b] != 1 && want[b] != 2 ->
       want[b] = 2; wants[b] = true; wants_n[b] = cost[b] - MIN }
  od
}

inline got_reply(b) {
  if :: i & 1 -> fade(b) :: else fi;
  credits[b] = credits[b] + i / 2; moving[b] = moving[b] - i / 2;
  if :: i / 2 > 0 -> credits[b] = credits[b] + owed[b]; owed[b] = 0 :: else fi;
  i = 0;
  check()
}

proctype reply_arrives(byte b) {
  byte i;
end:
  do
  :: atomic { ONE_OF_4(wire[b].small_rep) -> wire[b].small_rep[i]--; inuse[b] = inuse[b] - 1;
       got_reply(b) }
  :: atomic { ONE_OF_4(wire[b].big_rep) -> wire[b].big_rep[i]--; inuse[b] = inuse[b] - BIG;
       got_reply(b) }
  od
}

proctype revoke_arrives(byte b) {
  byte held, idle, back, n;
  bool urgent;
end:
  do
  :: atomic { revoke[b] -> revoke[b] = false;
       if :: revoke_e[b] -> fade(b) :: else fi;
       urgent = revoke_urgent[b] && want[b] != 3;
       held = credits[b] + owed[b];
       idle = held - LEAST(held, MAX(inuse[b], MIN));
       if
       :: urgent ->
            back = MAX(owed[b], held - LEAST(held, MIN));
            n = LEAST(back, idle);
            credits[b] = held - back; owed[b] = back - n
       :: !urgent && owed[b] > 0 ->
            n = LEAST(owed[b], idle); owed[b] = owed[b] - n
       :: !urgent && owed[b] == 0 && !stalled[b] && want[b] != 3 ->
            n = idle; credits[b] = credits[b] - n
       :: !urgent && owed[b] == 0 -> n = 0  /* also when most in use, or the limit, says so */
       fi;
       ret[b] = true; ret_n[b] = n; moving[b] = moving[b] + n;
       held = 0; idle = 0; back = 0; n = 0; urgent = false; check() }
  od
}

proctype grant_arrives(byte b) {
end:
  do
  :: atomic { grant[b] -> grant[b] = false;
       if :: grant_e[b] -> fade(b) :: else fi;
       credits[b] = credits[b] + grant_n[b]; moving[b] = moving[b] - grant_n[b];
       if :: want[b] == 2 -> want[b] = 3 :: else -> want[b] = 0 fi;
       grant_n[b] = 0; grant_e[b] = false; check() }
  od
}

/* ---- lender */

inline lend(b, n) {
  bank = bank - n; loan[b] = loan[b] + n; moving[b] = moving[b] + n
}

inline serve(b) {  /* b waits first: grant what it wishes, if it can be */
  if
  :: bank >= wish[b] ->
       lend(b, wish[b]); grant[b] = true; grant_n[b] = wish[b]; grant_e[b] = reached[b];
       reached[b] = false; waits[b] = false; wish[b] = 0;
       first = (waits[1 - b] -> 1 - b : 2)
  :: else
  fi
}

inline ask_back(b, urgent_) {
  if
  :: loan[b] > MIN && !sys[b] && (urgent_ || !zero[b]) ->
       sys[b] = true; revoke[b] = true; revoke_urgent[b] = urgent_;
       revoke_e[b] = reached[b]; reached[b] = false
  :: else
  fi
}

inline intents(lacking) {
  if :: first < 2 -> serve(first) :: else fi;
  if :: first < 2 -> serve(first) :: else fi;
  if
  :: first < 2 && bank < MOVABLE -> ask_back(0, true); ask_back(1, true)
  :: first == 2 && bank == 0 && lacking -> ask_back(0, false); ask_back(1, false)
  :: first == 2 && bank == 0 && lacking -> skip  /* it was a rare one */
  :: else
  fi;
  check()
}

/* A request of b with need i has come; i becomes what the reply says. */
inline got_request(b) {
  if
#ifndef LIVE  /* an epoch may end with any request */
  :: zero[0] = false; zero[1] = false; reached[0] = true; reached[1] = true
#endif
  :: skip
  fi;
  n = (first == 2 -> LEAST(i, bank) : 0);
  lend(b, n);
  lacking = i > 0;
  i = n * 2 + (reached[b] -> 1 : 0); n = 0; reached[b] = false
}

proctype request_arrives(byte b) {
  byte i, n;
  bool lacking;
end:
  do
  :: atomic { ONE_OF_2(wire[b].small_req) -> wire[b].small_req[i]--; got_request(b);
       wire[b].small_rep[i]++; i = 0; intents(lacking); lacking = false }
  :: atomic { ONE_OF_2(wire[b].big_req) -> wire[b].big_req[i]--; got_request(b);
       wire[b].big_rep[i]++; i = 0; intents(lacking); lacking = false }
  od
}

proctype want_arrives(byte b) {
end:
  do
  :: atomic { wants[b] -> wants[b] = false;
       assert(!waits[b] && !grant[b]);
       waits[b] = true; wish[b] = LEAST(wants_n[b], MOVABLE); wants_n[b] = 0;
       if :: first == 2 -> first = b :: else fi;
       intents(false) }
  od
}

proctype return_arrives(byte b) {
end:
  do
  :: atomic { ret[b] -> ret[b] = false; sys[b] = false;
       loan[b] = loan[b] - ret_n[b]; bank = bank + ret_n[b]; moving[b] = moving[b] - ret_n[b];
       if :: ret_n[b] == 0 -> zero[b] = true :: else fi;
       ret_n[b] = 0; intents(false) }
  od
}

init {
  atomic {
    run sender(0); run sender(1);
    run reply_arrives(0); run reply_arrives(1);
    run revoke_arrives(0); run revoke_arrives(1);
    run grant_arrives(0); run grant_arrives(1);
    run request_arrives(0); run request_arrives(1);
    run want_arrives(0); run want_arrives(1);
    run return_arrives(0); run return_arrives(1)
  }
}

/* The other borrower is the same with 0 and 1 exchanged. */
ltl sent { [] (cost[0] > 0 -> <> (cost[0] == 0)) }
