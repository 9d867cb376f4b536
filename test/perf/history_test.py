#!/usr/bin/env python3
"""perf/history: what has moved by more than its own spread, and the drawing. history_test.py HISTORY"""
import importlib.machinery
import importlib.util
import sys
import xml.dom.minidom

loader = importlib.machinery.SourceFileLoader("history", sys.argv[1])
h = importlib.util.module_from_spec(importlib.util.spec_from_loader("history", loader))
sys.dont_write_bytecode = True
loader.exec_module(h)


def entry(commit, **figures):
    return {"commit": commit, "day": "2026-01-01", "figures": figures}


before = entry("a", worse=[1.0, 1.01, 1.02], better=[2.0, 2.1, 2.2], noisy=[1.0, 1.5, 2.0], near=[1.0, 1.1, 1.2],
               few=[1.0, 1.0], gone=[1.0, 1.0, 1.0])
after = entry("b", worse=[1.1, 1.11, 1.12], better=[1.0, 1.1, 1.2], noisy=[2.1, 2.2, 2.3], near=[1.15, 1.2, 1.25],
              few=[9.0, 9.0], new=[1.0, 1.0, 1.0])
found = {name: (was, now) for name, was, now, _ in h.moved(before, after)}
# noisy's sets lie apart, but not further than one of them is wide; near's overlap; two runs have no spread
assert found == {"worse": (1.01, 1.11), "better": (2.1, 1.1)}, found
assert h.moved(before, before) == []
assert h.less_is_better({"bench": "am_rate", "ratio": 0.5}) == 2 and h.less_is_better({"bench": "am_lat", "ratio": 0.5}) == 0.5

for entries in ([before], [before, after]):
    drawn = xml.dom.minidom.parseString(h.drawing(entries))
    names = {n for e in entries for n in e["figures"]}
    assert len(drawn.getElementsByTagName("polyline")) == len(names)
assert all(set(e) == {"commit", "day", "figures"} for e in h.read())
