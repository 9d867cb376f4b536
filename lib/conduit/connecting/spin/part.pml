/* Two sides of one connection that is taken down and made again while both send requests: parting.hpp. Side 0 leads.
 * Hellos are lost, doubled and late (process net). Checked by check.sh: a side destroys its queue pair only when
 * nothing is under way on it in either direction and nothing lies untaken behind it; a request goes only to a queue
 * pair of the same generation; and every request is answered in the end. */
#ifndef REQUESTS
#define REQUESTS 1
#endif
#ifndef ASKS
#define ASKS 2 /* partings that side 0 begins at most */
#endif
#ifndef MISHAPS
#define MISHAPS 1 /* hellos that are lost or late */
#endif

mtype = { none, asked, again, closed, sealed, busy, refused, agreed };

/* What a side knows. */
mtype state[2] = none;
byte generation[2], ask[2];
bool made[2], bound[2], ready[2], wanted[2];
/* Its requests: to be wanted yet, wanted, and sent; and the messages between the two. */
byte later[2] = REQUESTS, todo[2], unanswered[2];
byte requests_posted[2], answers_posted[2]; /* not yet arrived */
byte completions[2];                        /* of what has arrived, not yet reported to its sender */
byte requests_came[2], answers_came[2];     /* not yet taken by the program */

/* The last hello to each side, and one that comes late. */
typedef hello { byte generation, ask; mtype answer; byte made, bound, want };
hello last[2], late[2];
bool fresh[2], has_late[2];
/* Of a step alone. */
hidden hello h;
hidden byte here, current, news;

inline move(from, to) {
  to.generation = from.generation; to.ask = from.ask; to.answer = from.answer;
  to.made = from.made; to.bound = from.bound; to.want = from.want;
  from.generation = 0; from.ask = 0; from.answer = none; from.made = false; from.bound = false; from.want = false
}

#define is_over(me) (requests_posted[me] + answers_posted[me] + completions[me] == 0)

inline say(me, want_) {
  last[1 - me].generation = generation[me];
  last[1 - me].ask = ask[me];
#ifndef WITHOUT_ASK_WHEN_CLOSED
  if :: me == 0 && ask[me] % 2 == 1 && ready[me] -> last[1 - me].ask = ask[me] - 1 :: else fi;
#endif
  last[1 - me].made = made[me]; last[1 - me].bound = bound[me]; last[1 - me].want = want_;
  last[1 - me].answer = none;
  if
  :: me == 1 && ask[me] % 2 == 1 && state[me] == closed -> last[1 - me].answer = agreed
  :: me == 1 && ask[me] % 2 == 1 && state[me] == none -> last[1 - me].answer = refused
  :: else
  fi;
  fresh[1 - me] = true
}

inline end_parting(me) {
  if
  :: state[me] != none ->
     if :: state[me] != asked && state[me] != busy -> ready[me] = true :: else fi;
     state[me] = none;
     if :: me == 0 -> ask[me]++ :: else fi;
     say(me, false)
  :: else
  fi
}

inline take_down(me) {
  assert(unanswered[me] == 0 && is_over(me));
  assert(requests_came[me] == 0 && answers_came[me] == 0);
  made[me] = false; bound[me] = false; generation[me]++; state[me] = none
}

/* Takes h; `here` tells whether the rest is about the lanes as they are. */
inline hear(me) {
  here = true;
  if
#ifdef WITHOUT_GENERATION
  :: false ->
#else
  :: h.generation != generation[me] ->
#endif
     here = false;
     if :: h.generation + 1 == generation[me] -> say(me, false) :: else fi;
     if
     :: me == 1 && h.generation == generation[me] + 1 && state[me] == closed ->
        take_down(me); ask[me] = h.ask; here = true
     :: else
     fi
  :: else ->
     if
     :: me == 0 ->
#ifdef WITHOUT_CURRENT_ASK
        current = true;
#else
        current = h.ask == ask[me] && ask[me] % 2 == 1;
#endif
        if :: h.answer == agreed && !current -> say(me, false) :: else fi;
        if :: current && h.answer == refused -> end_parting(me) :: else fi;
        if :: h.want -> end_parting(me) :: else fi;
#ifdef WITHOUT_SECOND_LOOK
        if :: current && h.answer == agreed && state[me] == closed -> state[me] = sealed :: else fi
#else
        if :: current && h.answer == agreed && state[me] == closed -> state[me] = again :: else fi
#endif
     :: me == 1 && h.ask > ask[me] ->
        end_parting(me);
        ask[me] = h.ask;
        if :: ask[me] % 2 == 1 && ready[me] && !wanted[me] -> state[me] = asked :: else fi
     :: me == 1 && h.ask == ask[me] && ask[me] % 2 == 1 && state[me] == none -> say(me, false)
     :: else
     fi;
     here = state[me] == none
  fi;
  if
  :: here ->
     news = h.made && !bound[me];
     if :: h.made -> made[me] = true; bound[me] = true :: else fi;
     if :: bound[me] && h.bound -> ready[me] = true :: else fi;
     if :: h.want || news -> say(me, false) :: else fi
  :: else
  fi
}

proctype connector(byte me) {
  do
  :: atomic {
       if :: fresh[me] -> fresh[me] = false; move(last[me], h); hear(me) :: else fi;
       if :: ready[me] -> wanted[me] = false :: else fi;
       if :: todo[me] > 0 && !ready[me] -> wanted[me] = true :: else fi;
       /* see_to_parting() */
       if
       :: state[me] == busy || (wanted[me] && (state[me] == asked || state[me] == again)) -> end_parting(me)
       :: me == 0 && wanted[me] && (state[me] == closed || state[me] == sealed) -> end_parting(me)
       :: me == 0 && (state[me] == asked || state[me] == closed || state[me] == again) -> end_parting(me) /* in vain */
       :: me == 0 && state[me] == sealed && !wanted[me] -> take_down(me); ask[me]++; say(me, false)
       :: me == 0 && state[me] == none && ready[me] && !wanted[me] && ask[me] < 2 * ASKS ->
          ask[me]++; state[me] = asked
       :: state[me] == closed -> say(me, wanted[me])
       :: else
       :: me == 0 && state[me] == none
       :: me == 0 && (state[me] == asked || state[me] == again)
       fi;
       /* what is missing is made, and hellos are repeated */
       if
       :: wanted[me] && !ready[me] ->
          if :: state[me] == none -> made[me] = true :: else fi;
          say(me, true)
       :: else
       fi
     }
  od
}

proctype program(byte me) {
  do
  :: later[me] > 0 -> atomic { later[me]--; todo[me]++ }
  :: atomic { ready[me] && todo[me] > 0 ->
       assert(made[me] && made[1 - me] && generation[me] == generation[1 - me]);
       todo[me]--; unanswered[me]++; requests_posted[me]++ }
  :: atomic { requests_came[me] > 0 ->
       assert(made[me] && made[1 - me] && generation[me] == generation[1 - me]);
       requests_came[me]--; answers_posted[me]++ }
  :: atomic { answers_came[me] > 0 -> answers_came[me]--; unanswered[me]-- }
  /* close_if_idle(); it waits for its work requests to complete */
  :: atomic { (state[me] == asked || state[me] == again) && unanswered[me] > 0 -> state[me] = busy }
#ifdef WITHOUT_IDLE
  :: atomic { state[me] == asked ->
#else
  :: atomic { state[me] == asked && unanswered[me] == 0 && is_over(me) ->
#endif
       ready[me] = false; state[me] = closed }
  :: atomic { state[me] == again && unanswered[me] == 0 && is_over(me) ->
       state[me] = sealed }
  od
}

/* What was posted arrives, and its sender hears of that later. */
proctype wire(byte me) {
  do
  :: atomic { requests_posted[me] > 0 -> assert(made[1 - me]); requests_posted[me]--; requests_came[1 - me]++;
       completions[me]++ }
  :: atomic { answers_posted[me] > 0 -> assert(made[1 - me]); answers_posted[me]--; answers_came[1 - me]++; completions[me]++ }
  :: completions[me] > 0 -> completions[me]--
  od
}

proctype net(byte me) {
  byte mishaps;
  do
  :: atomic { mishaps < MISHAPS && fresh[me] -> mishaps++; fresh[me] = false; move(last[me], h) }
  :: atomic { mishaps < MISHAPS && fresh[me] && !has_late[me] -> mishaps++; has_late[me] = true; /* and doubled, or not */
       move(last[me], late[me]);
       if
       :: fresh[me] = false
       :: move(late[me], h); last[me].generation = h.generation; last[me].ask = h.ask; last[me].answer = h.answer;
          last[me].made = h.made; last[me].bound = h.bound; last[me].want = h.want; move(h, late[me])
       fi }
  :: atomic { has_late[me] -> has_late[me] = false; move(late[me], h); hear(me) }
  od
}

init {
  atomic {
    run connector(0); run connector(1); run program(0); run program(1); run wire(0); run wire(1); run net(0); run net(1)
  }
}

ltl answered { <> (later[0] + later[1] + todo[0] + todo[1] + unanswered[0] + unanswered[1] == 0) }
