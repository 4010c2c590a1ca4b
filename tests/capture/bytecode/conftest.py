"""Lets these tests run on a Python without torch: the bytecode package needs nothing but the standard library."""

import importlib.util
import sys
import types
from pathlib import Path

if importlib.util.find_spec("torch") is None:
    source = Path(__file__).resolve().parents[3] / "src"
    for name in ("firesteel", "firesteel.capture"):
        package = types.ModuleType(name)
        package.__path__ = [str(source.joinpath(*name.split(".")))]
        sys.modules[name] = package
