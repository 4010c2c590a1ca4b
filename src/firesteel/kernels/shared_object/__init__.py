"""Plans as shared objects: host program, kernels and a C interface in one file that needs libtorch and no Python.

    code.py         writing LLVM text: functions, constants, calls that may fail
    numbers.py      shape expressions as code
    operators.py    calls of ATen through libtorch's C functions
    scalars.py      calls with numbers that those functions cannot take, written otherwise
    own_calls.py    calls of firesteel's own functions: index checks, matrix products
    subprograms.py  branches and loops
    helpers.py      functions that host programs call
    gpu.py          kernels on a GPU: loaded, launched, let go
    planning.py     graphs to plans that need no Python
    program.py      the host program: inputs, allocations, launches, calls, results
    interface.py    what a model offers: load, run, free, names, weights
    linking.py      object files to a shared object
    build.py        all of it
"""
