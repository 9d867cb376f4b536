"""Penstock from Python: active messages, put and get, and atomics between the processes of a job.

    import penstock

    with penstock.World() as world, penstock.Endpoint(world) as ep:
        @ep.short(1)
        def greet(token, number):
            print(f"rank {ep.rank}: {number} from rank {token.source}")

        ep.start()
        ep.request_short((ep.rank + 1) % ep.size, greet, 42)
        ep.barrier()

Payloads are any contiguous buffers, such as bytes, bytearray, memoryview and numpy arrays; none is copied by this
package. Remote memory is addressed by byte offsets in the segment of a rank. Calls that poll run handlers, on the
calling thread. The rules for handlers, threads and collective calls are those of penstock.h, over which this package is
made by ctypes; calls release Python's lock while they run.
"""
import ctypes
import enum
import json
import struct
import sys

from ._library import (PAYLOAD_HANDLER, PREDICATE, SHORT_HANDLER, Buffer, OperationStorage, Setting, c_size_t, c_uint32,
                       library)

__all__ = ["Atomic", "Atomics", "Endpoint", "Error", "Handler", "Operation", "Status", "StatusError", "Token", "World"]

MAX_ARGS = 16


class Status(enum.IntEnum):
    """What a call of the data path returns; see enum penstock_status in penstock.h."""
    OK = 0
    PENDING = 1
    NO_CREDIT = 2
    NO_TICKET = 3
    NO_CHUNK = 4
    NO_SPACE = 5
    NOT_READY = 6
    BUSY = 7
    TIMED_OUT = 8
    BAD_RANK = 9
    BAD_HANDLER = 10
    BAD_ARGUMENTS = 11
    TOO_LONG = 12
    OUT_OF_SEGMENT = 13
    IN_HANDLER = 14
    NOT_IN_HANDLER = 15
    REPLIED_TWICE = 16
    UNSUPPORTED = 17
    DEVICE_ERROR = 18
    PEER_DEAD = 19
    SHUT_DOWN = 20
    MISALIGNED = 21


class Atomic(enum.IntFlag):
    """The operations of a set of atomics; see enum penstock_atomic_op in penstock.h."""
    GET = 1
    SET = 2
    SWAP = 4
    CAS = 8
    ADD = 16
    SUB = 32
    INC = 64
    DEC = 128
    MULT = 256
    MIN = 512
    MAX = 1024
    AND = 2048
    OR = 4096
    XOR = 8192


class Error(Exception):
    """A call of set-up failed; the text says why, and what the user can do."""


class StatusError(Error):
    """A call of the data path failed."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = Status(status)


class _Over:
    """Stands in the library's place when a handle is gone."""

    def __init__(self, text):
        self.__dict__["text"] = text

    def __getattr__(self, _):
        raise Error(self.text)


def _settings(settings):
    pairs = [(k.encode(), str(v).encode()) for k, v in (settings or {}).items()]
    return (Setting * max(len(pairs), 1))(*pairs), len(pairs)


class World:
    """This process's place in its job. A process joins once.

    settings: a dict of settings, which take precedence over the environment. mode: which library is loaded, par (any
    number of threads), parsync (one at a time) or seq (one thread).
    """

    def __init__(self, settings=None, mode="par"):
        self._handle = None
        self._lib = library(mode)
        self._handle = self._lib.join(*_settings(settings)) or self._failed()

    def _failed(self):
        raise Error(self._lib.why().decode())

    def leave(self):
        """Ends this process's part in the job, once its endpoints are closed."""
        lib, self._lib = self._lib, _Over("the world has been left")
        lib.leave(self._handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.leave()

    @property
    def rank(self):
        return self._lib.world_rank(self._handle)

    @property
    def size(self):
        return self._lib.world_size(self._handle)

    def exit(self, code):
        """Ends every process of the job with that code (0 to 255). Does not return."""
        self._lib.exit(self._handle, code)

    def exchange(self, mine):
        """Gives every rank the bytes of all ranks, as a list in their order. Collective, slow, for set-up."""
        mine = bytes(mine)
        lengths = [int.from_bytes(one, "little") for one in self._exchange(len(mine).to_bytes(8, "little"))]
        padded = self._exchange(mine.ljust(max(lengths), b"\0"))
        return [one[:length] for one, length in zip(padded, lengths)]

    def _exchange(self, mine):
        everybodys = ctypes.create_string_buffer(max(len(mine) * self.size, 1))
        if self._lib.exchange(self._handle, mine, len(mine), everybodys) != 0:
            self._failed()
        return [everybodys.raw[i * len(mine):(i + 1) * len(mine)] for i in range(self.size)]


class Handler:
    """A registered handler: what requests and replies name. Its number is the same on every rank."""

    def __init__(self, index, function, callback):
        self.index, self.function, self._callback = index, function, callback


class Token:
    """A handler's view of its message, valid while the handler runs. It may reply once, to a request."""

    def __init__(self, ep, handle):
        self._ep, self._handle = ep, handle

    @property
    def source(self):
        """The rank that sent the message."""
        return self._ep._lib.source(self._handle)

    @property
    def is_request(self):
        return self._ep._lib.is_request(self._handle) != 0

    def reply_short(self, handler, *args):
        self._ep._done(self._ep._lib.reply_short(self._handle, handler.index, *_words(args)))

    def reply_medium(self, handler, payload, *args):
        with Buffer(payload) as b:
            self._ep._done(self._ep._lib.reply_medium(self._handle, handler.index, b.address, b.bytes, *_words(args)))

    def reply_long(self, handler, payload, offset, *args):
        """Puts payload at that offset of the requester's segment, and then runs the handler there."""
        with Buffer(payload) as b:
            self._ep._done(self._ep._lib.reply_long(self._handle, handler.index, b.address, b.bytes,
                                                    self._ep._address(self.source, offset), *_words(args)))


def _words(args):
    if len(args) > MAX_ARGS:
        raise StatusError(Status.BAD_ARGUMENTS, f"a message has at most {MAX_ARGS} argument words")
    for a in args:
        if not 0 <= a < 1 << 32:
            raise StatusError(Status.BAD_ARGUMENTS, f"{a} is no word of 32 bits, 0 to 4294967295")
    return (c_uint32 * max(len(args), 1))(*args), len(args)


class Operation:
    """A put or get that may be in flight; it holds its buffer until wait() or done() has found it complete."""

    def __init__(self, ep, buffer):
        self._ep, self._buffer, self._inside = ep, buffer, OperationStorage()

    def wait(self):
        """Waits until the operation is complete, polling."""
        self._complete(self._ep._lib.finish(ctypes.byref(self._inside)))

    def done(self):
        """Polls once. True if the operation is complete."""
        status = self._ep._lib.try_finish(ctypes.byref(self._inside))
        return status != Status.PENDING and self._complete(status)

    def _complete(self, status):
        self._buffer.release()
        self._ep._done(status)
        return True

    def __del__(self):
        if self._buffer._held:
            self._ep._lib.finish(ctypes.byref(self._inside))
            self._buffer.release()


class Endpoint:
    """A place in the exchange of messages. Opening and closing are collective; see penstock.h."""

    def __init__(self, world, settings=None):
        self._handle = None
        self._world, self._lib, self._handlers, self._raised = world, world._lib, [], None
        self._handle = self._lib.open(world._handle, *_settings(settings)) or world._failed()

    def close(self):
        """Waits until all ranks close theirs: everything sent before has been handled then."""
        self._lib.close(self._handle)  # handlers run meanwhile
        self._lib = _Over("the endpoint is closed")
        self._raise()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Handlers and set-up.
    def short(self, nargs=0):
        """Decorator: registers f(token, *args) for Shorts with that number of argument words."""
        def register(f):
            @SHORT_HANDLER
            def callback(token, args, _):
                self._run(f, Token(self, token), *args[:nargs])
            return self._add(self._lib.add_short, f, callback, nargs)
        return register

    def payload(self, nargs=0):
        """Decorator: registers f(token, payload, *args) for Mediums and Longs. payload is a memoryview of bytes that may
        be changed; it is valid while the handler runs, and who wants to keep the bytes copies them."""
        def register(f):
            @PAYLOAD_HANDLER
            def callback(token, args, address, size, _):
                block = (ctypes.c_ubyte * size).from_address(address) if size else bytearray()
                view = memoryview(block).cast("B")
                self._run(f, Token(self, token), view, *args[:nargs])
                try:
                    view.release()
                    kept = sys.getrefcount(block) > 2  # by a view that was made of this one
                except BufferError:  # by an array
                    kept = True
                if kept:
                    self._note(Error(f"the handler {f.__name__} kept its payload, which is gone: it has to copy it"))
            return self._add(self._lib.add_payload, f, callback, nargs)
        return register

    def _add(self, add, f, callback, nargs):
        index = add(self._handle, callback, nargs, None)
        if index < 0:
            self._world._failed()
        self._lib.name_handler(self._handle, index, f.__name__.encode())
        self._handlers.append(Handler(index, f, callback))
        return self._handlers[-1]

    def _run(self, f, token, *args):
        try:
            f(token, *args)
        except BaseException as e:  # it cannot pass through the library: the call that polls raises it
            self._note(e)

    def _note(self, e):
        if self._raised is None:
            self._raised = e

    def _raise(self):
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised

    def _done(self, status):
        self._raise()
        if status != Status.OK:
            raise StatusError(status, self._lib.describe(status).decode())

    def start(self, segment_bytes=0, everything=False):
        """Registers the segment and lets messages flow. Collective. everything: see enum penstock_access."""
        if self._lib.start(self._handle, segment_bytes, int(everything)) != 0:
            self._world._failed()
        self._places = []
        for rank in range(self.size):
            size = c_size_t()
            self._places.append((self._lib.segment(self._handle, rank, ctypes.byref(size)) or 0, size.value))

    @property
    def rank(self):
        return self._lib.rank(self._handle)

    @property
    def size(self):
        return self._lib.size(self._handle)

    @property
    def segment(self):
        """This rank's segment, as a memoryview of bytes; numpy.frombuffer() makes an array of it without a copy."""
        return _view(*self._places[self.rank])

    def segment_bytes(self, rank):
        """The size of a rank's segment."""
        return self._places[rank][1]

    def _address(self, rank, offset):
        if not 0 <= rank < len(self._places):
            raise StatusError(Status.BAD_RANK, self._lib.describe(Status.BAD_RANK).decode())
        if offset < 0:
            raise StatusError(Status.OUT_OF_SEGMENT, self._lib.describe(Status.OUT_OF_SEGMENT).decode())
        return self._places[rank][0] + offset

    @property
    def max_medium(self):
        return self._lib.max_medium(self._handle)

    @property
    def max_long(self):
        return self._lib.max_long(self._handle)

    @property
    def device(self):
        """One line about the device in use, and why it was chosen."""
        return self._lib.device(self._handle).decode()

    # Messages.
    def request_short(self, to, handler, *args):
        """Sends a request with up to 16 words; it waits, polling, while credits or room are short."""
        self._done(self._lib.request_short(self._handle, to, handler.index, *_words(args)))

    def request_medium(self, to, handler, payload, *args):
        """Sends a request with a payload of at most max_medium bytes, which may be reused on return."""
        with Buffer(payload) as b:
            self._done(self._lib.request_medium(self._handle, to, handler.index, b.address, b.bytes, *_words(args)))

    def request_long(self, to, handler, payload, offset, *args):
        """Puts payload at that offset of the target's segment, and then runs the handler there."""
        with Buffer(payload) as b:
            self._done(self._lib.request_long(self._handle, to, handler.index, b.address, b.bytes,
                                              self._address(to, offset), *_words(args)))

    def poll(self):
        """Takes the messages that have arrived and runs their handlers; it never waits."""
        self._done(self._lib.poll(self._handle))

    def wait_until(self, done, timeout=None):
        """Polls until done() is true, for `timeout` seconds at most. True, or False when these are over."""
        @PREDICATE
        def asked(_):
            try:
                return 1 if self._raised is not None or done() else 0
            except BaseException as e:
                self._note(e)
                return 1
        if timeout is None:
            status = self._lib.wait_until(self._handle, asked, None)
        else:
            status = self._lib.wait_for(self._handle, asked, None, max(int(timeout * 1e9), 0))
        return self._true_unless(Status.TIMED_OUT, status)

    def barrier(self, timeout=None):
        """Returns when every rank has called it; that says nothing of messages. True, or False when `timeout` seconds are
        over; the wait goes on when it is called again."""
        return self._within(timeout, self._lib.barrier, self._lib.barrier_for)

    def quiet(self, timeout=None):
        """Returns when the handlers of all requests that this process sent before have run; timeout as in barrier()."""
        return self._within(timeout, self._lib.quiet, self._lib.quiet_for)

    def _within(self, timeout, wait, wait_for):
        status = wait(self._handle) if timeout is None else wait_for(self._handle, max(int(timeout * 1e9), 0))
        return self._true_unless(Status.TIMED_OUT, status)

    def _true_unless(self, no, status):
        """False for the status `no`, or True; raises what a handler raised, or the call's failure."""
        if status == no:
            self._raise()
            return False
        self._done(status)
        return True

    # Sleeping.
    def event_fd(self):
        """A descriptor for select, selectors or asyncio that is readable when there may be something to do; the first
        call comes before start(). See penstock_event_fd in penstock.h."""
        fd = self._lib.event_fd(self._handle)
        if fd < 0:
            self._world._failed()
        return fd

    def arm(self):
        """Gets ready to sleep on event_fd(), and polls. True: nothing has come, so the program may sleep. False: look
        whether what you wait for is there, and call it again."""
        return self._true_unless(Status.PENDING, self._lib.arm(self._handle))

    # One-sided operations.
    def put(self, to, offset, data):
        """Copies data to that offset of a rank's segment; complete there on return."""
        with Buffer(data) as b:
            self._done(self._lib.put(self._handle, to, self._address(to, offset), b.address, b.bytes))

    def get(self, source, offset, into):
        """Fills the writable buffer `into` from that offset of a rank's segment."""
        with Buffer(into, writable=True) as b:
            self._done(self._lib.get(self._handle, b.address, source, self._address(source, offset), b.bytes))

    def put_nb(self, to, offset, data):
        """Starts a put, and returns its Operation. data may be changed at once."""
        op = Operation(self, Buffer(data))
        return self._started(op, self._lib.put_nb(self._handle, to, self._address(to, offset), op._buffer.address,
                                                  op._buffer.bytes, ctypes.byref(op._inside)))

    def get_nb(self, source, offset, into):
        """Starts a get, and returns its Operation. `into` is untouched until that is complete."""
        op = Operation(self, Buffer(into, writable=True))
        return self._started(op, self._lib.get_nb(self._handle, op._buffer.address, source,
                                                  self._address(source, offset), op._buffer.bytes,
                                                  ctypes.byref(op._inside)))

    def _started(self, op, status):
        if status != Status.PENDING:
            op._complete(status)
        return op

    def atomics(self, kind, ops, processor=False):
        """Makes a set of operations (Atomic) on words of one type: i4, u4, i8, u8, f4 or f8, as numpy names them."""
        return Atomics(self, kind, ops, processor)

    def counters(self):
        """What this process's first endpoint has counted, as a dict (penstock/counters.h)."""
        taken = self._lib.counters_take(0)
        try:
            return json.loads(self._lib.counters_json(taken))
        finally:
            self._lib.counters_free(taken)


def _view(address, size):
    return memoryview((ctypes.c_ubyte * size).from_address(address) if size else b"").cast("B")


class Atomics:
    """Remote atomics on words of one type. Each method takes a rank, a byte offset in its segment and operands, and
    returns the former value."""

    _KINDS = {"i4": (0, "i"), "u4": (1, "I"), "i8": (2, "q"), "u8": (3, "Q"), "f4": (4, "f"), "f8": (5, "d")}

    def __init__(self, ep, kind, ops, processor=False):
        self._handle = None
        number, self._format = self._KINDS[kind]
        self._ep = ep
        self._free = ep._lib.atomics_free
        self._handle = ep._lib.atomics_make(ep._handle, number, ops, int(processor)) or ep._world._failed()

    def __del__(self):
        if self._handle is not None:
            self._free(self._handle)

    @property
    def by_device(self):
        """True if the device carries the operations out."""
        return self._ep._lib.atomics_by_device(self._handle) != 0

    def apply(self, op, rank, offset, a=None, b=None):
        """Carries out op (Atomic) with its operands."""
        old = bytearray(struct.calcsize(self._format))
        a, b = (None if x is None else struct.pack(self._format, x) for x in (a, b))
        with Buffer(old, writable=True) as into:
            self._ep._done(self._ep._lib.atomic(self._handle, rank, self._ep._address(rank, offset), op, a, b,
                                                into.address))
        return struct.unpack(self._format, old)[0] if op != Atomic.SET else None

    def get(self, rank, offset):
        return self.apply(Atomic.GET, rank, offset)

    def set(self, rank, offset, value):
        self.apply(Atomic.SET, rank, offset, value)

    def swap(self, rank, offset, value):
        return self.apply(Atomic.SWAP, rank, offset, value)

    def cas(self, rank, offset, expected, desired):
        """Stores desired if the word equals expected bit by bit."""
        return self.apply(Atomic.CAS, rank, offset, expected, desired)

    def add(self, rank, offset, value):
        return self.apply(Atomic.ADD, rank, offset, value)
