#!/usr/bin/env python3
"""rdma-core's own Python tests, as Debian ships them (python3-pyverbs, rdma-core): pyverbs_run.py DEVICE GID-INDEX

Prints a line for each case: its name, and passed, skipped, failed or error. On shm0, and in the guest on rxe0:

    penverbs test/provider/pyverbs_run.py shm0 0
    test/vm/run --timeout 600 --mem 3000 -- test/provider/pyverbs_run.py rxe0 1

pyverbs_cases is the list of those that pass on either. It is written from the two outputs:

    test/provider/pyverbs_run.py --list RXE0-OUTPUT SHM0-OUTPUT >test/provider/pyverbs_cases
"""
import gzip
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SHIPPED = pathlib.Path("/usr/share/doc/rdma-core/tests")
WORDS = {"ok": "passed", "skipped": "skipped", "FAIL": "failed", "ERROR": "error"}
HEAD = """\
# Cases of rdma-core 44's own Python tests (python3-pyverbs; /usr/share/doc/rdma-core/tests): what came of each on soft-RoCE, in
# the guest of test/vm, and on shm0. Made by pyverbs_run.py. %d cases are not named, since they skip themselves on both, and say
# what the device lacks.
# case rxe0 shm0
"""


def installed():
    bound = subprocess.run(["/usr/bin/python3", "-c", "import pyverbs"], capture_output=True).returncode == 0
    return bound and SHIPPED.exists()


def run(prefix, device, gid, modules=(), limit=None):
    """({case: what came of it}, what the tests printed); modules: only the cases of these."""
    with tempfile.TemporaryDirectory() as folder:
        for f in SHIPPED.iterdir():
            to = pathlib.Path(folder) / f.name.removesuffix(".gz")
            to.write_bytes(gzip.open(f).read() if f.suffix == ".gz" else f.read_bytes())
        chosen = [word for m in modules for word in ["-k", m]]
        done = subprocess.run([*prefix, "/usr/bin/python3", f"{folder}/run_tests.py", "-v", "--dev", device, "--gid", gid, *chosen],
                              capture_output=True, text=True, timeout=limit)
    # "name (tests.module.class.name)", perhaps a line of description, "... ok"
    ended = re.findall(r"^\w+ \(tests\.([\w.]+)\)(?:(?!^\w+ \(tests\.).)*?\.\.\. (\w+)", done.stderr, re.M | re.S)
    return {case: WORDS.get(word, word) for case, word in ended}, done.stderr


def table(path):
    """The cases of pyverbs_cases, or of an output of this program: (case, results…)."""
    return [line.split() for line in pathlib.Path(path).read_text().splitlines() if line and not line.startswith("#")]


def listed(kernels, shm):
    """The text of pyverbs_cases."""
    cases = sorted({*kernels, *shm})
    both = [(c, kernels.get(c, "-"), shm.get(c, "-")) for c in cases]
    named = [b for b in both if set(b[1:]) - {"skipped"}]
    return HEAD % (len(both) - len(named)) + "".join(f"{' '.join(b)}\n" for b in named)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--list":
        print(listed(*({case: word for case, word in table(path)} for path in sys.argv[2:])), end="")
    elif len(sys.argv) != 3:
        sys.exit(__doc__)
    elif not installed():
        sys.exit("packages python3-pyverbs and rdma-core are not installed")
    else:
        os.environ.setdefault("TMPDIR", "/dev/shm")  # writable in the guest, too
        results, said = run([], *sys.argv[1:])
        for case, word in sorted(results.items()):
            print(case, word)
        sys.stderr.write(said[said.find("=" * 70):] if "=" * 70 in said else "")
