"""How deep Python may recurse while capturing: as deep as the C stack of this thread is sure to carry.

Python's limit is made for programs. Capture takes several frames for one of the program's, all of them Python calling
Python, which needs no C stack; but what it calls may go through C for each frame.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import threading

from ..systems import process_library

FRAMES = 20_000
"""More than captures need."""
BYTES_PER_FRAME = 2048
"""More C stack than a Python frame was seen to take: 1.2 KB, where each is called by a dispatch mode of torch."""
RESERVE = 1 << 20
"""Left to C code that calls no Python, and to what lies on the stack already."""


def deepest(limit: int) -> int:
    """The recursion limit for a capture in this thread, where `limit` is the program's.

    >>> deepest(1000) >= 1000
    True
    """
    room = (stack_size() - RESERVE) // BYTES_PER_FRAME
    return max(limit, min(room, FRAMES))


def stack_size() -> int:
    """How many bytes of C stack this thread has; 0 where that cannot be told."""
    if threading.get_ident() == threading.main_thread().ident:
        return _main_stack_size()
    with contextlib.suppress(AttributeError, OSError):
        return _thread_stack_size()
    return 0


def _main_stack_size() -> int:
    """The main thread's stack grows up to a limit of the process."""
    try:
        import resource
    except ImportError:  # not on this system
        return 0
    soft = resource.getrlimit(resource.RLIMIT_STACK)[0]
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


@functools.cache
def _library() -> ctypes.CDLL:
    library = process_library()
    if library is None:
        raise OSError("this system has no such library")
    library.pthread_self.restype = ctypes.c_void_p
    library.pthread_getattr_np.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.pthread_attr_getstacksize.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)]
    library.pthread_attr_destroy.argtypes = [ctypes.c_void_p]
    return library


def _thread_stack_size() -> int:
    library = _library()
    attributes = ctypes.create_string_buffer(256)  # more than pthread_attr_t takes anywhere
    if library.pthread_getattr_np(library.pthread_self(), attributes):
        return 0
    size = ctypes.c_size_t()
    library.pthread_attr_getstacksize(attributes, ctypes.byref(size))
    library.pthread_attr_destroy(attributes)
    return size.value
