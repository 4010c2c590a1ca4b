"""`load_package`: run the models of a package from Python, through the same C interface that other programs use."""

from __future__ import annotations

import ctypes
import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ... import torch_compat
from ...devices import CPU, CUDA
from ...kernels.shared_object.interface import INTERFACE_VERSION
from ...kernels.shared_object.program import INTEGER, NONE, NUMBER, TENSOR, TRUTH
from ...torch_compat.pytrees import TreeSpec, leaf_spec, tree_flatten, tree_structure, tree_unflatten
from ...torch_compat.tensor_handles import lent_handles, take_tensor
from ..errors import InputMismatchError
from ..saving.trees import read_tree
from ..saving.values import read_value
from .archive import WEIGHTS, ArchiveReader
from .errors import PackageError

REFUSED = 2
"""What running a model returns when its inputs do not fit."""


class _Value(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("reserved", ctypes.c_int32), ("word", ctypes.c_int64)]


@dataclass(frozen=True)
class _Library:
    """The shared object of a model."""

    handle: ctypes.CDLL

    def error(self) -> str:
        text: bytes = self.handle.firesteel_last_error()
        return text.decode(errors="replace")


def load_package(path: str | os.PathLike[str], *, verify: bool = True,
                 device: torch.device | str | int | None = None) -> Package:
    """Open a package that `package` made, as `firesteel.export.load_package` says."""
    return Package(ArchiveReader(os.fspath(path), verify), _gpu_number(device))


class Package(Mapping[str, "PackagedModel"]):
    """The models of a package by their names; one with a single model can be called itself."""

    def __init__(self, archive: ArchiveReader, gpu: int = -1) -> None:
        self.path = archive.path
        self.manifest = archive.manifest
        described = archive.manifest.get("models")
        if not isinstance(described, dict) or not described:
            raise PackageError(f"{archive.path} is damaged: its manifest names no models")
        _check_cpu(archive)
        if CUDA.name in archive.manifest.get("devices", []):
            _check_gpu(archive)
        if WEIGHTS in archive.parts:
            archive.check(WEIGHTS)
        try:
            self._models = {name: PackagedModel(name, entry, archive, gpu) for name, entry in described.items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise PackageError(f"{archive.path} is damaged: {error!r} in its manifest") from error

    def __getitem__(self, name: str) -> PackagedModel:
        return self._models[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(self._models) != 1:
            raise PackageError(f"this package has {len(self._models)} models", f"call one: {', '.join(self._models)}")
        return next(iter(self._models.values()))(*args, **kwargs)

    def update_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Change weights in every model that has them; what is not named stays as it is."""
        known = {name for model in self._models.values() for name in model.weight_names}
        for name in weights:
            if name not in known:
                raise PackageError(f"no model of this package has a weight {name!r}")
        for model in self._models.values():
            model.update_weights({name: tensor for name, tensor in weights.items() if name in model.weight_names})

    def __repr__(self) -> str:
        return f"Package({self.path!r}: {', '.join(self._models)})"


class PackagedModel:
    """A compiled model. Calls take what the original module took, and are checked against its shape contract."""

    def __init__(self, name: str, entry: Mapping[str, Any], archive: ArchiveReader, gpu: int = -1) -> None:
        self.name = name
        self.device = str(entry.get("device", CPU.name))
        self.inputs: list[dict[str, Any]] = list(entry["inputs"])
        self.outputs: list[dict[str, Any]] = list(entry["outputs"])
        self.sizes = dict(entry["sizes"])
        self.conditions = list(entry["conditions"])
        self._in_spec: TreeSpec = read_tree(entry["in_spec"])
        self._out_spec: TreeSpec = read_tree(entry["out_spec"])
        self._library = _open(archive, str(entry["object"]))
        self._constants = [(at, _value_of(item["value"])) for at, item in enumerate(self.inputs)
                           if item["kind"] == "constant"]
        self._results = [_value_of(item["value"]) if item["kind"] == "constant" else None for item in self.outputs]
        # Most models take tensors as they are and return one: nothing to take apart.
        count = len(self.inputs)
        flat = not self._constants and self._in_spec == tree_structure(((0,) * count, {}))
        self._flat_inputs = count if flat else -1
        self._returns_one = self._out_spec == leaf_spec()
        library = self._library.handle
        self.weight_names = tuple([library.firesteel_model_weight_name(at).decode()
                                   for at in range(library.firesteel_model_num_weights())])
        part = archive.parts.get(WEIGHTS)
        model = ctypes.c_void_p()
        at = part.offset if part is not None else 0
        if self.device == CPU.name:
            failed = library.firesteel_model_load(os.fsencode(archive.path), at, ctypes.byref(model))
        else:
            failed = library.firesteel_model_load_on(os.fsencode(archive.path), at, gpu, ctypes.byref(model))
        if failed:
            raise PackageError(f"the model {name} cannot be loaded: {self._library.error()}")
        self._model = model
        if self.device != CPU.name:
            self.device = f"{self.device}:{library.firesteel_model_device(model)}"
        self._close = weakref.finalize(self, library.firesteel_model_free, model)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == self._flat_inputs and not kwargs and all([isinstance(arg, torch.Tensor) for arg in args]):
            return self._nested(self._run(list(args)))
        leaves, spec = tree_flatten((args, kwargs))
        if spec != self._in_spec:
            raise InputMismatchError(
                f"the arguments are nested as {spec}, the program was exported for {self._in_spec}")
        for at, value in self._constants:
            if type(leaves[at]) is not type(value) or leaves[at] != value:
                raise InputMismatchError(f"the input {self.inputs[at]['name']} is {leaves[at]!r}, but was {value!r} "
                                         "when the program was exported")
        fixed = {at for at, _ in self._constants}
        given = [leaf for at, leaf in enumerate(leaves) if at not in fixed] if fixed else leaves
        return self._nested(self._run(given))

    def _nested(self, results: list[Any]) -> Any:
        return results[0] if self._returns_one else tree_unflatten(results, self._out_spec)

    def _run(self, given: list[Any]) -> list[Any]:
        library = self._library.handle
        inputs, outputs = (_Value * max(len(given), 1))(), (_Value * max(len(self.outputs), 1))()
        tensors = [value for value in given if isinstance(value, torch.Tensor)]
        with lent_handles(tensors) as handles:
            waiting = iter(handles)
            for place, value in zip(inputs, given, strict=False):
                if isinstance(value, torch.Tensor):
                    place.kind, place.word = TENSOR, next(waiting)
                else:
                    _set_number(place, value)
            if torch_compat.any_autocast_enabled():
                with torch_compat.autocast_disabled():
                    code = library.firesteel_model_run(self._model, inputs, len(given), outputs, len(self.outputs))
            else:
                code = library.firesteel_model_run(self._model, inputs, len(given), outputs, len(self.outputs))
        if code == REFUSED:
            raise InputMismatchError(self._library.error())
        if code:
            raise PackageError(f"the model {self.name} failed: {self._library.error()}")
        return [self._result(at, place) for at, place in enumerate(outputs[: len(self.outputs)])]

    def _result(self, at: int, place: Any) -> Any:
        match place.kind:
            case 1:
                return take_tensor(place.word)
            case 0:
                return self._results[at]
            case 2:
                return place.word
            case 4:
                return bool(place.word)
        return ctypes.c_double.from_buffer_copy(ctypes.c_int64(place.word)).value

    def update_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Change weights: the values of tensors under the names that they had in the module's state."""
        for name, tensor in weights.items():
            if name not in self.weight_names:
                raise PackageError(f"the model {self.name} has no weight {name!r}",
                                   f"its weights are {', '.join(self.weight_names)}")
            with lent_handles([tensor.detach()]) as (handle,):
                if self._library.handle.firesteel_model_update_weight(self._model, name.encode(), handle):
                    raise PackageError(self._library.error())
        if self._library.handle.firesteel_model_refresh(self._model):
            raise PackageError(self._library.error())

    def __repr__(self) -> str:
        return f"PackagedModel({self.name!r})"


def _set_number(place: Any, value: Any) -> None:
    if isinstance(value, bool):
        place.kind, place.word = TRUTH, int(value)
    elif isinstance(value, int):
        place.kind, place.word = INTEGER, value
    elif isinstance(value, float):
        place.kind, place.word = NUMBER, ctypes.c_int64.from_buffer_copy(ctypes.c_double(value)).value
    else:
        place.kind = NONE


def _value_of(stored: Any) -> Any:
    return float.fromhex(stored["float"]) if isinstance(stored, dict) and "float" in stored else read_value(stored)


def _check_cpu(archive: ArchiveReader) -> None:
    """Whether this CPU has the instructions that the code uses."""
    from ...kernels.cpu.target import llvm_binding

    wanted = archive.manifest.get("cpu", {}).get("features", [])
    has = llvm_binding().get_host_cpu_features()
    missing = [name for name in wanted if not has.get(name, False)]
    if missing:
        raise PackageError(f"{archive.path} was compiled for a CPU with {', '.join(missing)}, this one has none",
                           'make the package on a machine like this one, or with fs.export.package(..., cpu="avx2")')


def _gpu_number(device: torch.device | str | int | None) -> int:
    """The number of a GPU; -1 for the current one."""
    if device is None or isinstance(device, int):
        return -1 if device is None else device
    chosen = torch.device(device)
    if chosen.type != CUDA.name:
        raise PackageError(f"a package cannot be moved to {chosen}", "models run where they were exported: export the "
                           "model on the device that it is for; cuda:1 and the like choose among GPUs")
    return -1 if chosen.index is None else chosen.index


def _check_gpu(archive: ArchiveReader) -> None:
    """Whether there is a GPU; which kind is asked when models are loaded."""
    if not torch.cuda.is_available():
        why = "this torch is for the CPU" if torch.version.cuda is None else "torch finds none"
        raise PackageError(f"{archive.path} was compiled for a GPU, and {why}",
                           "run it on a machine with a GPU, or export the model on the CPU and package that")
    torch.cuda.init()


def _open(archive: ArchiveReader, part: str) -> _Library:
    """Load a shared object. The loader wants a file; it can go once the code is in memory."""
    data = archive.read(part)
    descriptor, name = tempfile.mkstemp(".so", "firesteel_")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        library = ctypes.CDLL(name)
        version = library.firesteel_interface_version()
    except (OSError, AttributeError) as error:
        raise PackageError(f"{part} of {archive.path} cannot be loaded: {error}") from error
    finally:
        os.remove(name)
    if version != INTERFACE_VERSION:
        raise PackageError(f"{archive.path} has interface version {version}, this is version {INTERFACE_VERSION}")
    c_void, c_int64 = ctypes.c_void_p, ctypes.c_int64
    library.firesteel_last_error.restype = ctypes.c_char_p
    for kind in ("input", "output", "weight"):
        getattr(library, f"firesteel_model_num_{kind}s").restype = c_int64
        getattr(library, f"firesteel_model_{kind}_name").restype = ctypes.c_char_p
        getattr(library, f"firesteel_model_{kind}_name").argtypes = [c_int64]
    library.firesteel_model_load.argtypes = [ctypes.c_char_p, c_int64, c_void]
    if hasattr(library, "firesteel_model_load_on"):  # packages before there were any for GPUs do not have it
        library.firesteel_model_load_on.argtypes = [ctypes.c_char_p, c_int64, ctypes.c_int32, c_void]
        library.firesteel_model_device.argtypes = [c_void]
    library.firesteel_model_free.argtypes = [c_void]
    library.firesteel_model_refresh.argtypes = [c_void]
    library.firesteel_model_free.restype = None
    library.firesteel_model_run.argtypes = [c_void, c_void, c_int64, c_void, c_int64]
    library.firesteel_model_update_weight.argtypes = [c_void, ctypes.c_char_p, c_void]
    return _Library(library)

