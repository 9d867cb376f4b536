// What the tests of the ledger begin with: the names that they all use.
#pragma once

#include <doctest/doctest.h>

#include "test/credit/two_ledgers.hpp"

using namespace penstock;          // NOLINT: included by test programs alone
using namespace penstock::credit;  // NOLINT
using credit::testing::lent_and_banked;
using credit::testing::planned;
using credit::testing::small;

using seq_ledger = ledger<thread_mode::seq>;
using par_ledger = ledger<thread_mode::par>;
