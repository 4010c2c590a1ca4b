"""Guards as native code: a table-driven checker over CPython's C API, made once per process with llvmlite.

`program` holds the table of one entry, `machine` the checker itself, with its rows for numbers in `arithmetic` and what
it knows of CPython in `objects` and of tensors in `tensors`. `lowering` turns guards and sources into a table, with
conditions on sizes in `expressions`, and `upgrade` puts it in front of an entry's Python guards once the entry has
proved to be worth it. The table can only say that all of its checks hold. When it does not say so, the Python guards
decide as they did before, so the checker may give up on anything unusual, and nothing that it cannot express is lost.
"""
