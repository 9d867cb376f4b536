#!/bin/sh
# Checks credit.pml in a directory of its own: conservation after every step, and that each request
# is sent in the end. Usage: check.sh WORK_DIRECTORY. Exit 0 when both hold, 77 without spin.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
command -v spin >/dev/null || { echo "spin is not installed"; exit 77; }
mkdir -p "$1"
cd "$1"

# search NAME SPIN_FLAGS PAN_DEFINES PAN_FLAGS: all states, no error and nothing cut off.
search() {
  mkdir -p "$1" && cd "$1"
  spin -a $2 "$here/credit.pml" >spin.log
  gcc -O2 -w -DHC4 -DMEMLIM=4000 $3 -o pan pan.c
  ./pan -m4000000 -w22 -n $4 >pan.log || { cat pan.log; exit 1; }
  cat pan.log | grep -E 'errors|states, stored'
  if ! grep -q 'errors: 0' pan.log || grep -qE 'depth too small|out of memory|not completed' pan.log; then
    cat pan.log
    echo "$1: the property does not hold, or the search was cut off"
    exit 1
  fi
  cd ..
}

search conserved "" "-DSAFETY -DNOCLAIM" ""
search sent "-DNO_EPOCHS" "-DNFAIR=5" "-a -f"
for part in HINTS=3 OWED DEATH; do
  search conserved_$part "-DNO_EPOCHS -D$part" "-DSAFETY -DNOCLAIM" ""
done
for part in HINTS=1 OWED DEATH; do  # HINTS=2 holds, too, at twice the cost of any other
  search sent_$part "-DNO_EPOCHS -D$part" "-DNFAIR=5" "-a -f"
done
