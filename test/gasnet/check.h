/* The smallest test frame that C99 and C++ share: CHECK counts and names failures; a program
 * ends with check_result(). Any thread may check. Output lines carry the rank where there is one.
 */
#ifndef PENSTOCK_TEST_GASNET_CHECK_H
#define PENSTOCK_TEST_GASNET_CHECK_H

#include <stdio.h>

static int check_failures = 0;
static int check_count = 0;

#define CHECK(what)                                                      \
  do {                                                                   \
    __atomic_fetch_add(&check_count, 1, __ATOMIC_RELAXED);               \
    if (!(what)) {                                                       \
      __atomic_fetch_add(&check_failures, 1, __ATOMIC_RELAXED);          \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #what); \
    }                                                                    \
  } while (0)

/* 0 if something was checked and all of it held. */
static int check_result(void) { return check_failures != 0 || check_count == 0; }

#endif
