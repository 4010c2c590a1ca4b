"""Keeps torch's own functions from importing torch's own compiler."""

from __future__ import annotations

import functools
import gc
import importlib
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from ..locks import new_lock
from . import patches

_neutralised = False
_neutralise_lock = new_lock()
_MARK = "__dynamo_disable"
LOOKUP = "torch._compile.getattr"
STEPS = "the code of Optimizer.step"
SHAPES = "torch.fx.experimental.symbolic_shapes"
PROMOTION = "the code of torch._prims_common.elementwise_dtypes"
"""What is changed here, as `patches.applied` and the docs name it."""


def neutralise_dynamo_imports() -> int:
    """Stop torch's own functions from importing ``torch._dynamo`` (and sympy, 0.9 s) on their first call.

    Many Python functions of torch (meta kernels, dispatch modes, optimizers) are wrapped so that torch's compiler does
    not trace into them; the wrapper imports that compiler when first called, unless ``getattr`` finds the attribute in
    which the wrapper caches its result. That ``getattr`` is answered here: with the wrapped function, for all of them.
    ``step`` of the optimizers imports the compiler in its own body; its body is replaced by one that does the same
    without the import. Meta kernels also import torch's symbolic shapes, and with them sympy (0.7 s), for a few
    predicates that are trivial on plain sizes; see :class:`_SymbolicShapes`.

    Returns the number of things changed; later calls do nothing and return 0. A release of torch in which these
    things are done in other ways is left alone: it works, it only imports its compiler.
    """
    global _neutralised
    with _neutralise_lock:
        if _neutralised:
            return 0
        _neutralised = True
        patches.register(LOOKUP, _forget)
        from torch.optim import optimizer

        changes = _answer_lookups()
        make_step = getattr(optimizer, "_use_grad_for_differentiable", None)
        step_code = make_step(lambda self: None).__code__ if make_step is not None else None
        if make_step is not None and step_code is not None:
            steps = _functions_with(step_code, optimizer.Optimizer)
            _replace_optimizer_steps(make_step, step_code, steps)
            changes += len(steps)
        _SymbolicShapes.install()
        _keep_promotion_from_sympy()
        return changes


def _forget() -> None:
    """Let the next call of `neutralise_dynamo_imports` do its work again."""
    global _neutralised
    _neutralised = False


def _answer_lookups() -> int:
    """Let the wrapped function itself be what wrappers find in the attribute; the number of changes that takes."""
    decorator: Callable[..., Any] | None = getattr(torch, "_disable_dynamo", None)
    module = sys.modules.get("torch._compile")
    if decorator is None or module is None or decorator is not getattr(module, "_disable_dynamo", None):
        return 0
    wrapper: types.CodeType = decorator(_forget).__code__  # type: ignore[attr-defined,misc]
    if "getattr" not in wrapper.co_names or _MARK not in wrapper.co_consts:
        return 0  # another release of torch, which does this in another way
    # Programs that call such wrappers are captured, and this with them: it counts as a function of torch's module.
    namespace: dict[str, Any] = {"__name__": module.__name__, "usual": getattr, "MARK": _MARK}
    text = "def getattr(owner, name, *default):\n return owner if name == MARK else usual(owner, name, *default)"
    exec(compile(text, str(module.__file__), "exec"), namespace)
    patches.set_attribute(LOOKUP, module, "getattr", namespace["getattr"])
    return 1


def _functions_with(code: types.CodeType, root: type) -> list[types.FunctionType]:
    """The functions with a code among the methods ``step`` of a class and of those derived from it, also inside of
    what hooks have wrapped around them. A search through all objects takes 15 ms and more."""
    functions: dict[types.FunctionType, None] = {}
    classes, seen = [root], {root}
    while classes:
        cls = classes.pop()
        new: set[type] = set(type.__subclasses__(cls)) - seen
        classes += new
        seen |= new
        waiting: list[Any] = [vars(cls).get("step")]
        entered: set[types.FunctionType] = set()
        while waiting:
            function = waiting.pop()
            if type(function) is not types.FunctionType or function in entered:
                continue
            entered.add(function)
            if function.__code__ is code:
                functions[function] = None
            for cell in function.__closure__ or ():
                waiting += [] if _is_empty(cell) else [cell.cell_contents]
    return list(functions)


def _is_empty(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False


def _step_template(func: Callable[..., Any]) -> Callable[..., Any]:
    # The inner function's code runs with the globals of torch.optim.optimizer, where of this module's names only
    # ``torch`` exists; hence the import inside.
    def _use_grad(*args: Any, **kwargs: Any) -> Any:
        import sys

        from firesteel.compiling_flag import is_compiling

        # torch's own compiler breaks here; ours has no reason to
        break_graph = None if is_compiling() else getattr(sys.modules.get("torch._dynamo"), "graph_break", None)
        previous = torch.is_grad_enabled()
        try:
            torch.set_grad_enabled(args[0].defaults["differentiable"])
            if break_graph is not None:
                break_graph()
            return func(*args, **kwargs)
        finally:
            if break_graph is not None:
                break_graph()
            torch.set_grad_enabled(previous)

    return _use_grad


def _replace_optimizer_steps(
    make_step: types.FunctionType, old: types.CodeType, steps: list[types.FunctionType]
) -> None:
    new: types.CodeType = _step_template(lambda: None).__code__
    if old.co_freevars != new.co_freevars or "torch._dynamo" not in old.co_names:
        # Another torch release with another body: leave it, it works, it only imports the compiler.
        return
    for step in steps:
        step.__code__ = new

    def undo() -> None:
        for function in gc.get_referrers(new):  # those that were decorated since are among them
            if type(function) is types.FunctionType and function.__code__ is new:
                function.__code__ = old

    patches.register(STEPS, undo)
    # Optimizers written later are decorated by the same factory, which holds the old code among its constants.
    consts = tuple(new if const is old else const for const in make_step.__code__.co_consts)
    patches.set_code(STEPS, make_step, make_step.__code__.replace(co_consts=consts))


def behind_torchs_compiler(function: types.FunctionType) -> Any:
    """The function of torch that torch's own compiler, once used, has put another in front of; None for all others.

    It keeps itself away from optimizers, and counts the modules that are made. Neither concerns another compiler.
    """
    original = function.__dict__.get("_torchdynamo_orig_callable")
    if original is None and function.__module__ == "torch._dynamo.mutation_guard" and function.__closure__:
        cells = dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))
        cell = cells.get("init") or cells.get("setstate")
        original = None if cell is None else cell.cell_contents
    if not isinstance(original, types.FunctionType):
        return None
    return original if (original.__module__ or "").startswith("torch.") else None


_PLAIN = frozenset({bool, int, float})


def _is_plain(value: Any) -> bool:
    if type(value) in _PLAIN:
        return True
    if isinstance(value, (tuple, list)):
        return all([_is_plain(item) for item in value])
    return isinstance(value, (bool, int, float))


_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def _is_ours(value: Any) -> bool:
    """Whether a value holds nothing but plain numbers and symbolic ones that answer for themselves."""
    if type(value) in _PLAIN:
        return True
    if isinstance(value, (tuple, list)):
        return all([_is_ours(item) for item in value])
    if isinstance(value, _SYMBOLIC):
        return getattr(value.node, "answers_for_itself", False)
    if isinstance(value, torch.Tensor):
        return value._has_symbolic_sizes_strides and _is_ours(
            (*value.shape, *value.stride(), value.storage_offset()))
    return isinstance(value, (bool, int, float))


def _ask(method: str) -> Callable[[Any], Any]:
    """A predicate that a symbolic bool's node answers by the method named."""
    return lambda value: getattr(value.node, method)("", 0) if isinstance(value, torch.SymBool) else bool(value)


def _joined(join: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda first, *others: functools.reduce(join, others, first)


def _equal(x: Any, y: Any) -> Any:
    if isinstance(x, (tuple, list)):
        return len(x) == len(y) and functools.reduce(operator.and_, map(_equal, x, y), True)
    return x == y


def _hint(value: Any) -> Any:
    return value.node.shape_env.guarding_hint_or_throw(value.node.expr)


def _unbacked(value: Any) -> set[Any]:
    """The symbols in a number, tensor or sequence that have no hint."""
    if isinstance(value, torch.Tensor):
        return _unbacked((*value.shape, *value.stride(), value.storage_offset()))
    if isinstance(value, (tuple, list)):
        return set().union(*map(_unbacked, value))
    if not isinstance(value, _SYMBOLIC) or value.node.has_hint():
        return set()
    known = value.node.shape_env.env.hints
    return {free for free in value.node.expr.free_symbols if free not in known}


class _SymbolicShapes(types.ModuleType):
    """Stands in for ``torch.fx.experimental.symbolic_shapes`` until something is asked that it does not know.

    Torch's meta kernels import predicates from that module inside their bodies. On plain numbers the answers are
    plain Python, and our own symbolic numbers answer for themselves. Any other argument, and any other name, loads the
    real module, which then takes this one's place; its predicates are taught to leave our numbers to us.
    """

    NAME = "torch.fx.experimental.symbolic_shapes"

    #: name -> the answer for plain arguments, the answer for our symbolic numbers
    ANSWERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "guard_or_false": (bool, _ask("guard_or_false")),
        "guard_or_true": (bool, _ask("guard_or_true")),
        "guard_size_oblivious": (bool, _ask("guard_size_oblivious")),
        "statically_known_true": (bool, _ask("statically_known_true")),
        "statically_known_false": (
            lambda value: not value,
            lambda value: _ask("statically_known_true")(torch.sym_not(value)),
        ),
        "sym_and": (lambda *values: all(values), _joined(operator.and_)),
        "sym_or": (lambda *values: any(values), _joined(operator.or_)),
        "sym_eq": (lambda x, y: x == y, _equal),
        "is_nested_int": (lambda value: False, lambda value: False),
        "has_guarding_hint": (lambda value: True, lambda value: value.node.has_hint()),
        "has_static_value": (lambda value: True, lambda value: value.node.constant is not None),
        "free_unbacked_symbols": (lambda value: set(), _unbacked),
        "guard_int": (int, int),
        "guarding_hint_or_throw": (int, _hint),
        # what torch 2.11 calls some of the above
        "has_hint": (lambda value: True, lambda value: value.node.has_hint()),
        "size_hint": (int, _hint),
        "hint_int": (int, _hint),
        "expect_true": (bool, _ask("expect_true")),
    }

    @classmethod
    def install(cls) -> None:
        """Take the module's place; where it is loaded already, teach it."""
        if cls.NAME in sys.modules:
            cls._teach(sys.modules[cls.NAME])
            return
        parent = importlib.import_module(cls.NAME.rpartition(".")[0])
        stand_in = cls(cls.NAME, cls.__doc__)
        for name, (plain, ours) in cls.ANSWERS.items():
            setattr(stand_in, name, stand_in._predicate(name, plain, ours))
        patches.set_module(SHAPES, cls.NAME, stand_in)
        patches.set_attribute(SHAPES, parent, "symbolic_shapes", stand_in)

    def _predicate(self, name: str, plain: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
        def predicate(*args: Any, **kwargs: Any) -> Any:
            if not kwargs:
                if _is_plain(args):
                    return plain(*args)
                if _is_ours(args):
                    return ours(*args)
            return getattr(self._load(), name)(*args, **kwargs)

        predicate.__name__ = name
        return predicate

    def _load(self) -> types.ModuleType:
        if sys.modules.get(self.NAME) is not self:  # done, or undone
            return importlib.import_module(self.NAME)
        del sys.modules[self.NAME]
        module = importlib.import_module(self.NAME)
        self._teach(module)
        return module

    @classmethod
    def _teach(cls, module: types.ModuleType) -> None:
        def predicate(original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def answer(*args: Any, **kwargs: Any) -> Any:
                if not kwargs and not _is_plain(args) and _is_ours(args):
                    return ours(*args)
                return original(*args, **kwargs)

            return answer

        for name, (_, ours) in cls.ANSWERS.items():
            original = getattr(module, name, None)
            if original is not None:
                patches.set_attribute(SHAPES, module, name, predicate(original, ours))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._load(), name)


class _SympyTypes(types.ModuleType):
    """Has ``Basic``: sympy's when sympy is loaded, else a class without instances."""

    NAME = "_firesteel_sympy_types"

    def __getattr__(self, name: str) -> Any:
        if name != "Basic":
            raise AttributeError(name)
        sympy = sys.modules.get("sympy")
        return _NoInstances if sympy is None else getattr(sympy, "Basic", _NoInstances)


class _NoInstances:
    """While sympy is not loaded, nothing can be one of its expressions."""


def _keep_promotion_from_sympy() -> None:
    # The type promotion of meta kernels imports sympy for one isinstance test; point that import at a stand-in.
    function = getattr(sys.modules.get("torch._prims_common"), "elementwise_dtypes", None)
    code = getattr(function, "__code__", None)
    if "sympy" in sys.modules or code is None or "sympy" not in code.co_names:
        return
    patches.set_module(PROMOTION, _SympyTypes.NAME, _SympyTypes(_SympyTypes.NAME))
    names = tuple(_SympyTypes.NAME if name == "sympy" else name for name in code.co_names)
    patches.set_code(PROMOTION, function, code.replace(co_names=names))  # type: ignore[arg-type]
