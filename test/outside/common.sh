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

exports() {  # MODE [SYMBOL;...]: a version script of what libpenstock-MODE offers, without these symbols
  cat <<MAP
PENSTOCK_0.1 {
  global: extern "C++" { penstock::$1::*; penstock::describe*; penstock::failure::message*; }; gasnetc_$1_*; gasnet_*;
          gasneti_*; gasnett_*; penstock_*;
  local: ${2:-} *;
};
MAP
}

relinked() {  # LIBRARY MAP [OBJECT...]: libpenstock-seq once more, of its archives, the objects and one function more
  echo 'int penstock_newer(void); int penstock_newer(void) { return 2; }' >"$work/newer.c"
  cc -fPIC -c "$work/newer.c" -o "$work/newer.o"
  local -a archives=("${@:3}")
  [ $# -gt 2 ] || archives=("$libdir/libpenstock-seq.a" "$libdir/libgasnet-penstock-seq.a")
  rm -f "$1"
  c++ -shared -o "$1" "$work/newer.o" -Wl,-soname,libpenstock-seq.so.0.1 -Wl,--version-script="$2" \
    -Wl,-Bsymbolic-functions -Wl,--whole-archive "${archives[@]}" -Wl,--no-whole-archive \
    $(pkg-config --libs libibverbs liburcu-memb) -pthread
}
