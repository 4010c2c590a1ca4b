"""Values as Python source: what a script says to make the inputs of a failing program again.

Tensors are drawn after one seed, in their sizes, strides and dtypes; small ones of integers, and all small ones where
the values matter, are written out. What has no source is an `Unwritable`.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import with_article
from ..shapes.symnode import hint_of
from ..torch_compat.module_tables import own_buffers, own_modules, own_parameters

MOST_WRITTEN = 64
"""Elements of a tensor that are written out; more are drawn."""
_CONTAINERS = {list: "[]", tuple: "()", set: "{}", dict: "{}"}
_PLAIN = (bool, int, str, bytes, type(None), type(Ellipsis))
_INFINITIES = {"inf": "math.inf", "-inf": "-math.inf", "nan": "math.nan"}


class Unwritable(Exception):
    """A value that no source stands for."""


class Values:
    """Writes values, and collects the lines and imports that they need."""

    def __init__(self, exact: bool = False, own: Callable[[type], bool] = lambda _: False) -> None:
        """``exact``: floats of small tensors are written out. ``own``: whether the script defines a class itself."""
        self.exact = exact
        self.own = own
        self.lines: list[str] = []
        self.imports: dict[str, None] = {}
        self.known: dict[int, str] = {}
        self.names: set[str] = set()
        self._alive: list[Any] = []

    def fresh(self, wanted: str) -> str:
        """A name that nothing else has."""
        name = "".join(c if c.isalnum() else "_" for c in wanted).strip("_") or "value"
        name = f"v_{name}" if name[0].isdigit() else name
        base, number = name, 0
        while name in self.names:
            number += 1
            name = f"{base}_{number}"
        self.names.add(name)
        return name

    def write(self, value: Any, name: str) -> str:
        """Source of a value; what takes lines of its own, or is used twice, gets a variable called like ``name``."""
        if id(value) in self.known:
            return self.known[id(value)]
        self._alive.append(value)  # identities must stay its own
        if isinstance(value, torch.Tensor):
            return self._bound(value, name, tensor_source(value, self.exact))
        if isinstance(value, torch.nn.Module):
            return self._module(value, name)
        if type(value) in _CONTAINERS:
            return self._container(value, name)
        if isinstance(value, types.ModuleType):
            self.imports[value.__name__] = None
            return value.__name__
        text = constant_source(value)
        if text is not None:
            if "math." in text:
                self.imports["math"] = None
            return text
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            return self._by_name(value)
        if self.own(type(value)):
            return self._object(value, name)
        raise Unwritable(f"{name} is {with_article(type(value).__qualname__)}")

    def _bound(self, value: Any, name: str, source: str) -> str:
        variable = self.known[id(value)] = self.fresh(name)
        self.lines.append(f"{variable} = {source}")
        return variable

    def _container(self, value: Any, name: str) -> str:
        if isinstance(value, dict):
            items = [f"{self.write(key, name)}: {self.write(part, f'{name}_{key}')}" for key, part in value.items()]
            return f"{{{', '.join(items)}}}"
        parts = [self.write(part, f"{name}_{at}") for at, part in enumerate(value)]
        if isinstance(value, set):
            return f"{{{', '.join(parts)}}}" if parts else "set()"
        if isinstance(value, tuple):
            return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
        return f"[{', '.join(parts)}]"

    def _by_name(self, value: Any) -> str:
        module, qualified = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
        if module == "builtins":
            return str(qualified)
        holder = value if isinstance(value, type) else None
        if holder is not None and self.own(holder):
            return str(qualified)
        if not module or module == "__main__" or "<" in qualified:
            raise Unwritable(f"{qualified or value} has no name that can be imported")
        self.imports[module] = None
        return f"{module}.{qualified}"

    def _module(self, module: torch.nn.Module, name: str) -> str:
        kind = type(module)
        source = module_source(module)
        if source is not None:
            variable = self._bound(module, name, source)
            self._changed_settings(module, variable)
            return variable
        if not self.own(kind) and kind not in (torch.nn.ModuleList, torch.nn.Sequential):
            raise Unwritable(f"{name} is a {kind.__module__}.{kind.__qualname__}")
        if isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)) and not self.own(kind):
            parts = [self.write(part, f"{name}_{at}") for at, part in enumerate(module)]  # type: ignore[arg-type]
            listed = ", ".join(parts)
            listed = f"[{listed}]" if isinstance(module, torch.nn.ModuleList) else listed
            variable = self._bound(module, name, f"torch.nn.{kind.__name__}({listed})")
        else:
            variable = self._object(module, name)
        self._changed_settings(module, variable)
        return variable

    def _changed_settings(self, module: torch.nn.Module, variable: str) -> None:
        if not module.training:
            self.lines.append(f"{variable}.training = False")
        tensors = list(module.parameters())
        if tensors and all(one.dtype is tensors[0].dtype for one in tensors) \
                and tensors[0].dtype is not torch.get_default_dtype() and not self.own(type(module)):
            self.lines.append(f"{variable}.to({tensors[0].dtype})")

    def _object(self, value: Any, name: str) -> str:
        """An object of a class that the script defines, made without its constructor."""
        kind = type(value).__qualname__
        variable = self._bound(value, name, f"{kind}.__new__({kind})")
        if isinstance(value, torch.nn.Module):
            self.lines.append(f"torch.nn.Module.__init__({variable})")
            members = {**own_parameters(value), **own_buffers(value), **own_modules(value)}
            members |= {key: part for key, part in vars(value).items()
                        if not key.startswith("_") and key != "training"}
        elif hasattr(value, "__dict__"):
            members = dict(vars(value))
        else:
            members = {slot: getattr(value, slot) for slot in getattr(type(value), "__slots__", ())}
        frozen = dataclasses.is_dataclass(value)
        for key, part in members.items():
            source = self.write(part, f"{name}_{key}")
            if isinstance(value, torch.nn.Module) and isinstance(part, torch.Tensor) \
                    and not isinstance(part, torch.nn.Parameter) and key in own_buffers(value):
                self.lines.append(f"{variable}.register_buffer({key!r}, {source})")
            elif frozen:
                self.lines.append(f"object.__setattr__({variable}, {key!r}, {source})")
            else:
                self.lines.append(f"{variable}.{key} = {source}")
        return variable


def constant_source(value: Any) -> str | None:
    """A number, text, dtype and the like; None for anything else."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        value = hint_of(value)
    if type(value) in _PLAIN:
        return repr(value)
    if type(value) is float:
        return _INFINITIES.get(repr(value)) or repr(value)
    if type(value) is complex:
        return repr(value)
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        return str(value)
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    if isinstance(value, torch.Size):
        return f"torch.Size({[int(hint_of(size)) for size in value]})"
    if isinstance(value, (slice, range)):
        parts = (value.start, value.stop, value.step)
        inner = [constant_source(part) for part in parts]
        return None if None in inner else f"{type(value).__name__}({', '.join(map(str, inner))})"
    return None


def module_source(module: torch.nn.Module) -> str | None:
    """The call that makes a module of torch's that has no other modules inside, as its own text says; else None."""
    kind = type(module)
    if not kind.__module__.startswith("torch.nn.modules.") or any(True for _ in module.children()):
        return None
    if getattr(torch.nn, kind.__name__, None) is not kind or kind in (torch.nn.ModuleList, torch.nn.Sequential):
        return None
    arguments = module.extra_repr()
    if isinstance(module, torch.nn.Embedding):
        arguments = f"{module.num_embeddings}, {module.embedding_dim}, padding_idx={module.padding_idx}"
    source = f"torch.nn.{kind.__name__}({arguments})"
    try:
        made = eval(source, {"torch": torch})
    except Exception:
        return None
    same = {key: part.shape for key, part in made.state_dict().items()} == \
        {key: part.shape for key, part in module.state_dict().items()}
    return source if same else None


def tensor_source(value: torch.Tensor, exact: bool = False) -> str:
    """A tensor of the same size, strides, dtype and device; of floats that need not be ``exact`` other values."""
    source = _written(value, exact) if _has_data(value) else None
    if source is None:
        source = _drawn(value)
    if isinstance(value, torch.nn.Parameter):
        return f"torch.nn.Parameter({source}, requires_grad={value.requires_grad})"
    if value.requires_grad:
        return f"{source}.requires_grad_()" + ("" if value.is_leaf else ".clone()")
    return source


def _has_data(value: torch.Tensor) -> bool:
    return type(value) in (torch.Tensor, torch.nn.Parameter) and not value.is_meta \
        and value.layout is torch.strided


def _sizes(numbers: Sequence[Any]) -> list[int]:
    return [int(hint_of(number)) for number in numbers]


def _written(value: torch.Tensor, exact: bool) -> str | None:
    """The elements of a small tensor, where they matter."""
    matters = exact or not (value.is_floating_point() or value.is_complex())
    if not matters or value.numel() > MOST_WRITTEN or not value.is_contiguous() or value.dtype.itemsize == 1 \
            and value.is_floating_point():
        return None
    elements = value.detach().cpu()
    numbers = _listed(elements.tolist())
    extra = _device(value)
    if 0 in value.shape:
        return f"torch.empty({_sizes(value.shape)}, dtype={value.dtype}{extra})"
    return f"torch.tensor({numbers}, dtype={value.dtype}{extra})"


def _device(value: torch.Tensor) -> str:
    return "" if value.device.index is None else f", device={str(value.device)!r}"


def _listed(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_listed, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _drawn(value: torch.Tensor) -> str:
    shape, strides = _sizes(value.shape), _sizes(value.stride())
    extent = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True)) if 0 not in shape else 0
    offset = int(hint_of(value.storage_offset()))
    plain = strides == _contiguous(shape) or extent <= 1 or 0 in shape
    drawn = _draw(value, shape if plain else [extent + offset])
    return drawn if plain else f"{drawn}.as_strided({shape}, {strides}, {offset})"


def _contiguous(shape: list[int]) -> list[int]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]


def _draw(value: torch.Tensor, shape: list[int]) -> str:
    extra = _device(value)
    sizes = f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
    dtype = value.dtype
    if dtype is torch.bool:
        return f"(torch.rand({sizes}{extra}) > 0.5)"
    if dtype.is_floating_point or dtype.is_complex:
        if dtype.itemsize == 1:
            return f"torch.randn({sizes}{extra}).to({dtype})"
        positive = _has_data(value) and value.numel() > 0 and not dtype.is_complex and bool((value.detach() >= 0).all())
        how = "rand" if positive and bool((value.detach() <= 1).all()) else "randn"
        kind = "" if dtype is torch.float32 else f", dtype={dtype}"
        source = f"torch.{how}({sizes}{kind}{extra})"
        return f"{source}.abs()" if positive and how == "randn" else source
    low, high = 0, 1
    if _has_data(value) and value.numel():
        low, high = int(value.min()), int(value.max()) + 1
    return f"torch.randint({low}, {high}, {sizes}, dtype={dtype}{extra})"
