#!/bin/sh
# leave.sh PENRUN PROGRAM NODES [THREADED]: every way out of a GASNet program ends the whole job in time
# and with the right exit code. Prints what failed; exits 1 if anything did.
penrun=$1 program=$2 nodes=$3 threaded=$4
failed=0
expect() { # expected code, way, node that takes it
  timeout 30 "$penrun" -n "$nodes" "$program" "$2" "$3" > /dev/null 2>&1
  code=$?
  if [ "$1" = nonzero ]; then
    [ $code -ne 0 ] && [ $code -ne 124 ] && return
  else
    [ $code -eq "$1" ] && return
  fi
  echo "$2 by node $3 of $nodes: code $code, expected $1"
  failed=1
}
expect 4 nothing 0
expect 3 unattached 0
expect 5 all 0
expect 6 return 0
expect 6 exit 0
for actor in 0 $((nodes - 1)); do
  expect 5 one $actor
  expect 0 one0 $actor
  expect 6 onereturn $actor
  expect 5 handler $actor
  expect 5 barrier $actor
  expect 9 quit $actor
  [ "$threaded" = threaded ] && expect 7 thread $actor
  expect 143 term $actor
  expect 130 int $actor
  expect 9 termquit $actor
  expect nonzero deaf $actor
  expect nonzero abort $actor
  expect nonzero kill $actor
done
lines=$(timeout 30 "$penrun" -n "$nodes" "$program" print 0 2> /dev/null | grep -c prints)
[ "$lines" -eq "$nodes" ] || { echo "print: $lines lines of $nodes"; failed=1; }
exit $failed
