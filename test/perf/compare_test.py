#!/usr/bin/env python3
"""perf/compare: who is named as ahead, and runs over Penstock alone. compare_test.py COMPARE PROGRAMS"""
import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import types

compare, programs = sys.argv[1:]
loader = importlib.machinery.SourceFileLoader("compare", compare)
loader_spec = importlib.util.spec_from_loader("compare", loader)
c = importlib.util.module_from_spec(loader_spec)
sys.dont_write_bytecode = True
loader.exec_module(c)

rings, verbs = "Penstock, rings", "Penstock, verbs"
medians = {c.SHORT: {rings: 80.0, verbs: 200.0, "bare memory": 50.0, "UCX, memory": 100.0, "UCX, rc_verbs": 150.0},
           c.RATE: {rings: 20.0, "UCX, memory": 10.0, "Open MPI, memory": 25.0},
           c.PUT: {rings: 2.0, "UCX, memory": 55.0}}
assert c.ahead(c.SHORT, medians[c.SHORT]) == [("UCX, rc_verbs", verbs, 200 / 150)]  # verbs beside verbs, and no twin
assert c.ahead(c.RATE, medians[c.RATE]) == [("Open MPI, memory", rings, 1.25)]  # more is better
assert c.ahead(c.PUT, medians[c.PUT]) == []
lines = c.table(medians, [rings, "UCX, memory", "Open MPI, memory"]).splitlines()
assert lines[:3] == ["Short, 8 B: UCX, rc_verbs is ahead of Penstock, verbs, by 1.33",
                     "Short rate: Open MPI, memory is ahead of Penstock, rings, by 1.25", ""], lines
assert [line.split(" (")[0] for line in lines[5:]] == ["| Short, 8 B", "| Short rate", "| put, 8 B"], lines
assert lines[-1] == "| put, 8 B (ns) | 2.0 | 55.0 | - |", lines

assert c.ahead(c.SHORT, {"Penstock, gasnetex.h": 80.0, "Penstock, gasnetex.h, verbs": 200.0, rings: 90.0, "UCX, memory": 70.0,
                         "GASNet-EX smp": 40.0, "GASNet-EX ibv": 100.0}) == [
    ("GASNet-EX smp", "Penstock, gasnetex.h", 2.0), ("GASNet-EX ibv", "Penstock, gasnetex.h, verbs", 2.0), ("UCX, memory", rings, 90 / 70)]
assert c.ahead(c.PINNED, {rings: 0.0, "UCX, memory": 0.0}) == []  # nothing beside nothing
probes = [90.0, 120.0]
c.output = (lambda real: lambda command, *more: json.dumps({"probe_ns": probes}) if "am_lat" in command else real(command, *more))(c.output)
here = types.SimpleNamespace(programs=pathlib.Path(programs), cpus="0,1")
assert c.placement(here) == c.NEAR
probes[:] = [320.0, 300.0]
assert c.placement(here) == c.FAR
probes[:] = [90.0, 320.0]
assert c.placement(here) is None

run = subprocess.run([compare, programs, "--rounds", "1", "--seconds", "0.02", "--only", "rings", "--row", "put", "--row", "8 B", "--row", "incast", "--row", "memory"],
                     capture_output=True, text=True, timeout=100)
assert run.returncode == 0, run
for row in [c.SHORT, c.PUT, c.GET]:  # on a busy machine the placement may change during each exchange
    assert "do not count" in run.stderr or (f"| {row} (ns) | " in run.stdout and "bare memory" in run.stdout), run
assert rings in run.stdout, run
assert f"| {c.INCAST} (M/s) | " in run.stdout and f"| {c.MEMORY} (MB) | " in run.stdout, run
assert run.stdout.startswith((c.NEAR, c.FAR, c.ANY)) and c.ANY in run.stdout, run
print(run.stdout)

# By gasnetex.h Penstock is started as any library of it.
o = types.SimpleNamespace(programs=pathlib.Path(programs), device="shm0", cpus="0,1", seconds=0.02)
players = [player for player in c.by_gasnetex(o) if c.of_penstock(player.name)]
assert [player.name for player in players] == ["Penstock, gasnetex.h", "Penstock, gasnetex.h, verbs"], players
for player in players:
    got = {row: player.measure(row) for row in [c.SHORT, c.MEDIUM, c.LARGE, c.PUT, c.GET, c.RATE, c.INCAST]}
    assert all(found and found[player.name] > 0 for found in got.values()), (player.name, got)

# Figures of an earlier run count, and the table goes between its marks.
with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    (folder / "put.json").write_text(json.dumps({c.FAR: {c.PUT: {"UCX, memory": [7.5]}}}))
    run = subprocess.run([compare, programs, "--rounds", "1", "--seconds", "0.02", "--only", "rings", "--row", "put", "--with",
                          folder / "put.json", "--json", folder / "both.json"], capture_output=True, text=True, timeout=100)
    assert run.returncode == 0 and "UCX, memory" in run.stdout, run
    both = json.loads((folder / "both.json").read_text())
    assert both[c.FAR][c.PUT]["UCX, memory"] == [7.5], both
    assert "do not count" in run.stderr or any(rings in by[c.PUT] for by in both.values()), both
    page = folder / "page.md"
    page.write_text("before\n<!-- compare: made by perf/compare/compare -->\nold\n<!-- end of compare -->\nafter\n")
    c.put_into(page, "far\n\nput: X is ahead of Y, by 2\n\n| table |")
    assert page.read_text() == ("before\n<!-- compare: made by perf/compare/compare -->\nfar\n\n- put: X is ahead of Y, by 2\n"
                                "\n| table |\n<!-- end of compare -->\nafter\n"), page.read_text()
    # The guest's table has marks of its own, and leaves the other one alone.
    both = "<!-- compare: made by perf/compare/compare -->\nA\n<!-- end of compare -->\n<!-- compare: made by perf/compare/compare --guest -->\n"
    page.write_text(both + "old\n<!-- end of compare --guest -->\n")
    c.put_into(page, "guest", guest=True)
    assert page.read_text() == both + "guest\n<!-- end of compare --guest -->\n", page.read_text()

    # On a kernel's device nobody exchanges through memory, or by penverbs.
    o = types.SimpleNamespace(programs=pathlib.Path(programs), device="rxe0", slower=c.SLOWER, only=[], cpus="0,1", seconds=0.2)
    for player in c.contestants(o, folder):
        assert "verbs" in player.name and "penverbs" not in str(vars(player)), vars(player)
    # Over TCP each goes its own way, and none by memory.
    o = types.SimpleNamespace(programs=pathlib.Path(programs), device="tcp0", slower=c.SLOWER, only=[], cpus="0,1", seconds=0.2)
    players = c.contestants(o, folder)
    assert all(player.name.endswith((", TCP", " udp")) for player in players), players
    got = players[0].measure(c.PUT)
    assert got.keys() == {"Penstock, TCP", "bare TCP"} and min(got.values()) > 1000, got

# fi_pingpong writes its sizes and counts with units; the column is found by its name.
assert c.per_transfer("bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n"
                      "3.9k    60k     =60k     461m        0.08s   6396.45       0.63       1.59\n") == 0.63
assert c.per_transfer("[error] no such provider\n") is None
assert [c.told(v) for v in (None, 0, 0.034, 8.76, 1234)] == ["-", "0.0", "0.034", "8.8", "1,234"]
