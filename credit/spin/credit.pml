/* Loan, use, return, revoke, wants, hints and epoch between three nodes: one lender and two borrowers that
 * compete for its bank, with messages that overtake each other. Checked by credit/spin/check.sh:
 *   conservation (C-1, C-2, C-3) and room for every request, after every step;
 *   a request that stalls is sent in the end, whatever the others do (LTL sent, weak fairness).
 * One lender is enough: a node answers each event at once and waits for nothing, so what it borrows
 * elsewhere cannot delay it (DEADLOCK.md, claim 5). A handler is one step here; that its threads
 * interleave safely is what test/credit/interleave_test.cpp shows.
 *
 * Borrower 1 sends the largest messages only (its Shorts never wait), which halves the search. With
 * NO_EPOCHS defined no epoch ends: the searches for cycles and those with the parts below need the
 * room, and statistics have no part in whether a request is sent.
 *
 * A search may have one of these parts; all at once are too many states:
 *   HINTS  a borrower (bit 0: the first; bit 1: the second) also asks by WANTs that are not urgent,
 *          as stalled requests and clients' hints do
 *   OWED   a request may have no reply: its credits are owed, and go back later, alone or on a reply
 *   DEATH  borrower 1 may die at any moment, and the lender learns of it later
 *   OFFERS a message of cost BIG that lacks credits goes by rendezvous, for one credit, while its
 *          loan may grow and the sender's buffer is free; the target's handler frees the buffer
 *   SILENT borrower 1 may stop polling at any moment, for ever, and the lender never learns of it;
 *          what the other then sends is sent all the same (with OFFERS: what costs more than the
 *          minimum may need the credits of the rank that is silent, unless it is offered)
 * MOST bounds a loan. BY_BUFFERS and NO_ASK_FIRST leave out a rule, and the search has to find that.
 *
 * Smallest numbers that have all cases: minimum 1, largest message 3, the least that may move (2).
 * Messages are counters by content, so any of those in flight may come next. */

#define MIN 1
#define BIG 3
#define MOVABLE (BIG - MIN)
#ifndef SPARE  /* what is banked beyond that */
#define SPARE 0
#endif
#define TOTAL (2 * MIN + MOVABLE + SPARE)
#ifndef MOST
#define MOST TOTAL
#endif
#ifdef BY_BUFFERS  /* a WANT is granted whatever the bound, and a free buffer alone forbids to ask */
#define FITS(b) true
#define AWAITS_OFFER(b) HAS_BUFFER(b)
#else
#define FITS(b) (loan[b] + wish[b] <= MOST)
#define AWAITS_OFFER(b) (HAS_BUFFER(b) && MAY_GROW(b))
#endif

/* borrower b */
byte credits[2] = MIN; byte owed[2]; byte inuse[2];
bool stalled[2];            /* note_stall was called, and has not faded */
byte cost[2];               /* of the request that waits; 0 none */
byte need[2];               /* what it lacked; 1 stands for all */
byte want[2];               /* 0 none, 1 hinted, 2 asked, 3 granted */

/* lender */
byte bank = MOVABLE + SPARE;
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

#ifdef HINTS
/* While a request waits, a client gives only finitely many hints: here, none. */
#define MAY_HINT(b) ((HINTS >> b & 1) && cost[b] == 0)
bool ordinary[2];  /* the WANT under way is not urgent */
#endif
#ifdef OWED
byte due[2];                   /* lender: credits owed for requests without a reply */
byte coming[2]; byte coming_n[2];  /* under way: such credits, and what is lent along with them */
#endif
#ifdef DEATH
bool dead, gone;  /* borrower 1 is; the lender knows */
#define ALIVE(b) ((b) == 0 || !dead)
#define KNOWN(b) ((b) == 0 || !gone)
#else
#ifdef SILENT
bool silent;
#define ALIVE(b) ((b) == 0 || !silent)
#else
#define ALIVE(b) true
#endif
#define KNOWN(b) true
#endif
#define MAY_GROW(b) (credits[b] + owed[b] < MOST)
#ifdef OFFERS
bool out[2];                /* the borrower's buffer is in use */
byte offer[2];              /* under way: 0 none, else 1 + what it lacked */
#define HAS_BUFFER(b) (cost[b] == BIG && !out[b])
#define LEFT(b) (MAY_GROW(b) -> 1 : 0)  /* credits that are left to offers */
#else
#define HAS_BUFFER(b) false
#define LEFT(b) 0
#endif

byte moving[2];  /* ghost: credits in replies, GRANTs and RETURNs of this pair */

#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define LEAST(a, b) ((a) < (b) -> (a) : (b))

inline check() {
  assert(bank + loan[0] + loan[1] == TOTAL);
  assert(credits[0] + owed[0] + moving[0] == loan[0]);
#ifndef BY_BUFFERS
  assert(loan[0] <= MOST && loan[1] <= MOST);
#endif
#ifdef DEATH
  assert(!ALIVE(1) || credits[1] + owed[1] + moving[1] == loan[1]);
#else
  assert(credits[1] + owed[1] + moving[1] == loan[1]);
#endif
  assert(inuse[0] <= credits[0] + owed[0] && inuse[1] <= credits[1] + owed[1]);
  /* every request in flight finds its buffers, but for the last ones of a borrower that has died */
#ifdef DEATH
  assert(inuse[0] + (ALIVE(1) -> inuse[1] : 0) <= TOTAL);
#else
  assert(inuse[0] + inuse[1] <= TOTAL);
#endif
  assert(loan[0] >= MIN && (KNOWN(1) -> loan[1] >= MIN : loan[1] == 0))
}

/* Any of those in flight: the guards are alternatives, and block when there is none. */
#define ONE_OF_2(a) if :: a[0] > 0 -> i = 0 :: a[1] > 0 -> i = 1 fi
#define ONE_OF_4(may, a) if :: may && a[0] > 0 -> i = 0 :: may && a[1] > 0 -> i = 1 \
                            :: may && a[2] > 0 -> i = 2 :: may && a[3] > 0 -> i = 3 fi

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
  :: atomic { ALIVE(b) && cost[b] == 0 -> if :: b == 0 -> cost[b] = 1 :: cost[b] = BIG fi;
       if
       :: inuse[b] + cost[b] + (cost[b] == BIG -> LEFT(b) : 0) > credits[b] -> stalled[b] = true; need[b] = 1
       :: else
       fi }
  :: atomic { ALIVE(b) && cost[b] == 1 && inuse[b] + 1 <= credits[b] ->
       wire[b].small_req[need[b]]++; take(b, 1) }
  :: atomic { ALIVE(b) && cost[b] == BIG && inuse[b] + BIG + (HAS_BUFFER(b) -> LEFT(b) : 0) <= credits[b] ->
       wire[b].big_req[need[b]]++; take(b, BIG) }
  :: atomic { ALIVE(b) && cost[b] > credits[b] && !AWAITS_OFFER(b) && want[b] != 1 && want[b] != 2 ->
       want[b] = 2; wants[b] = true; wants_n[b] = cost[b] - MIN }
#ifdef OFFERS
  :: atomic { ALIVE(b) && HAS_BUFFER(b) && MAY_GROW(b) && inuse[b] + 1 <= credits[b] &&
       inuse[b] + BIG + LEFT(b) > credits[b] ->
       out[b] = true; offer[b] = 1 + need[b]; take(b, 1) }
#endif
#ifdef HINTS
  :: atomic { MAY_HINT(b) && want[b] != 1 && want[b] != 2 ->
       want[b] = 1; wants[b] = true; ordinary[b] = true; wants_n[b] = MOVABLE }
#endif
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
  :: atomic { ONE_OF_4(ALIVE(b), wire[b].small_rep) -> wire[b].small_rep[i]--; inuse[b] = inuse[b] - 1;
       got_reply(b) }
  :: atomic { ONE_OF_4(ALIVE(b), wire[b].big_rep) -> wire[b].big_rep[i]--; inuse[b] = inuse[b] - BIG;
       got_reply(b) }
  od
}

#ifdef OWED
/* Credits that are owed come back one by one, in any order with all else: on a reply or alone. */
proctype owed_arrives(byte b) {
end:
  do
  :: atomic { due[b] > 0 -> due[b]--; coming[b]++ }
  :: atomic { coming[b] > 0 -> coming[b]--; inuse[b] = inuse[b] - 1; check() }
  :: atomic { coming_n[b] > 0 -> credits[b] = credits[b] + coming_n[b];
       moving[b] = moving[b] - coming_n[b]; coming_n[b] = 0; check() }
  od
}
#endif

proctype revoke_arrives(byte b) {
  byte held, idle, back, n;
  bool urgent;
end:
  do
  :: atomic { ALIVE(b) && revoke[b] -> revoke[b] = false;
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
  :: atomic { ALIVE(b) && grant[b] -> grant[b] = false;
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
  :: bank >= wish[b] && FITS(b) ->
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
#ifndef NO_ASK_FIRST
  :: first < 2 && bank >= MOVABLE && !FITS(first) -> ask_back(first, true)  /* all above the minimum is too much */
#endif
  :: first == 2 && bank == 0 && lacking -> ask_back(0, false); ask_back(1, false)
  :: first == 2 && bank == 0 && lacking -> skip  /* it was a rare one */
  :: else
  fi;
  check()
}

/* A request of b with need i has come; i becomes what the reply says. */
inline got_request(b) {
  if
#ifndef NO_EPOCHS  /* an epoch may end with any request */
  :: zero[0] = false; zero[1] = false; reached[0] = true; reached[1] = true
#endif
  :: skip
  fi;
  n = (first == 2 && KNOWN(b) -> LEAST(LEAST(i, bank), MOST - LEAST(loan[b], MOST)) : 0);
  lend(b, n);
  lacking = i > 0;
  i = n * 2 + (reached[b] -> 1 : 0); n = 0; reached[b] = false
}

#ifdef OWED  /* what is lent goes along; E waits for another message */
#define ANSWER(reply, n) if :: reply :: due[b] = due[b] + n; coming_n[b] = coming_n[b] + i / 2; \
                               reached[b] = reached[b] || (i & 1) fi
#elif defined(DEATH)
#define ANSWER(reply, n) if :: ALIVE(b) -> reply :: else fi
#else
#define ANSWER(reply, n) reply
#endif

proctype request_arrives(byte b) {
  byte i, n;
  bool lacking;
end:
  do
  :: atomic { ONE_OF_2(wire[b].small_req) -> wire[b].small_req[i]--; got_request(b);
       ANSWER(wire[b].small_rep[i]++, 1); i = 0; intents(lacking); lacking = false }
  :: atomic { ONE_OF_2(wire[b].big_req) -> wire[b].big_req[i]--; got_request(b);
       ANSWER(wire[b].big_rep[i]++, BIG); i = 0; intents(lacking); lacking = false }
#ifdef OFFERS  /* the buffer is free when the handler has returned, without a message */
  :: atomic { offer[b] > 0 -> i = offer[b] - 1; offer[b] = 0; out[b] = false; got_request(b);
       ANSWER(wire[b].small_rep[i]++, 1); i = 0; intents(lacking); lacking = false }
#endif
  od
}

proctype want_arrives(byte b) {
end:
  do
  :: atomic { wants[b] -> wants[b] = false;
       if
       :: !KNOWN(b) -> wants_n[b] = 0
#ifdef HINTS
       :: ordinary[b] -> ordinary[b] = false;  /* answered at once, perhaps with nothing */
            assert(!waits[b] && !grant[b]);
            grant[b] = true; grant_n[b] = (first == 2 -> LEAST(LEAST(wants_n[b], bank), MOST - loan[b]) : 0);
            lend(b, grant_n[b]); grant_e[b] = reached[b]; reached[b] = false;
            if :: grant_n[b] < wants_n[b] -> wants_n[b] = 0; intents(true)
               :: else -> wants_n[b] = 0; intents(false) fi
       :: KNOWN(b) && !ordinary[b] ->
#else
       :: KNOWN(b) ->
#endif
            assert(!waits[b] && !grant[b]);
            waits[b] = true; wish[b] = LEAST(wants_n[b], MOVABLE); wants_n[b] = 0;
            if :: first == 2 -> first = b :: else fi;
            intents(false)
       fi }
  od
}

proctype return_arrives(byte b) {
end:
  do
  :: atomic { ret[b] && !KNOWN(b) -> ret[b] = false; ret_n[b] = 0 }
  :: atomic { ret[b] && KNOWN(b) -> ret[b] = false; sys[b] = false;
       loan[b] = loan[b] - ret_n[b]; bank = bank + ret_n[b]; moving[b] = moving[b] - ret_n[b];
       if :: ret_n[b] == 0 -> zero[b] = true :: else fi;
       ret_n[b] = 0; intents(false) }
  od
}

#ifdef DEATH
/* What it knew and what was under way to it is forgotten, so that states are alike that differ by
 * it alone; what it has sent still arrives. */
proctype death() {
  byte i;
end:
  atomic { !dead -> dead = true;
    credits[1] = 0; owed[1] = 0; inuse[1] = 0; stalled[1] = false; cost[1] = 0; need[1] = 0;
    want[1] = 0; revoke[1] = false; revoke_e[1] = false; revoke_urgent[1] = false;
    grant[1] = false; grant_n[1] = 0; grant_e[1] = false; moving[1] = 0;
    for (i : 0 .. 3) { wire[1].small_rep[i] = 0; wire[1].big_rep[i] = 0 } i = 0 };
  atomic { gone = true; bank = bank + loan[1]; loan[1] = 0;
    sys[1] = false; zero[1] = false; reached[1] = false; waits[1] = false; wish[1] = 0;
    revoke[1] = false; revoke_e[1] = false; revoke_urgent[1] = false; grant[1] = false;
    grant_n[1] = 0; grant_e[1] = false; moving[1] = 0;
    if :: first == 1 -> first = (waits[0] -> 0 : 2) :: else fi;
    intents(false) }
}
#endif

#ifdef SILENT
proctype silence() {
end:
  atomic { !silent -> silent = true }
}
#endif

init {
  atomic {
    run sender(0); run sender(1);
    run reply_arrives(0); run reply_arrives(1);
    run revoke_arrives(0); run revoke_arrives(1);
    run grant_arrives(0); run grant_arrives(1);
    run request_arrives(0); run request_arrives(1);
    run want_arrives(0); run want_arrives(1);
#ifdef OWED
    run owed_arrives(0); run owed_arrives(1);
#endif
#ifdef DEATH
    run death();
#endif
#ifdef SILENT
    run silence();
#endif
    run return_arrives(0); run return_arrives(1)
  }
}

/* The other borrower is the same with 0 and 1 exchanged. */
ltl sent { [] (cost[0] > 0 -> <> (cost[0] == 0)) }
