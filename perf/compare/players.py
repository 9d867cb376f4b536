"""Who takes part in perf/compare, by which command each carries out an exchange, and what rows there are."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 30  # seconds: an exchange that takes longer has no figure
KERNEL = "rxe0"  # the kernel's device in the guest
TCP = "tcp0"  # no device of verbs for the others: they have their own ways over TCP
LOOPBACK = "lo"  # the interface by which both processes meet over TCP
CROWDED = 5  # so many times as long is the exchange of more processes than processors, which find their places first
SLOWER = 20  # by so much an exchange over it is slower than one over shm0, about

# Rows: name, unit, whether more is better.
ROWS = [("Short, 8 B", "ns", False), ("Medium, 64 B", "ns", False), ("Medium, 4 KB", "ns", False),
        ("put, 8 B", "ns", False), ("get, 8 B", "ns", False), ("Short rate", "M/s", True), ("incast of 4", "M/s", True),
        ("memory", "MB", False), ("memory pinned", "MB", False)]
SHORT, MEDIUM, LARGE, PUT, GET, RATE, INCAST, MEMORY, PINNED = (name for name, _, _ in ROWS)
PROGRAMS = ("penperf", "ucx_perftest", "mpi_pair", "gex_pair", "fi_pingpong")  # the processes whose memory is read, of all that are started


def start(command, env, log):
    return subprocess.Popen(command, env={**os.environ, **env}, stdout=log, stderr=subprocess.STDOUT,
                            stdin=subprocess.DEVNULL, start_new_session=True)


def field(path, name):
    """A field of a file in /proc, in MB; 0 where there is none."""
    try:
        found = re.search(rf"^{name}:\s+(\d+) kB", pathlib.Path(path).read_text(), re.M)
        return int(found[1]) / 1024 if found else 0.0
    except OSError:
        return 0.0


def footprint(processes):
    """(resident, pinned) MB of the largest process that takes part: its share of what is shared counts as its own."""
    family, resident, pinned = [p.pid for p in processes], 0.0, 0.0
    for pid in family:
        try:
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                family += [int(c) for c in (task / "children").read_text().split()]
            name = pathlib.Path(f"/proc/{pid}/comm").read_text()
        except OSError:
            continue
        if name.startswith(PROGRAMS):
            resident = max(resident, field(f"/proc/{pid}/smaps_rollup", "Pss"))
            pinned = max(pinned, field(f"/proc/{pid}/status", "VmPin") + field(f"/proc/{pid}/status", "VmLck"))
    return resident, pinned


def wait(processes, until, seen=None):
    """Whether all of them end well in time; none is left. seen: gets the footprints meanwhile."""
    fine = True
    while seen is not None and any(p.poll() is None for p in processes) and time.monotonic() < until:
        began = time.monotonic()
        seen.append(footprint(processes))
        time.sleep(max(0.05, 10 * (time.monotonic() - began)))  # reading is slow on an emulated processor
    for p in processes:
        try:
            fine &= p.wait(max(0.1, until - time.monotonic())) == 0
        except subprocess.TimeoutExpired:
            fine = False
    for p in processes:
        if p.poll() is None:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
    return fine


def output(command, env={}, seen=None):
    """What a command says, or nothing if it fails or does not end."""
    with tempfile.TemporaryFile("w+") as log:
        fine = wait([start(command, env, log)], time.monotonic() + LIMIT, seen)
        log.seek(0)
        return log.read() if fine else ""


def pair(command, client, env, on, seen=None):
    """What the client of a server and a client says; each has its processor."""
    with tempfile.TemporaryFile("w+") as log, tempfile.TemporaryFile("w+") as unread:
        server = start(["taskset", "-c", on[1]] + command, env, unread)
        time.sleep(0.4)
        fine = wait([start(["taskset", "-c", on[0]] + command + [client], env, log), server], time.monotonic() + LIMIT, seen)
        log.seek(0)
        return log.read() if fine else ""


class Penstock:
    """penperf; beside each figure stands its twin's, by bare shared memory or bare verbs."""
    TESTS = {SHORT: ["am_lat"], MEDIUM: ["am_lat", "--kind", "medium", "-s", "64", "--reply", "same"],
             LARGE: ["am_lat", "--kind", "medium", "-s", "4032", "--reply", "same"], PUT: ["put_lat", "-s", "8"],
             GET: ["get_lat", "-s", "8"], RATE: ["am_rate"]}

    def __init__(self, name, bare, options, direct):
        self.name, self.bare, self.o = name, bare, options
        self.env = {"PENSTOCK_DEVICE": options.device, "PENSTOCK_DIRECT": direct}

    def measure(self, row, seen=None):
        if row == INCAST:
            said = re.findall(r"figure ([\d.]+)", output([str(self.o.programs / "penrun"), "-n", "5", str(self.o.programs / "incast"),
                                                          str(CROWDED * self.o.seconds)], self.env))
            return {self.name: float(said[0]) / 1e6} if said else {}
        said = output([str(self.o.programs / "penperf"), *self.TESTS[row], "--json", "--rounds", "1", "-D",
                       str(self.o.seconds), "--cpus", self.o.cpus], self.env, seen)
        lines = [line for line in said.splitlines() if line.startswith("{")]
        if not lines:
            return {}
        got = json.loads(lines[-1])
        if row == RATE:
            ours, bare = got["rate"] / 1e6, got["twin_rate"] / 1e6
        else:
            half = 1 if row in (PUT, GET) else 2
            ours, bare = got["ns"]["p50"] / half, got["twin_ns"] / half
        return {self.name: ours, self.bare: bare}


class Ucx:
    """ucx_perftest: messages by uct; gets by ucp, whose blocking call they are, and over a kernel's device by uct, one at a
    time, since UCX's own setting up of connections by UD, which ucp needs, does not end on soft-RoCE."""

    def __init__(self, name, options, prefix, uct, tls):
        self.name, self.o, self.prefix, self.uct = name, options, prefix, uct
        self.env = {"UCX_TLS": tls, "UCX_WARN_UNUSED_ENV_VARS": "n"}
        if "verbs" in tls:
            self.env["UCX_NET_DEVICES"] = f"{options.device}:1"
        if options.device == TCP:
            self.env["UCX_NET_DEVICES"] = LOOPBACK

    def measure(self, row, seen=None):
        if row == INCAST:
            return None
        bytes_, what = {SHORT: (8, "am_lat"), MEDIUM: (64, "am_lat"), LARGE: (4032, "am_lat"),
                        PUT: (8, "ucp_put_lat" if self.o.device == TCP else "put_lat"),
                        GET: (8, "get" if self.o.device == KERNEL else "ucp_get"), RATE: (8, "am_bw")}[row]
        much = (20 if row == RATE else 1) / self.o.slower
        command = [*self.prefix, "ucx_perftest", "-p", str(random.randrange(20000, 30000)), "-t", what, "-s", str(bytes_),
                   "-n", str(int(self.o.seconds * 500_000 * much)), "-w", str(2000 // self.o.slower), "-f"]
        ways = [[]]
        if not what.startswith("ucp"):
            # Inline where a message fits: 64 bytes and UCX's own byte do not everywhere.
            ways = [self.uct + way for way in ([["-D", "bcopy"]] if bytes_ > 64 or what == "get" else [[], ["-D", "bcopy"]])]
        for way in ways:
            said = pair(command + way, "localhost", self.env, self.o.cpus.split(","), seen)
            if ended := re.findall(r"^(?:Final:)?\s*([\d.]+(?:\s+[\d.]+){7})\s*$", said, re.M):
                break
        if not ended:
            return {}
        # iterations; median, average and overall latency in us; MB/s twice; messages/s twice
        figures = [float(f) for f in ended[-1].split()]
        return {self.name: figures[7] / 1e6 if row == RATE else figures[1] * 1000}


MPIRUN = ["mpirun", *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "--oversubscribe"]
MPI_MEMORY = ["--mca", "pml", "ob1", "--mca", "btl", "self,vader"]
MPI_VERBS = ["--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "opal_common_ucx_devices", "any", "--mca",
             "opal_common_ucx_tls", "any", "-x", "UCX_TLS=rc_verbs,ud_verbs,self"]


class Pair:
    """A program of this folder that carries out an exchange and prints its figure. launch(n): what starts n ranks of it."""

    def __init__(self, name, options, launch, program, env, more=()):
        self.name, self.o, self.launch, self.program, self.env, self.more = name, options, launch, program, env, more

    def measure(self, row, seen=None):
        what, bytes_ = {SHORT: ("lat", 8), MEDIUM: ("lat", 64), LARGE: ("lat", 4032), PUT: ("put", 8), GET: ("get", 8),
                        RATE: ("rate", 8), INCAST: ("incast", 8)}[row]
        ranks, seconds, more = (5, CROWDED * self.o.seconds, ()) if row == INCAST else (2, self.o.seconds, self.more)
        said = re.findall(r"figure ([\d.]+)", output([*self.launch(ranks), self.program, what, str(bytes_), str(seconds), *more],
                                                     self.env, seen))
        return {self.name: float(said[0]) / (1e6 if row in (RATE, INCAST) else 1)} if said else {}


def over_mpi(name, o, prefix, program, settings):
    def launch(ranks):  # five wherever there is room
        return [*prefix, *MPIRUN, "-n", str(ranks), *(["--cpu-set", o.cpus, "--bind-to", "core"] if ranks == 2 else
                                                      ["--bind-to", "none"]), *settings]
    return Pair(name, o, launch, program, {"UCX_NET_DEVICES": f"{o.device}:1", "UCX_WARN_UNUSED_ENV_VARS": "n"})


def over_gasnetex(programs, name, device):
    """The libraries of gasnetex.h over which program `name` was built: (column, what starts n ranks, program, environment)."""
    theirs = (programs.parent / "gasnet_ex/bin").resolve()  # PENSTOCK_GASNET_EX_PREFIX
    apart = {"GASNET_SUPERNODE_MAXSIZE": "1"}  # their ranks of one host share memory else
    by_mpi = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
              "OMPI_MCA_hwloc_base_binding_policy": "none"}
    all_of = [(f"Penstock, gasnetex.h{more}", "penstock", lambda n: [str(programs / "penrun"), "-n", str(n)],
               {"PENSTOCK_DEVICE": device, "PENSTOCK_DIRECT": direct})
              for more, direct in ([(", TCP", "0")] if device == TCP else [("", "1"), (", verbs", "0")])]
    if device == TCP:
        all_of.append(("GASNet-EX udp", "udp", lambda n: [str(theirs / "amudprun"), "-np", str(n)],
                       {**apart, "GASNET_SPAWNFN": "L", "GASNET_MASTERIP": "127.0.0.1", "GASNET_WORKERIP": "127.0.0.0"}))
    else:
        all_of += [("GASNet-EX smp", "smp", lambda n: ["env", f"GASNET_PSHM_NODES={n}"], {}),
                   ("GASNet-EX ibv", "ibv", lambda n: [str(programs / "penverbs"), "--personality", "link=ib",
                                                       str(theirs / "gasnetrun_ibv"), "-n", str(n)],
                    {**apart, **by_mpi, "GASNET_PHYSMEM_MAX": "1G", "GASNET_PHYSMEM_PROBE": "0"})]
    return [(column, launch, str(programs / f"{name}_{conduit}"), env) for column, conduit, launch, env in all_of
            if (programs / f"{name}_{conduit}").exists()]


def address(device):
    """The IPv4 address by which a RoCE device is reached, or this host's own."""
    for gid in sorted(pathlib.Path(f"/sys/class/infiniband/{device}/ports/1/gids").glob("*")):
        words = gid.read_text().strip().replace(":", "")
        if words.startswith("0" * 20 + "ffff"):
            return ".".join(str(byte) for byte in bytes.fromhex(words[-8:]))
    return "127.0.0.1"


def per_transfer(said):
    """Microseconds of a transfer, by the table that fi_pingpong prints: a heading and one line. Nothing if there is none."""
    lines = [line.split() for line in said.splitlines()]
    for head, line in zip(lines, lines[1:]):
        if "usec/xfer" in head and len(line) == len(head):
            return float(line[head.index("usec/xfer")])
    return None


class Libfabric:
    """fi_pingpong, which has no one-sided exchange and no rate. Over verbs by connected endpoints."""

    def __init__(self, name, options, provider, endpoints):
        self.name, self.o, self.provider, self.endpoints = name, options, provider, endpoints

    def measure(self, row, seen=None):
        bytes_ = {SHORT: 8, MEDIUM: 64, LARGE: 4032}.get(row)
        if bytes_ is None:
            return None
        port = str(random.randrange(20000, 30000))
        with_port = ["fi_pingpong", "-p", self.provider, "-e", self.endpoints, "-S", str(bytes_), "-I",
                     str(int(self.o.seconds * 300_000 / self.o.slower))]
        on = self.o.cpus.split(",")
        with tempfile.TemporaryFile("w+") as log:
            server = start(["taskset", "-c", on[1], *with_port, "-B", port], {}, log)
            time.sleep(0.4)
            with tempfile.TemporaryFile("w+") as said:
                client = start(["taskset", "-c", on[0], *with_port, "-P", port, address(self.o.device)], {}, said)
                fine = wait([client, server], time.monotonic() + LIMIT, seen)
                said.seek(0)
                usec = per_transfer(said.read())
        return {self.name: usec * 1000} if fine and usec else {}


def mpi_pair(folder):
    """The program, compiled there unless it is; nothing where there is no MPI."""
    program = pathlib.Path(folder, "mpi_pair")
    if not program.exists() and shutil.which("mpirun") and shutil.which("mpicc"):
        subprocess.run(["mpicc", "-O2", "-o", str(program), str(HERE / "mpi_pair.c")])
    return str(program) if program.exists() else None


def by_gasnetex(o):
    return [Pair(name, o, launch, program, env, [o.cpus]) for name, launch, program, env in
            over_gasnetex(o.programs, "gex_pair", o.device)]


def over_tcp(o, folder):
    """Who takes part in exchanges over TCP, between two processes of this host."""
    yield Penstock("Penstock, TCP", "bare TCP", o, "0")
    if shutil.which("ucx_perftest"):
        yield Ucx("UCX, TCP", o, [], ["-x", "tcp", "-d", LOOPBACK], "tcp,self")
    if program := mpi_pair(folder):
        yield over_mpi("Open MPI, TCP", o, [], program, ["--mca", "pml", "ob1", "--mca", "btl", "self,tcp", "--mca",
                                                    "btl_tcp_if_include", LOOPBACK, "--mca", "osc", "pt2pt"])
    if shutil.which("fi_pingpong"):
        yield Libfabric("libfabric, TCP", o, "tcp", "msg")
    yield from by_gasnetex(o)


def contestants(o, folder):
    if o.device == TCP:
        return [c for c in over_tcp(o, folder) if not o.only or any(w.lower() in c.name.lower() for w in o.only)]
    kernel = o.device != "shm0"
    penverbs = [] if kernel else [str(o.programs / "penverbs")]
    shown = kernel or (o.programs / "penverbs").exists()  # else: no verbs columns of others
    found = [Penstock("Penstock, rings", "bare memory", o, "1"), Penstock("Penstock, verbs", "bare verbs", o, "0")]
    if shutil.which("ucx_perftest"):
        found.append(Ucx("UCX, memory", o, [], ["-x", "posix", "-d", "memory"], "posix,cma,self"))
    if shutil.which("ucx_perftest") and shown:
        found += [Ucx("UCX, rc_verbs", o, penverbs, ["-x", "rc_verbs", "-d", f"{o.device}:1"], "rc_verbs,ud_verbs,self")]
    if program := mpi_pair(folder):
        found.append(over_mpi("Open MPI, memory", o, [], program, MPI_MEMORY))
        if shown:
            found.append(over_mpi("Open MPI, rc_verbs", o, penverbs, program, MPI_VERBS))
    if shutil.which("fi_pingpong"):
        found.append(Libfabric("libfabric, verbs", o, "verbs", "msg") if kernel else Libfabric("libfabric, shm", o, "shm", "rdm"))
    found += by_gasnetex(o)
    found = [c for c in found if not kernel or "verbs" in c.name]  # through memory nothing is new there
    return [c for c in found if not o.only or any(w.lower() in c.name.lower() for w in o.only)]
