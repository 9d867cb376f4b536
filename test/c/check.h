/* For the job programs here: what must hold, and how a job begins and ends. In C89. */
#ifndef PENSTOCK_TEST_C_CHECK_H
#define PENSTOCK_TEST_C_CHECK_H

#include <penstock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(x)                                                      \
  do {                                                                \
    if (!(x)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #x); \
      exit(3);                                                        \
    }                                                                 \
  } while (0)

/* A call of set-up that must succeed. */
#define SET_UP(x)                                                                 \
  do {                                                                            \
    if (!(x)) {                                                                   \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #x, penstock_why()); \
      exit(3);                                                                    \
    }                                                                             \
  } while (0)

#endif
