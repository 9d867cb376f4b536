#!/bin/sh
# Checks part.pml in a directory of its own: what it asserts in every state, that each request is answered in the end,
# and that the model notices when a rule of the exchange is left out; and share.pml in the same way. Usage: check.sh
# WORK_DIRECTORY. Exit 0 when all hold, 77 without spin.
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

for claim in sent moved; do
  search share share_$claim "" "-DNFAIR=8" "-a -f -N $claim"
done
# not_held NAME SPIN_FLAGS CLAIM: without that rule somebody finds no buffer.
not_held() {
  if (search share "$1" "$2" "-DNFAIR=8" "-a -f -N $3") >"$1.log" 2>&1; then
    echo "the model does not need the rule against $1"
    exit 1
  fi
  grep -q 'acceptance cycle' "$1.log" || { cat "$1.log"; exit 1; }
}
not_held all_alike -DALL_ALIKE sent
not_held none_kept "-DNONE_KEPT -DN=3" moved
