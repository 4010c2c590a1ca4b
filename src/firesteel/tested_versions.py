"""Which Python, torch and platforms firesteel is tested on, and whether this process is one of them."""

from __future__ import annotations

import sys

PYTHONS = ((3, 11), (3, 13))
"""The oldest and the newest Python that is tested."""
TORCHES = ((2, 11), (2, 15))
"""The oldest and the newest torch that is tested."""
NATIVE_PLATFORMS = (("linux", "x86_64"),)
"""Where graphs become machine code."""


def torch_version(text: str) -> tuple[int, int] | None:
    """Major and minor version; those of builds from source and of nightly ones too.

    >>> torch_version("2.16.0.dev20261101+cu132")
    (2, 16)
    """
    # without a regular expression: compiling it takes as long as everything else here
    major, _, rest = text.partition(".")
    minor = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    return (int(major), int(minor)) if major.isdecimal() and minor else None


def architecture(machine: str) -> str:
    """One name for the names that systems give to the same kind of CPU."""
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine.lower(), machine.lower())


def is_free_threaded() -> bool:
    """Whether this Python runs without a lock of the interpreter."""
    flags = getattr(sys, "abiflags", None)
    if flags is not None:
        return "t" in flags
    import sysconfig  # Windows

    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def plainly_supported() -> bool:
    """Whether versions and platform are among the tested ones. torch's private names are not looked at."""
    import platform

    import torch

    version = torch_version(str(torch.__version__))
    return sys.implementation.name == "cpython" and not is_free_threaded() \
        and PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1] \
        and version is not None and TORCHES[0] <= version <= TORCHES[1] \
        and (sys.platform, architecture(platform.machine())) in NATIVE_PLATFORMS
