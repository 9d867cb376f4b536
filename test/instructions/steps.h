/* Counts the instructions that this thread executes in a piece of code: by the processor's trap
 * flag, which raises SIGTRAP behind each. It needs no right, no tool and no quiet machine. x86-64,
 * Linux. const long n = STEPS(work());      a system call counts as one, a repeated string
 * instruction by its rounds A count includes what the expression itself is compiled to, and not the
 * counting. */
#ifndef PENSTOCK_TEST_INSTRUCTIONS_STEPS_H
#define PENSTOCK_TEST_INSTRUCTIONS_STEPS_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile long steps_seen = 0;
static long steps_of_nothing = 0;

static void steps_on_trap(int signal_number) {
  (void)signal_number;
  steps_seen = steps_seen + 1;
}

/* Flag 0x100 is TF. The red zone below the stack pointer may hold the caller's data. */
#define STEPS_FLAG(change)                                          \
  __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\t" change    \
                   ", (%%rsp)\n\tpopfq\n\tlea 128(%%rsp), %%rsp" :: \
                       : "memory", "cc")
#define STEPS_RAW(what) (steps_seen = 0, steps_on(), what, steps_off(), steps_seen)
#define STEPS(what) (STEPS_RAW(what) - steps_of_nothing)

static inline __attribute__((always_inline)) void steps_on(void) { STEPS_FLAG("orq $0x100"); }
static inline __attribute__((always_inline)) void steps_off(void) { STEPS_FLAG("andq $~0x100"); }

static inline __attribute__((always_inline)) void steps_three(void) {
  __asm__ volatile("nop\n\tnop\n\tnop");
}

static inline void steps_begin(void) {
  struct sigaction a;
  memset(&a, 0, sizeof a);
  a.sa_handler = steps_on_trap;
  if (sigaction(SIGTRAP, &a, NULL) != 0) {
    perror("SIGTRAP");
    exit(3);
  }
  steps_of_nothing = STEPS_RAW((void)0);
  /* A count that is none would pass every bound. */
  if (STEPS(steps_three()) != 3) {
    fprintf(stderr, "the trap flag does not count here\n");
    exit(3);
  }
}

/* The samples of one operation, of which the least counts: now and then a call has more to do. */
enum { steps_samples = 9, steps_rounds = 12, steps_warm_up = 300 };
struct steps_of {
  const char* name;
  int count;
  long samples[steps_samples];
};

/* Before a poll is counted: by then the other side has done its part, and few empty polls are
 * counted. */
static inline void steps_wait(void) {
  const struct timespec nap = {0, 50000};
  (void)nanosleep(&nap, NULL);
}

static inline void steps_note(struct steps_of* of, long n) {
  if (of->count < steps_samples) of->samples[of->count++] = n;
}

static inline void steps_print(struct steps_of* of) {
  long least = of->samples[0];
  int i;
  if (of->count < steps_samples) {
    fprintf(stderr, "only %d samples of %s\n", of->count, of->name);
    exit(3);
  }
  for (i = 1; i < of->count; ++i)
    if (of->samples[i] < least) least = of->samples[i];
  printf("%s %ld\n", of->name, least);
}

#endif
