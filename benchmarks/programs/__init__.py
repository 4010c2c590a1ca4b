"""Small real programs under `fs.compile`, from their first call on: see `__main__`.

The training steps stand in `tests/whole_programs`, where a test runs some of them.
"""
