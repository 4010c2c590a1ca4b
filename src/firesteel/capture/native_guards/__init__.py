"""Guards as machine code: the table of checks for an entry, and when it takes over from Python."""
