"""penstock.h for Python: the shared library, its functions with their types, and buffers.

test/python compares FUNCTIONS with the header.
"""
import ctypes
import os
import pathlib
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p

SHORT_HANDLER = ctypes.CFUNCTYPE(None, c_void_p, POINTER(c_uint32), c_void_p)
PAYLOAD_HANDLER = ctypes.CFUNCTYPE(None, c_void_p, POINTER(c_uint32), c_void_p, c_size_t, c_void_p)
PREDICATE = ctypes.CFUNCTYPE(c_int, c_void_p)
WORDS = POINTER(c_uint32)


class Setting(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


class OperationStorage(ctypes.Structure):
    _fields_ = [("inside", c_void_p * 3)]


# name: (what it returns, its arguments)
FUNCTIONS = {
    "is_failure": (c_int, [c_int]),
    "describe": (c_char_p, [c_int]),
    "why": (c_char_p, []),
    "join": (c_void_p, [POINTER(Setting), c_size_t]),
    "leave": (None, [c_void_p]),
    "world_rank": (c_uint32, [c_void_p]),
    "world_size": (c_uint32, [c_void_p]),
    "exit": (None, [c_void_p, c_int]),
    "exchange": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "open": (c_void_p, [c_void_p, POINTER(Setting), c_size_t]),
    "close": (None, [c_void_p]),
    "add_short": (c_int, [c_void_p, SHORT_HANDLER, c_uint, c_void_p]),
    "add_payload": (c_int, [c_void_p, PAYLOAD_HANDLER, c_uint, c_void_p]),
    "name_handler": (c_int, [c_void_p, c_int, c_char_p]),
    "start": (c_int, [c_void_p, c_size_t, c_int]),
    "rank": (c_uint32, [c_void_p]),
    "size": (c_uint32, [c_void_p]),
    "segment": (c_void_p, [c_void_p, c_uint32, POINTER(c_size_t)]),
    "max_medium": (c_size_t, [c_void_p]),
    "max_long": (c_size_t, [c_void_p]),
    "device": (c_char_p, [c_void_p]),
    "request_short": (c_int, [c_void_p, c_uint32, c_int, WORDS, c_uint]),
    "request_medium": (c_int, [c_void_p, c_uint32, c_int, c_void_p, c_size_t, WORDS, c_uint]),
    "request_long": (c_int, [c_void_p, c_uint32, c_int, c_void_p, c_size_t, c_void_p, WORDS, c_uint]),
    "request_long_async": (c_int, [c_void_p, c_uint32, c_int, c_void_p, c_size_t, c_void_p, WORDS, c_uint]),
    "reply_short": (c_int, [c_void_p, c_int, WORDS, c_uint]),
    "reply_medium": (c_int, [c_void_p, c_int, c_void_p, c_size_t, WORDS, c_uint]),
    "reply_long": (c_int, [c_void_p, c_int, c_void_p, c_size_t, c_void_p, WORDS, c_uint]),
    "source": (c_uint32, [c_void_p]),
    "is_request": (c_int, [c_void_p]),
    "token_endpoint": (c_void_p, [c_void_p]),
    "expect": (c_int, [c_void_p, c_uint32, c_uint32, c_size_t]),
    "poll": (c_int, [c_void_p]),
    "wait_until": (c_int, [c_void_p, PREDICATE, c_void_p]),
    "wait_for": (c_int, [c_void_p, PREDICATE, c_void_p, c_uint64]),
    "barrier": (c_int, [c_void_p]),
    "quiet": (c_int, [c_void_p]),
    "barrier_for": (c_int, [c_void_p, c_uint64]),
    "quiet_for": (c_int, [c_void_p, c_uint64]),
    "event_fd": (c_int, [c_void_p]),
    "arm": (c_int, [c_void_p]),
    "put": (c_int, [c_void_p, c_uint32, c_void_p, c_void_p, c_size_t]),
    "get": (c_int, [c_void_p, c_void_p, c_uint32, c_void_p, c_size_t]),
    "set": (c_int, [c_void_p, c_uint32, c_void_p, c_int, c_size_t]),
    "put_nb": (c_int, [c_void_p, c_uint32, c_void_p, c_void_p, c_size_t, POINTER(OperationStorage)]),
    "get_nb": (c_int, [c_void_p, c_void_p, c_uint32, c_void_p, c_size_t, POINTER(OperationStorage)]),
    "finish": (c_int, [POINTER(OperationStorage)]),
    "finish_for": (c_int, [POINTER(OperationStorage), c_uint64]),
    "try_finish": (c_int, [POINTER(OperationStorage)]),
    "put_nbi": (c_int, [c_void_p, c_uint32, c_void_p, c_void_p, c_size_t]),
    "get_nbi": (c_int, [c_void_p, c_void_p, c_uint32, c_void_p, c_size_t]),
    "finish_all": (c_int, [c_void_p]),
    "atomics_make": (c_void_p, [c_void_p, c_int, c_uint32, c_int]),
    "atomics_free": (None, [c_void_p]),
    "atomics_by_device": (c_int, [c_void_p]),
    "atomic": (c_int, [c_void_p, c_uint32, c_void_p, c_int, c_void_p, c_void_p, c_void_p]),
    # penstock/counters.h
    "counters_take": (c_void_p, [c_uint]),
    "counters_free": (None, [c_void_p]),
    "counters_json": (c_char_p, [c_void_p]),
}


class Library:
    """The functions of one thread mode's library, without the prefix penstock_."""

    def __init__(self, mode):
        self.mode = mode
        name = f"libpenstock-{mode}.so.0.1"
        own = pathlib.Path(__file__).parent / name
        path = os.environ.get("LIBPENSTOCK") or (str(own) if own.exists() else name)
        loaded = ctypes.CDLL(path)
        for function, (returned, arguments) in FUNCTIONS.items():
            f = getattr(loaded, "penstock_" + function)
            f.restype, f.argtypes = returned, arguments
            setattr(self, function, f)


_library = None


def library(mode):
    """The library of that mode; a process has one, and the first call chooses."""
    global _library
    if _library is None:
        _library = Library(mode)
    if _library.mode != mode:
        raise ValueError(f"this process has loaded the library of mode {_library.mode} already")
    return _library


class _PyBuffer(ctypes.Structure):
    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
                ("readonly", c_int), ("ndim", c_int), ("format", c_char_p), ("shape", c_void_p), ("strides", c_void_p),
                ("suboffsets", c_void_p), ("internal", c_void_p)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes, _get_buffer.restype = [ctypes.py_object, POINTER(_PyBuffer), c_int], c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes, _release_buffer.restype = [POINTER(_PyBuffer)], None


class Buffer:
    """The address and the bytes of a contiguous buffer, such as bytes or a numpy array, held until release()."""

    def __init__(self, owner, writable=False):
        self._view = _PyBuffer()
        self._held = False
        _get_buffer(owner, ctypes.byref(self._view), 1 if writable else 0)  # raises what the owner says
        self._held = True
        self.address, self.bytes = self._view.buf, self._view.len

    def release(self):
        if self._held:
            self._held = False
            _release_buffer(ctypes.byref(self._view))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()

    def __del__(self):
        self.release()
