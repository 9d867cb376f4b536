/* For programs that fork(): a child says in_child = 1. LeakSanitizer calls lost what is reachable
 * in it from the stacks of its parent's threads alone. */
#ifndef PENSTOCK_TEST_CHILD_H
#define PENSTOCK_TEST_CHILD_H

static int in_child = 0;
#ifdef __cplusplus
extern "C"
#endif
    int
    __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return in_child; }

#endif
