"""Runs the tests of the bytecode layer on CPython 3.14, which need no torch, and records how 3.14 compiles a sample.

    python scripts/python314.py                 # tests/capture/bytecode
    python scripts/python314.py --record        # writes tests/capture/bytecode/python314.json

The interpreter is the WebAssembly build that comes with componentize-py, so that no Python 3.14 has to be installed:
`pip install componentize-py wasmtime pytest` is enough. It is made ready once, in the user's cache directory.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = "tests/capture/bytecode/python314.json"
WORLD = "package firesteel:python; world python { export run: func(source: string) -> string; }"
# Only modules that were imported come along, so the library is kept as text and written out for the runs.
APPLICATION = '''
import contextlib, io, os, traceback
import wit_world

library = {}
for folder, _, files in os.walk("/python"):
    for file in files:
        if file.endswith(".py") and "/test" not in folder:
            with open(os.path.join(folder, file), "rb") as text:
                library[os.path.join(folder, file)] = text.read()


class WitWorld(wit_world.WitWorld):
    def run(self, source):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            try:
                exec(compile(source, "<firesteel>", "exec"), {"__name__": "__main__", "library": library})
            except BaseException:
                traceback.print_exc(file=output)
        return output.getvalue()
'''
WRITE_LIBRARY = '''
import os
for path, text in library.items():
    os.makedirs(os.path.dirname("/out" + path), exist_ok=True)
    with open("/out" + path, "wb") as file:
        file.write(text)
'''
TESTS = '''
import os, sys
sys.dont_write_bytecode = True
sys.path[:0] = ["/checkout/src", "/checkout/tests", "/packages"]
os.chdir("/checkout")
os.devnull = "/out/null"
import pytest
print("status", pytest.main(["-q", "-c", "/out/pytest.ini", "--rootdir", "/checkout", "--import-mode=importlib",
                             "--confcutdir", "/checkout/tests/capture/bytecode", "--tb=short", "--capture=no",
                             *(f"-pno:{name}" for name in ("cacheprovider", "faulthandler", "logging", "tmpdir")),
                             "tests/capture/bytecode"]))
'''
RECORDING = '''
import sys
sys.dont_write_bytecode = True
sys.path[:0] = ["/checkout/src", "/checkout/tests/capture/bytecode"]
import python314_sample
print(python314_sample.record(), end="")
'''


def make_ready(folder: Path) -> None:
    """Build the component, and the library that it reads."""
    if (folder / "library" / "python").exists():
        return
    (folder / "application").mkdir(parents=True, exist_ok=True)
    (folder / "world.wit").write_text(WORLD)
    (folder / "application" / "app.py").write_text(APPLICATION)
    subprocess.run([Path(sys.executable).with_name("componentize-py"), "-d", folder / "world.wit", "-w", "python",
                    "componentize", "-p", folder / "application", "app", "-o", folder / "python.wasm"], check=True)
    (folder / "library").mkdir(exist_ok=True)
    print(run(folder, WRITE_LIBRARY), end="")
    (folder / "library" / "pytest.ini").write_text("[pytest]\n")


def run(folder: Path, source: str) -> str:
    """What a program prints in that interpreter."""
    import pytest
    import wasmtime
    from wasmtime import component

    engine = wasmtime.Engine()
    store = wasmtime.Store(engine)
    wasi = wasmtime.WasiConfig()
    for path, name, writable in ((ROOT, "/checkout", False), (Path(pytest.__file__).parent.parent, "/packages", False),
                                 (folder / "library", "/out", True)):
        wasi.preopen_dir(str(path), name, writable)
    if (folder / "library" / "python").exists():
        wasi.preopen_dir(str(folder / "library" / "python"), "/python", False)
    store.set_wasi(wasi)
    linker = component.Linker(engine)
    linker.add_wasip2()
    instance = linker.instantiate(store, component.Component.from_file(engine, str(folder / "python.wasm")))
    function = instance.get_func(store, "run")
    assert function is not None
    return str(function(store, source))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="record the sample in place of running the tests")
    arguments = parser.parse_args()
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "firesteel-python314"
    make_ready(folder)
    text = run(folder, RECORDING if arguments.record else TESTS)
    if arguments.record:
        (ROOT / RECORD).write_text(text)
        return 0
    print(text)
    return int("status ExitCode.OK" not in text and "status 0" not in text)


if __name__ == "__main__":
    sys.exit(main())
