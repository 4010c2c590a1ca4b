"""Python equivalents of builtins and standard library functions that CPython implements in C.

Capture executes Python bytecode. A call of a C function found in `REGISTRY` is executed as a call of its equivalent
with the same arguments instead, so tensors, breaks and side effects inside callbacks, iterators and operator methods
need no special handling.

An equivalent gives the results, the exceptions (type and message) and the order of calls into user code of its
original. Iterators are classes and not generators: the originals survive an exception raised by a callback, let its
StopIteration through, and have no `send`; and an instance with attributes is easy to rebuild after a graph break.

Not reproduced: the type of an iterator (`type(chain())`), its pickling, the wording of errors about the number or
names of arguments, and overflow errors of arguments beyond `sys.maxsize`.
"""

from firesteel.capture.call_handlers import REGISTRY

REGISTRY.load()
