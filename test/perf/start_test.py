#!/usr/bin/env python3
"""Compares what perf/start plays with real jobs of as many ranks, and bounds what it takes for 10,000.

start_test.py PENRUN START like     small jobs, played and real
start_test.py PENRUN START large    10,000 ranks, played
"""
import json
import resource
import subprocess
import sys
import time

PENRUN, START, WHAT = sys.argv[1:4]
wrong = []


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ends with {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def expect(ok, what):
    if not ok:
        wrong.append(what)


def plan(figures):
    """The memory report without what the kernel has counted."""
    return figures["report"].split("in memory now")[0]


def compare(ranks, *way):
    played, real = run(START, "--json", *way, str(ranks)), run(PENRUN, "-n", str(ranks), START, "--json", *way)
    job = f"{ranks} ranks {' '.join(way)}: "
    # By rings, ranks that outnumber the cores exchange a page for barriers, too.
    for name in ["known"] + ([] if way else ["exchanges", "exchange_sent", "exchange_received"]):
        expect(played[name] == real[name], f"{job}{name} is {real[name]}, played {played[name]}")
    expect(plan(played) == plan(real), f"{job}the memory report is\n{plan(real)}played\n{plan(played)}")
    for pattern in ("none", "one", "barrier", "all"):
        p, r = played[pattern], real[pattern]
        where = f"{job}{pattern}: "
        expect(p["connections"] == r["connections"], f"{where}{r['connections']} connections, played {p['connections']}")
        # Other processes of a host have windows of their own; those of a played job are the rank's.
        expect(0.5 < r["mapped"] / p["mapped"] < 2.5, f"{where}{r['mapped']} bytes mapped, played {p['mapped']}")
        hellos = [f["hellos_sent"] + f["hellos_received"] for f in (p, r)]
        expect((hellos[0] == 0) == (hellos[1] == 0), f"{where}{hellos[1]} hellos, played {hellos[0]}")
        if 0 in hellos:
            continue
        each = [f["hello_bytes"] / n for f, n in zip((p, r), hellos)]
        expect(each[0] == each[1], f"{where}a hello has {each[1]} bytes, played {each[0]}")
        # One side asks: 3. Both ask: 4, unless one hears the other first. Where time is short, some are said again.
        expect(3 <= p["hellos_each"] <= 4.5, f"{where}{p['hellos_each']} hellos for a played connection")
        expect(3 <= r["hellos_each"] <= 3 * p["hellos_each"], f"{where}{r['hellos_each']} hellos, played {p['hellos_each']}")


if WHAT == "like":
    compare(2)
    compare(12)
    compare(2, "--rings")
else:
    began = time.monotonic()
    f = run(START, "--json", "10000")
    seconds = time.monotonic() - began
    megabytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"10,000 ranks: {seconds:.1f} s, {megabytes:.0f} MB")
    expect(seconds < 150, f"10,000 ranks take {seconds:.0f} s")
    expect(megabytes < 1000, f"10,000 ranks take {megabytes:.0f} MB")
    expect(f["barrier"]["connections"] == 28, "not all ranks of the connect file are connected")
    expect(f["all"]["connections"] > 8000, f"{f['all']['connections']} ranks are connected")
    # 4; some hellos are said again on a busy machine, but not to a rank whose answer has come.
    expect(f["all"]["hellos_each"] < 5, f"{f['all']['hellos_each']} hellos for a connection")
    # Neither the connector nor the device takes longer for each where there are more.
    few = run(START, "--json", "1000")["all"]
    each = [a["connector_cpu_ns"] / a["connections"] for a in (few, f["all"])]
    expect(each[1] < 1.5 * each[0],
           f"the connector takes {each[0]:.0f} ns for one of 999 connections, and {each[1]:.0f} of 8,190")
    expect(f["known"] < 64 * 10000, f"{f['known']} bytes are known of all ranks")

print("\n".join(wrong))
sys.exit(1 if wrong else 0)
