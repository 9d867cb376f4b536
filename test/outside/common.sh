# For the scripts here: the folder $1 holds installed/, and is theirs to work in.
set -euo pipefail
outside=$1
installed=$outside/installed
here=$(dirname "$(readlink -f "$0")")
work=$outside/$(basename "$0")
rm -rf "$work"
mkdir -p "$work"
libdir=$(dirname "$(find "$installed" -name 'libpenstock-seq.*' | head -n 1)")
export PKG_CONFIG_PATH=$libdir/pkgconfig

greeted() {  # PROCESSES PROGRAM
  local said
  said=$(LD_LIBRARY_PATH=$libdir timeout 60 "$installed/bin/penrun" -n "$1" "${@:2}" | grep -c '^greeted$') || true
  [ "$said" = "$1" ] || { echo "${*:2}: $said of $1 processes were greeted"; exit 1; }
  echo "${*:2}: $1 processes were greeted"
}

needs() {  # PROGRAM LIBRARY: is it among what the program loads?
  readelf -d "$1" | grep "NEEDED.*\[$2\]" >/dev/null
}
