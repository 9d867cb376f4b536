#!/bin/sh
# Checks part.pml in a directory of its own: what it asserts in every state, that each request is answered in the end,
# and that the model notices when a rule of the exchange is left out. Usage: check.sh WORK_DIRECTORY. Exit 0 when all
# hold, 77 without spin.
set -eu
. "$(dirname "$0")/../../../../test/model/spin_search"

search part kept "" "-DSAFETY -DNOCLAIM" ""
search part answered "-DMISHAPS=0" "-DNFAIR=5" "-a -f"
for rule in SECOND_LOOK CURRENT_ASK GENERATION IDLE ASK_WHEN_CLOSED; do
  if (search part without_$rule "-DWITHOUT_$rule" "-DSAFETY -DNOCLAIM" "") >without_$rule.log 2>&1; then
    echo "the model does not need the rule $rule"
    exit 1
  fi
  grep -q 'assertion violated' without_$rule.log || { cat without_$rule.log; exit 1; }
done
