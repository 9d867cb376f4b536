/* See ex_rma_names.h; as C99, C11, C++17, C++20. */
#include <gasnetex.h>

#include "ex_rma_names.h"

int main(void) { return ex_rma_names(); }
