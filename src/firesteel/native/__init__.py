"""Guards as native code: a table-driven checker over CPython's C API, made once per process with llvmlite.

`program` holds the table of one entry, `checker` the checker itself, whose code is in the ``.ll`` files beside it, and
what it knows of CPython is in `objects` and of tensors in `tensors`. `capture.native_guards` turns guards and sources
into a table, and puts it in front of an entry's Python guards once the entry has proved to be worth it. The table can
only say that all of its checks hold. When it does not say so, the Python guards decide as they did before, so the
checker may give up on anything unusual, and nothing that it cannot express is lost.
"""
