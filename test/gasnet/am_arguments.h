/* The n arguments of messages in the programs of this folder: as the parameters of a handler, as
 * the arguments that it passes on, as those that a sender makes, and as the check that they came.
 */
#ifndef PENSTOCK_TEST_GASNET_AM_ARGUMENTS_H
#define PENSTOCK_TEST_GASNET_AM_ARGUMENTS_H

/* Argument i of a message with n arguments. */
static gasnet_handlerarg_t argument(int n, int i) {
  return (i % 2 ? -1 : 1) * (gasnet_handlerarg_t)(100003 * (n + 1) + i);
}

#define PARAMS0
#define GIVEN0
#define FRESH0
#define RIGHT0 (1)
#define PARAMS1 , gasnet_handlerarg_t a0
#define GIVEN1 , a0
#define FRESH1 , argument(1, 0)
#define RIGHT1 (1 && a0 == argument(1, 0))
#define PARAMS2 , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1
#define GIVEN2 , a0, a1
#define FRESH2 , argument(2, 0), argument(2, 1)
#define RIGHT2 (1 && a0 == argument(2, 0) && a1 == argument(2, 1))
#define PARAMS3 , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2
#define GIVEN3 , a0, a1, a2
#define FRESH3 , argument(3, 0), argument(3, 1), argument(3, 2)
#define RIGHT3 (1 && a0 == argument(3, 0) && a1 == argument(3, 1) && a2 == argument(3, 2))
#define PARAMS4 \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2, gasnet_handlerarg_t a3
#define GIVEN4 , a0, a1, a2, a3
#define FRESH4 , argument(4, 0), argument(4, 1), argument(4, 2), argument(4, 3)
#define RIGHT4                                                                  \
  (1 && a0 == argument(4, 0) && a1 == argument(4, 1) && a2 == argument(4, 2) && \
   a3 == argument(4, 3))
#define PARAMS5                                                             \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2, \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4
#define GIVEN5 , a0, a1, a2, a3, a4
#define FRESH5 , argument(5, 0), argument(5, 1), argument(5, 2), argument(5, 3), argument(5, 4)
#define RIGHT5                                                                  \
  (1 && a0 == argument(5, 0) && a1 == argument(5, 1) && a2 == argument(5, 2) && \
   a3 == argument(5, 3) && a4 == argument(5, 4))
#define PARAMS6                                                             \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2, \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5
#define GIVEN6 , a0, a1, a2, a3, a4, a5
#define FRESH6 \
  , argument(6, 0), argument(6, 1), argument(6, 2), argument(6, 3), argument(6, 4), argument(6, 5)
#define RIGHT6                                                                  \
  (1 && a0 == argument(6, 0) && a1 == argument(6, 1) && a2 == argument(6, 2) && \
   a3 == argument(6, 3) && a4 == argument(6, 4) && a5 == argument(6, 5))
#define PARAMS7                                                               \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2,   \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5, \
      gasnet_handlerarg_t a6
#define GIVEN7 , a0, a1, a2, a3, a4, a5, a6
#define FRESH7                                                                      \
  , argument(7, 0), argument(7, 1), argument(7, 2), argument(7, 3), argument(7, 4), \
      argument(7, 5), argument(7, 6)
#define RIGHT7                                                                  \
  (1 && a0 == argument(7, 0) && a1 == argument(7, 1) && a2 == argument(7, 2) && \
   a3 == argument(7, 3) && a4 == argument(7, 4) && a5 == argument(7, 5) && a6 == argument(7, 6))
#define PARAMS8                                                               \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2,   \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5, \
      gasnet_handlerarg_t a6, gasnet_handlerarg_t a7
#define GIVEN8 , a0, a1, a2, a3, a4, a5, a6, a7
#define FRESH8                                                                      \
  , argument(8, 0), argument(8, 1), argument(8, 2), argument(8, 3), argument(8, 4), \
      argument(8, 5), argument(8, 6), argument(8, 7)
#define RIGHT8                                                                                     \
  (1 && a0 == argument(8, 0) && a1 == argument(8, 1) && a2 == argument(8, 2) &&                    \
   a3 == argument(8, 3) && a4 == argument(8, 4) && a5 == argument(8, 5) && a6 == argument(8, 6) && \
   a7 == argument(8, 7))
#define PARAMS9                                                               \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2,   \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5, \
      gasnet_handlerarg_t a6, gasnet_handlerarg_t a7, gasnet_handlerarg_t a8
#define GIVEN9 , a0, a1, a2, a3, a4, a5, a6, a7, a8
#define FRESH9                                                                      \
  , argument(9, 0), argument(9, 1), argument(9, 2), argument(9, 3), argument(9, 4), \
      argument(9, 5), argument(9, 6), argument(9, 7), argument(9, 8)
#define RIGHT9                                                                                     \
  (1 && a0 == argument(9, 0) && a1 == argument(9, 1) && a2 == argument(9, 2) &&                    \
   a3 == argument(9, 3) && a4 == argument(9, 4) && a5 == argument(9, 5) && a6 == argument(9, 6) && \
   a7 == argument(9, 7) && a8 == argument(9, 8))
#define PARAMS10                                                              \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2,   \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5, \
      gasnet_handlerarg_t a6, gasnet_handlerarg_t a7, gasnet_handlerarg_t a8, \
      gasnet_handlerarg_t a9
#define GIVEN10 , a0, a1, a2, a3, a4, a5, a6, a7, a8, a9
#define FRESH10                                                                          \
  , argument(10, 0), argument(10, 1), argument(10, 2), argument(10, 3), argument(10, 4), \
      argument(10, 5), argument(10, 6), argument(10, 7), argument(10, 8), argument(10, 9)
#define RIGHT10                                                                    \
  (1 && a0 == argument(10, 0) && a1 == argument(10, 1) && a2 == argument(10, 2) && \
   a3 == argument(10, 3) && a4 == argument(10, 4) && a5 == argument(10, 5) &&      \
   a6 == argument(10, 6) && a7 == argument(10, 7) && a8 == argument(10, 8) &&      \
   a9 == argument(10, 9))
#define PARAMS11                                                              \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2,   \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5, \
      gasnet_handlerarg_t a6, gasnet_handlerarg_t a7, gasnet_handlerarg_t a8, \
      gasnet_handlerarg_t a9, gasnet_handlerarg_t a10
#define GIVEN11 , a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10
#define FRESH11                                                                            \
  , argument(11, 0), argument(11, 1), argument(11, 2), argument(11, 3), argument(11, 4),   \
      argument(11, 5), argument(11, 6), argument(11, 7), argument(11, 8), argument(11, 9), \
      argument(11, 10)
#define RIGHT11                                                                    \
  (1 && a0 == argument(11, 0) && a1 == argument(11, 1) && a2 == argument(11, 2) && \
   a3 == argument(11, 3) && a4 == argument(11, 4) && a5 == argument(11, 5) &&      \
   a6 == argument(11, 6) && a7 == argument(11, 7) && a8 == argument(11, 8) &&      \
   a9 == argument(11, 9) && a10 == argument(11, 10))
#define PARAMS12                                                              \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2,   \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5, \
      gasnet_handlerarg_t a6, gasnet_handlerarg_t a7, gasnet_handlerarg_t a8, \
      gasnet_handlerarg_t a9, gasnet_handlerarg_t a10, gasnet_handlerarg_t a11
#define GIVEN12 , a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11
#define FRESH12                                                                            \
  , argument(12, 0), argument(12, 1), argument(12, 2), argument(12, 3), argument(12, 4),   \
      argument(12, 5), argument(12, 6), argument(12, 7), argument(12, 8), argument(12, 9), \
      argument(12, 10), argument(12, 11)
#define RIGHT12                                                                    \
  (1 && a0 == argument(12, 0) && a1 == argument(12, 1) && a2 == argument(12, 2) && \
   a3 == argument(12, 3) && a4 == argument(12, 4) && a5 == argument(12, 5) &&      \
   a6 == argument(12, 6) && a7 == argument(12, 7) && a8 == argument(12, 8) &&      \
   a9 == argument(12, 9) && a10 == argument(12, 10) && a11 == argument(12, 11))
#define PARAMS13                                                                \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2,     \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5,   \
      gasnet_handlerarg_t a6, gasnet_handlerarg_t a7, gasnet_handlerarg_t a8,   \
      gasnet_handlerarg_t a9, gasnet_handlerarg_t a10, gasnet_handlerarg_t a11, \
      gasnet_handlerarg_t a12
#define GIVEN13 , a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12
#define FRESH13                                                                            \
  , argument(13, 0), argument(13, 1), argument(13, 2), argument(13, 3), argument(13, 4),   \
      argument(13, 5), argument(13, 6), argument(13, 7), argument(13, 8), argument(13, 9), \
      argument(13, 10), argument(13, 11), argument(13, 12)
#define RIGHT13                                                                    \
  (1 && a0 == argument(13, 0) && a1 == argument(13, 1) && a2 == argument(13, 2) && \
   a3 == argument(13, 3) && a4 == argument(13, 4) && a5 == argument(13, 5) &&      \
   a6 == argument(13, 6) && a7 == argument(13, 7) && a8 == argument(13, 8) &&      \
   a9 == argument(13, 9) && a10 == argument(13, 10) && a11 == argument(13, 11) &&  \
   a12 == argument(13, 12))
#define PARAMS14                                                                \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2,     \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5,   \
      gasnet_handlerarg_t a6, gasnet_handlerarg_t a7, gasnet_handlerarg_t a8,   \
      gasnet_handlerarg_t a9, gasnet_handlerarg_t a10, gasnet_handlerarg_t a11, \
      gasnet_handlerarg_t a12, gasnet_handlerarg_t a13
#define GIVEN14 , a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13
#define FRESH14                                                                            \
  , argument(14, 0), argument(14, 1), argument(14, 2), argument(14, 3), argument(14, 4),   \
      argument(14, 5), argument(14, 6), argument(14, 7), argument(14, 8), argument(14, 9), \
      argument(14, 10), argument(14, 11), argument(14, 12), argument(14, 13)
#define RIGHT14                                                                    \
  (1 && a0 == argument(14, 0) && a1 == argument(14, 1) && a2 == argument(14, 2) && \
   a3 == argument(14, 3) && a4 == argument(14, 4) && a5 == argument(14, 5) &&      \
   a6 == argument(14, 6) && a7 == argument(14, 7) && a8 == argument(14, 8) &&      \
   a9 == argument(14, 9) && a10 == argument(14, 10) && a11 == argument(14, 11) &&  \
   a12 == argument(14, 12) && a13 == argument(14, 13))
#define PARAMS15                                                                \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2,     \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5,   \
      gasnet_handlerarg_t a6, gasnet_handlerarg_t a7, gasnet_handlerarg_t a8,   \
      gasnet_handlerarg_t a9, gasnet_handlerarg_t a10, gasnet_handlerarg_t a11, \
      gasnet_handlerarg_t a12, gasnet_handlerarg_t a13, gasnet_handlerarg_t a14
#define GIVEN15 , a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14
#define FRESH15                                                                            \
  , argument(15, 0), argument(15, 1), argument(15, 2), argument(15, 3), argument(15, 4),   \
      argument(15, 5), argument(15, 6), argument(15, 7), argument(15, 8), argument(15, 9), \
      argument(15, 10), argument(15, 11), argument(15, 12), argument(15, 13), argument(15, 14)
#define RIGHT15                                                                    \
  (1 && a0 == argument(15, 0) && a1 == argument(15, 1) && a2 == argument(15, 2) && \
   a3 == argument(15, 3) && a4 == argument(15, 4) && a5 == argument(15, 5) &&      \
   a6 == argument(15, 6) && a7 == argument(15, 7) && a8 == argument(15, 8) &&      \
   a9 == argument(15, 9) && a10 == argument(15, 10) && a11 == argument(15, 11) &&  \
   a12 == argument(15, 12) && a13 == argument(15, 13) && a14 == argument(15, 14))
#define PARAMS16                                                                 \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2,      \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5,    \
      gasnet_handlerarg_t a6, gasnet_handlerarg_t a7, gasnet_handlerarg_t a8,    \
      gasnet_handlerarg_t a9, gasnet_handlerarg_t a10, gasnet_handlerarg_t a11,  \
      gasnet_handlerarg_t a12, gasnet_handlerarg_t a13, gasnet_handlerarg_t a14, \
      gasnet_handlerarg_t a15
#define GIVEN16 , a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15
#define FRESH16                                                                                 \
  , argument(16, 0), argument(16, 1), argument(16, 2), argument(16, 3), argument(16, 4),        \
      argument(16, 5), argument(16, 6), argument(16, 7), argument(16, 8), argument(16, 9),      \
      argument(16, 10), argument(16, 11), argument(16, 12), argument(16, 13), argument(16, 14), \
      argument(16, 15)
#define RIGHT16                                                                     \
  (1 && a0 == argument(16, 0) && a1 == argument(16, 1) && a2 == argument(16, 2) &&  \
   a3 == argument(16, 3) && a4 == argument(16, 4) && a5 == argument(16, 5) &&       \
   a6 == argument(16, 6) && a7 == argument(16, 7) && a8 == argument(16, 8) &&       \
   a9 == argument(16, 9) && a10 == argument(16, 10) && a11 == argument(16, 11) &&   \
   a12 == argument(16, 12) && a13 == argument(16, 13) && a14 == argument(16, 14) && \
   a15 == argument(16, 15))

#endif
