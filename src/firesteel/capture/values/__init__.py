"""One class of Value per kind of Python object that symbolic execution understands."""
