"""Tracing by running: forward runs once, as Python, on fake tensors, and the tensor operations are written down.

Whatever else the program does happens now and leaves its results as constants. A decision on the value of a tensor has
nothing to go by and is an error.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType, TracebackType
from typing import Any

import torch
import torch.fx
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from .. import torch_compat
from ..control_flow.tracing import intercepting
from ..errors import UserCodeError, UserFrame
from ..fake import FakeError, FakeTensor
from ..fake.positions import has_positions, selected
from ..fake.resampling import any_factor
from ..functional.graph import Unsupported
from ..functional.state import GlobalState
from ..runtime.stance import everything_plain
from ..shapes import ContradictionError, Provenance, ShapeEnv, UndecidableError
from ..torch_compat.autograd_functions import apply_in_python, code_of_apply
from ..torch_compat.below_autograd import below_autograd
from ..torch_compat.pytrees import tree_flatten
from ..torch_compat.recognised import answering_as_exporting
from .assembly import ModuleCall, Traced, module_stack_of
from .attributes import AttributeWatch
from .errors import BRANCH_HINT, GRADIENTS, GRADIENTS_HINT, LOOP_HINT, RUNNING_HINT, ExportError
from .lifting import Arguments, Lifting, UserInput, argument_of, modules_by_id
from .module_calls import ModuleCallSignature, numbered
from .nesting import unflatten
from .pre_dispatch import PreDispatchRecorder, origin_of
from .recognised import recognising_control_flow
from .signature import ArgumentSpec, ConstantArgument, TensorArgument
from .source_functions import Calls
from .subgraphs import record_control_flow

_APPLY = code_of_apply()
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


_LAYING_OUT = "flatten_parameters"


def _nothing() -> None:
    pass


def trace_nonstrict(module: torch.nn.Module, arguments: Arguments, declared: Any,
                    preserved: Sequence[str] = ()) -> Traced:
    """The pre-dispatch graph of a module by running its forward; the calls of some submodules are described."""
    with any_factor(), apply_in_python():
        return _Run(module, arguments, declared, preserved).run()


class _Run:
    recorder_class: type[PreDispatchRecorder] = PreDispatchRecorder

    def __init__(self, module: torch.nn.Module, arguments: Arguments, declared: Any,
                 preserved: Sequence[str] = ()) -> None:
        self.module = module
        self.preserved = preserved
        self.calls: dict[str, ModuleCallSignature] = {}
        self.arguments = arguments
        self.declared = declared
        self.recorder = self.recorder_class()
        self.env = self.recorder.shape_env = ShapeEnv(self._provenance)
        self.lifting = Lifting(module, arguments, self.recorder)
        self.module_names = modules_by_id(module)
        self.stack: list[ModuleCall] = []
        self.numbers: dict[int, int] = {}
        """How often modules were called, by their ids."""
        # that of the program, and of the control flow functions that are being run
        self._recorders: list[PreDispatchRecorder] = [self.recorder]
        self._origins: dict[Any, dict[str, Any]] = {}
        self._grad = torch.is_grad_enabled()
        self._boundary: FrameType | None = None

    def run(self) -> Traced:
        recorder = self.recorder
        self.lifting.add_inputs(self._fake_of, self.declared.numbers(self.env))
        leaves = [item.fake for item in self.arguments.inputs]
        args, kwargs = unflatten(leaves, self.arguments.spec)
        state = GlobalState.current()
        watch = AttributeWatch(self.module)
        recorder.locate = self._locate
        self._boundary = sys._getframe()
        try:
            with everything_plain(), self._state_as_fakes(), watch, self._following_modules(), \
                    self._describing_calls(), below_autograd(), intercepting(self._control_flow), \
                    recognising_control_flow(), answering_as_exporting(), _Functions(self._recorders, self.stack):
                torch_compat.push_dispatch_mode(recorder)
                try:
                    result = self.module(*args, **kwargs)
                finally:
                    torch_compat.pop_dispatch_mode()
        except UndecidableError as error:
            frames = _user_frames(error.__traceback__)
            loops = bool(frames) and frames[-1].is_loop
            reason = str(error)
            if error.provenance.op == "is_nonzero":  # if, while, bool()
                reason = f"a {'loop' if loops else 'branch'} depends on the value of a tensor"
            raise ExportError(reason, LOOP_HINT if loops else BRANCH_HINT, frames) from error
        except (FakeError, ContradictionError, Unsupported) as error:
            raise ExportError(str(error), RUNNING_HINT, _user_frames(error.__traceback__)) from error
        except RuntimeError as error:
            if "does not require grad" not in str(error):
                raise
            raise ExportError(GRADIENTS, GRADIENTS_HINT, _user_frames(error.__traceback__)) from error
        finally:
            recorder.locate = None
            self._boundary = None
            state.restore()
        stand_ins = {id(item.value): item.fake for item in self.arguments.inputs if isinstance(item.fake, FakeTensor)}
        return Traced(recorder, self.lifting, self.env, result, stand_ins, watch.assigned, self.calls)

    def _control_flow(self, operator: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        outer = self._recorders[-1]

        def run(recorder: PreDispatchRecorder, function: Any, inputs: Sequence[Any]) -> Sequence[Any]:
            self._recorders.append(recorder)
            try:
                results: Sequence[Any] = function(*inputs)
                return results
            finally:
                self._recorders.pop()

        return record_control_flow(outer, operator, args, run)

    def _fake_of(self, tensor: torch.Tensor, item: UserInput | None) -> FakeTensor:
        layout = None if item is None else self.declared.layout(tensor, self.env)
        return self.recorder.from_real(tensor, layout)

    @contextlib.contextmanager
    def _state_as_fakes(self) -> Iterator[None]:
        """Modules hold the fakes of their parameters and buffers while they run."""
        tables = [vars(part)[name] for _, part in self.module.named_modules() for name in ("_parameters", "_buffers")]
        before = [dict(table) for table in tables]
        for table in tables:
            for name, tensor in table.items():
                if tensor is not None:
                    table[name] = self.recorder.from_real(tensor)
        # On a GPU recurrent networks lay their parameters out side by side when they meet new ones.
        recurrent = [vars(part) for part in self.module.modules() if isinstance(part, torch.nn.RNNBase)]
        recurrent = [table for table in recurrent if _LAYING_OUT not in table]
        for table in recurrent:
            table[_LAYING_OUT] = _nothing
        try:
            yield
        finally:
            for table, values in zip(tables, before, strict=True):
                table.clear()
                table.update(values)
            for table in recurrent:
                del table[_LAYING_OUT]

    @contextlib.contextmanager
    def _describing_calls(self) -> Iterator[None]:
        """Note what calls of preserved modules are given and return: ``lin``, then ``lin@1``."""
        hooks = []
        for name in self.preserved:
            try:
                part = self.module.get_submodule(name)
            except AttributeError:
                raise UserCodeError(f"preserve_module_call_signature names {name!r}, and there is no such submodule",
                                    "Use names of module.named_modules().") from None

            running: list[ModuleCallSignature] = []

            def enter(module: Any, args: Any, kwargs: Any, name: str = name, running: Any = running) -> None:
                leaves, spec = tree_flatten((args, kwargs))
                running.append(ModuleCallSignature([self._described(leaf) for leaf in leaves], [], spec, spec))
                self.calls[numbered(name, self.numbers[id(module)])] = running[-1]

            def leave(module: Any, args: Any, result: Any, running: Any = running) -> None:
                call = running.pop()
                leaves, call.out_spec = tree_flatten(result)
                call.outputs = [self._described(leaf) for leaf in leaves]

            hooks += [part.register_forward_pre_hook(enter, with_kwargs=True), part.register_forward_hook(leave)]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _described(self, leaf: Any) -> ArgumentSpec:
        recorder = self._recorders[-1]
        if isinstance(leaf, torch.Tensor):
            fake = leaf if isinstance(leaf, FakeTensor) else recorder.outside(leaf)
            return TensorArgument(recorder.node_of(fake).name)
        if isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            node = recorder.sizes.node_of(leaf)
            return argument_of(node, leaf) if isinstance(node, torch.fx.Node) else ConstantArgument("", node)
        return ConstantArgument("", leaf)

    @contextlib.contextmanager
    def _following_modules(self) -> Iterator[None]:
        """Keep the stack of modules that are being called."""
        thread = threading.get_ident()

        def enter(module: torch.nn.Module, args: Any) -> None:
            if threading.get_ident() == thread:
                number = self.numbers[id(module)] = self.numbers.get(id(module), -1) + 1
                self.stack.append((module, number))

        def leave(module: torch.nn.Module, args: Any, result: Any) -> None:
            if threading.get_ident() == thread and self.stack:
                self.stack.pop()

        hooks = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True)]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _provenance(self) -> Provenance:
        """Who asks about a size: the user's lines, and the operator if it is one."""
        if self._boundary is None:
            return Provenance()
        operator = ""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame is not self._boundary:
            if frame.f_code.co_name == "__torch_dispatch__" and frame.f_code.co_filename.startswith(_OURS):
                target = frame.f_locals.get("func")
                operator = str(getattr(target, "_opname", None) or getattr(target, "__name__", "an operator"))
            frame = frame.f_back
        return Provenance(self._locate().get("user_frames", ()), "", operator)

    def _locate(self) -> dict[str, Any]:
        """Where the program stands: its lines and modules. Changes of grad mode are noticed here too."""
        frames: list[tuple[Any, int]] = []
        in_function = False
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame is not self._boundary:
            if not frame.f_code.co_filename.startswith(_OURS):
                frames.append((frame.f_code, frame.f_lineno))
            in_function = in_function or (frame.f_code is _APPLY)
            frame = frame.f_back
        key = (tuple(frames), tuple([(id(module), number) for module, number in self.stack]))
        known = self._origins.get(key)
        if known is None:
            places = tuple([UserFrame(code.co_filename, line, code.co_name) for code, line in reversed(frames)])
            known = origin_of(tuple([place for place in places if not _is_machinery(place)]))
            known["nn_module_stack"] = module_stack_of(self.stack, self.module_names)
            self._origins[key] = known
        # the forward of an autograd function runs without gradients, but its results have some
        if not in_function and torch.is_grad_enabled() != self._grad:
            before, self._grad = self._grad, torch.is_grad_enabled()
            self._recorders[-1].grad_mode_changed(before, self._grad)
        return known


class _Functions(TorchFunctionMode):
    """Sees the functions of torch that the program calls: nodes say which.

    ``x[n]`` with a number from data is answered here, where C++ would ask for its value.
    """

    def __init__(self, recorders: list[PreDispatchRecorder], stack: list[ModuleCall]) -> None:
        super().__init__()
        self.recorders = recorders
        self.stack = stack
        self.calls = Calls()

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        recorder = self.recorders[-1]
        known: list[dict[str, Any]] = []

        def function() -> dict[str, Any]:  # most calls only ask for shapes and the like, and leave no node
            if not known:
                known.append(self.calls.of(func, [module for module, _ in self.stack]))
            return known[0]

        recorder.function = function
        try:
            return self._call(func, args, kwargs)
        finally:
            recorder.function = None

    def _call(self, func: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        if (func is _GET_ITEM or func is _SET_ITEM) and has_positions(args[1]):
            view, rest = selected(self.recorders[-1].select_at, args[0], args[1])
            if func is _GET_ITEM:
                return view[rest] if rest else view
            view[rest or ...] = args[2]
            return None
        return func(*args, **(kwargs or {}))


_GET_ITEM, _SET_ITEM = torch.Tensor.__getitem__, torch.Tensor.__setitem__


def _is_machinery(place: UserFrame) -> bool:
    """Lines of torch that only pass a call on."""
    return place.in_torch and place.function in ("_call_impl", "_wrapped_call_impl", "inner", "decorate_context",
                                                "decompose")


def _user_frames(traceback: TracebackType | None) -> tuple[UserFrame, ...]:
    """The user's lines of a traceback, up to the last one that is neither torch's nor ours."""
    places = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not code.co_filename.startswith(_OURS):
            places.append(UserFrame(code.co_filename, traceback.tb_lineno, code.co_name))
        traceback = traceback.tb_next
    places = [place for place in places if not _is_machinery(place)]
    last = max((at for at, place in enumerate(places) if not place.in_torch), default=len(places) - 1)
    return tuple(places[:last + 1])
