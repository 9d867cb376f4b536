#!/bin/sh
# Checks credit.pml in a directory of its own: conservation after every step, that each request is sent in the end, and
# that the model notices when a rule is left out. Usage: check.sh WORK_DIRECTORY. Exit 0 when all hold, 77 without spin.
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

# A bound that the largest message just reaches, offers, and a borrower that stops polling.
search credit conserved_OFFERS "-DNO_EPOCHS -DMOST=3 -DOFFERS" "-DSAFETY -DNOCLAIM" ""
search credit sent_MOST "-DNO_EPOCHS -DMOST=3 -DSPARE=1" "-DNFAIR=5" "-a -f"
search credit sent_OFFERS "-DNO_EPOCHS -DMOST=3 -DOFFERS" "-DNFAIR=5" "-a -f"
search credit sent_SILENT "-DNO_EPOCHS -DMOST=3 -DOFFERS -DSILENT" "-DNFAIR=5" "-a -f"

# found NAME SPIN_FLAGS: the search finds a request that is never sent.
found() {
  if (search credit "$1" "-DNO_EPOCHS $2" "-DNFAIR=5" "-a -f") >"$1.log" 2>&1; then
    echo "the model does not notice $1"
    exit 1
  fi
  grep -q 'acceptance cycle' "$1.log" || { cat "$1.log"; exit 1; }
}
found offered_by_buffers_alone "-DMOST=1 -DOFFERS -DBY_BUFFERS"
found first_not_asked "-DMOST=3 -DSPARE=1 -DNO_ASK_FIRST"
found silent_and_not_offered "-DSILENT"
