"""Job program: every call of the package, between neighbours."""
import select
import sys
import threading

import penstock
from penstock import Atomic, Status

mode = sys.argv[1]


def refused(status, call, *args):
    try:
        call(*args)
    except penstock.StatusError as e:
        assert e.status is status, (e.status, status)
    else:
        raise AssertionError(f"{status.name} was expected")


with penstock.World({"PENSTOCK_WAIT_WARNING": 0}, mode=mode) as world:
    everybody = world.exchange(b"x" * world.rank)
    assert everybody == [b"x" * r for r in range(world.size)], everybody
    with penstock.Endpoint(world) as ep:
        seen = []
        kept = []

        @ep.short(16)
        def words(token, *args):
            assert token.is_request and args == tuple(range(16)), args
            token.reply_short(answer, token.source)
            refused(Status.REPLIED_TWICE, token.reply_short, answer, 1)

        @ep.short(1)
        def answer(token, rank):
            assert not token.is_request and rank == ep.rank
            seen.append("words")

        @ep.payload(0)
        def turned(token, payload):
            token.reply_medium(back, bytes(payload)[::-1])

        @ep.payload(0)
        def back(token, payload):
            seen.append(bytes(payload))

        @ep.payload(1)
        def placed(token, payload, offset):
            payload[0] = 0xFF  # in place
            token.reply_long(back, payload, offset)

        @ep.payload(0)
        def greedy(token, payload):
            kept.append(memoryview(payload))

        @ep.short()
        def bad(token):
            raise KeyError("mine")

        told = []

        @ep.short()
        def go(token):
            told.append(True)

        fd = ep.event_fd()
        ep.start(1 << 16)
        assert (ep.rank, ep.size) == (world.rank, world.size) and ep.device
        right = (ep.rank + 1) % ep.size
        assert ep.segment_bytes(right) == 1 << 16 and len(ep.segment) == 1 << 16

        ep.request_short(right, words, *range(16))
        assert ep.wait_until(lambda: seen == ["words"], timeout=60)
        for payload in (b"", b"abc", bytearray(range(200)), memoryview(b"q" * 4000), b"m" * ep.max_medium):
            ep.request_medium(right, turned, payload)
            assert ep.wait_until(lambda: seen[-1] == bytes(payload)[::-1], timeout=60)
        ep.request_long(right, placed, b"\0long", 4096, 8192)
        assert ep.wait_until(lambda: seen[-1] == b"\xfflong", timeout=60)
        assert bytes(ep.segment[8192:8197]) == b"\xfflong"
        ep.barrier()

        # Asleep until the answer is there.
        before = len(seen)
        ep.request_short(right, words, *range(16))
        while len(seen) == before:
            if ep.arm() and len(seen) == before:
                select.select([fd], [], [], 10)
        # Rank 0's barrier is not complete before the others begin it, which they do when they are told.
        if ep.rank == 0:
            if ep.size > 1:
                assert ep.barrier(timeout=0) is False
            for other in range(1, ep.size):
                ep.request_short(other, go)
        else:
            assert ep.wait_until(lambda: told, timeout=60)
        assert ep.barrier(timeout=60) and ep.quiet(timeout=60)

        # What handlers do wrong is raised where they ran.
        try:
            ep.request_short(ep.rank, bad)
            ep.wait_until(lambda: False, timeout=60)
            raise AssertionError("the handler's exception was lost")
        except KeyError as e:
            assert e.args == ("mine",)
        try:
            ep.request_medium(ep.rank, greedy, b"bytes")
            ep.wait_until(lambda: False, timeout=60)
            raise AssertionError("a kept payload was not noticed")
        except penstock.Error as e:
            assert "greedy" in str(e)

        refused(Status.BAD_HANDLER, ep.request_short, right, words, 1)
        refused(Status.BAD_RANK, ep.request_short, ep.size, answer, 1)
        refused(Status.BAD_ARGUMENTS, ep.request_short, right, answer, -1)
        refused(Status.BAD_ARGUMENTS, ep.request_short, right, answer, *range(17))
        refused(Status.TOO_LONG, ep.request_medium, right, turned, bytes(ep.max_medium + 1))
        refused(Status.OUT_OF_SEGMENT, ep.put, right, 1 << 16, b"x")
        refused(Status.OUT_OF_SEGMENT, ep.put, right, -1, b"x")
        refused(Status.BAD_RANK, ep.put, ep.size, 0, b"x")
        try:
            ep.get(right, 0, b"read only")
            raise AssertionError("bytes were written to")
        except BufferError:
            pass

        ep.put(right, 0, b"put")
        into = bytearray(3)
        ep.get(right, 0, into)
        assert into == b"put"
        ops = [ep.put_nb(right, 8 * i, bytes([i]) * 8) for i in range(100)]
        for op in ops:
            op.wait()
        blocks = [bytearray(8) for _ in range(100)]
        ops = [ep.get_nb(right, 8 * i, block) for i, block in enumerate(blocks)]
        for op in ops:
            while not op.done():
                pass
        assert all(block == bytes([i]) * 8 for i, block in enumerate(blocks))

        ep.barrier()
        for kind, value in (("i4", -5), ("u4", 5), ("i8", -5), ("u8", 5), ("f4", 0.5), ("f8", 0.25)):
            with_get = ep.atomics(kind, Atomic.ADD | Atomic.GET | Atomic.SET | Atomic.CAS | Atomic.SWAP | Atomic.MAX)
            at = 1024
            with_get.set(right, at, 1)
            assert with_get.add(right, at, value) == 1
            assert with_get.get(right, at) == 1 + value
            assert with_get.cas(right, at, 1 + value, 9) == 1 + value
            assert with_get.swap(right, at, 3) == 9
            assert with_get.apply(Atomic.MAX, right, at, 7) == 3
            refused(Status.UNSUPPORTED, with_get.apply, Atomic.SUB, right, at, 1)
        try:
            ep.atomics("f8", Atomic.XOR)
            raise AssertionError("floats have no bits")
        except penstock.Error as e:
            assert "integers" in str(e)

        # Threads, where the library has them: their requests wait and poll without Python's lock.
        if mode == "par":
            before = len(seen)
            threads = [threading.Thread(target=lambda: [ep.request_short(right, words, *range(16)) for _ in range(200)])
                       for _ in range(3)]
            for t in threads:
                t.start()
            assert ep.wait_until(lambda: len(seen) == before + 600, timeout=60)
            for t in threads:
                t.join()
        ep.quiet()
        ep.barrier()
        assert ep.counters()["polls"] > 0
for call in (ep.poll, ep.barrier, lambda: world.rank, lambda: ep.put(0, 0, b"x")):
    try:
        call()
        raise AssertionError("a call after the end was not refused")
    except penstock.Error:
        pass
print("all calls", flush=True)
