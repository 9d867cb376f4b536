// Static probes (USDT): PENSTOCK_PROBE(name, arguments...) marks a place that bpftrace, SystemTap,
// perf and gdb find by its name in the library and can stop or count at. Each costs one `nop`, and
// arguments that lie in registers or memory already; nothing is called and nothing is tested. Used
// by the engine and the firehose; lib/PROBES.md lists the probes, and a test compares.
//
// Arguments are integers or pointers, never computed for the probe alone where messages pass. There
// are no probes where <sys/sdt.h> was missing at build time, or with -DPENSTOCK_NO_PROBES.
#pragma once

#if __has_include(<sys/sdt.h>) && !defined(PENSTOCK_NO_PROBES)
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
/// Names are of letters and single underscores.
#define PENSTOCK_PROBE(name, ...) STAP_PROBEV(penstock, name, __VA_ARGS__)
#else
/// Evaluates nothing; its arguments count as used.
#define PENSTOCK_PROBE(name, ...) static_cast<void>(sizeof(penstock::probe_arguments(__VA_ARGS__)))
namespace penstock {
template <class... T>
int probe_arguments(const T&...);
}
#endif
