"""Each process loads a library that uses GASNet and has it greet its neighbour: greet.py LIBRARY."""
import ctypes
import sys

library = ctypes.CDLL(sys.argv[1])
if library.greet_start() != 0 or library.greet_size() < 1:
    sys.exit("no start")
blocks = [bytes(n) for n in range(0, 200000, 977)]  # the interpreter's malloc is its own
if library.greet_neighbour() != 1:
    sys.exit("no greeting")
del blocks
print("greeted", flush=True)
library.greet_end()
