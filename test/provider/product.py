"""All of perftest's programs with all transports and options that they can be combined with: `run … product [K/N]`.

What perftest itself refuses it says by a line of its own, before it listens; these lines are below. Such a combination
counts as refused, never as passed. K/N is the K-th of N parts.
"""
import itertools
import re

PROGRAMS = [f"ib_{verb}_{what}" for verb in ["send", "write", "read", "atomic"] for what in ["lat", "bw"]]
TRANSPORTS = ["RC", "UC", "UD"]
# The two post interfaces are ibv_wr_*, which perftest takes where it knows the adapter's number, and ibv_post_send.
OPTIONS = ["-e", "-b", "-q 64", "-a", "--use-srq", "-I 64", "--use_old_post_send"]
REFUSALS = ["UC connection not possible in READ/ATOMIC verbs", "UD connection only possible in SEND verb",
            "Bidirectional is only available in BW test", "Multiple QPs only available on bw tests",
            "Using SRQ only avavilible in SEND tests", "Events feature not available on WRITE verb",
            "Inline feature not available on READ/Atomic verbs", "Message size cannot be changed for Atomic tests"]


def combinations():
    """The command lines, those with few options first."""
    chosen = [c for n in range(len(OPTIONS) + 1) for c in itertools.combinations(OPTIONS, n)]
    for options, transport, program in itertools.product(chosen, TRANSPORTS, PROGRAMS):
        sizes, many = "-a" in options, "-q 64" in options
        # These two together take a gigabyte of buffers in each process, and half a minute.
        if sizes and many and set(options) - {"-a", "-q 64", "--use_old_post_send"}:
            continue
        words = [program, "-d shm0 -F -c", transport, *options]
        if "-I 64" in options and not sizes and "atomic" not in program:
            words.append("-s 64")
        # In cycles: for other units a latency test measures the processor's clock again for each size.
        if sizes and program.endswith("lat"):
            words.append("-C")
        # With a shared receive queue perftest wants more receives than queue pairs.
        yield " ".join([*words, "-n 65" if many and "--use-srq" in options else "-n 5" if sizes else "-n 100"])


def refusal(text):
    """The line by which perftest refuses the combination, or nothing."""
    return next((line for line in REFUSALS if line in text), None)


def part(which):
    """The combinations of part K/N. Each turn of all programs and transports begins with the next part, so that a part has many
    of them whatever N is."""
    match = re.fullmatch(r"([0-9]+)/([0-9]+)", which)
    number, parts = int(match[1]), int(match[2])
    turn = len(PROGRAMS) * len(TRANSPORTS)
    return [c for i, c in enumerate(combinations()) if (i + i // turn) % parts == number - 1]
