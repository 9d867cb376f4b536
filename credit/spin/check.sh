#!/bin/sh
# Checks credit.pml in a directory of its own: conservation after every step, and that each request
# is sent in the end. Usage: check.sh WORK_DIRECTORY. Exit 0 when both hold, 77 without spin.
set -eu
. "$(dirname "$0")/../../test/model/spin_search"

search credit conserved "" "-DSAFETY -DNOCLAIM" ""
search credit sent "-DNO_EPOCHS" "-DNFAIR=5" "-a -f"
for part in HINTS=3 OWED DEATH; do
  search credit conserved_$part "-DNO_EPOCHS -D$part" "-DSAFETY -DNOCLAIM" ""
done
for part in HINTS=1 OWED DEATH; do  # HINTS=2 holds, too, at twice the cost of any other
  search credit sent_$part "-DNO_EPOCHS -D$part" "-DNFAIR=5" "-a -f"
done
