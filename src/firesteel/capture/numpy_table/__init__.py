"""What functions, methods and operators of NumPy are as tensor programs, with NumPy's own promotion and result types.

Each file registers what is in it (`registry`); all are imported when a program calls the first function of NumPy's.
A function of the table takes the context of the capture and the arguments of NumPy's function: arrays as `ArrayValue`,
everything else as Python objects, sizes and numbers that may change as symbolic ones. Parameters that it does not have
are not captured.
"""
