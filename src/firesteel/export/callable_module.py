"""The module of an exported program: its graph as Python code around the original's parameters and buffers.

    def forward(self, x, d):
        if not self._fits(x, d_u): ...
        weight = self.lin.weight
        linear = torch.ops.aten.linear.default(x, weight)
        return {'y': linear}
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from ..errors import UserCodeError
from ..torch_compat.below_autograd import set_grad_mode
from ..torch_compat.pytrees import TreeSpec, children_of, tree_flatten, tree_flatten_with_path, tree_unflatten
from .errors import InputMismatchError
from .input_checks import InputChecks, input_checks
from .lifting import identifier, path_text
from .nesting import flatten_as, unflatten
from .pre_dispatch import is_opaque
from .program import ExportedProgram
from .signature import InputKind, OutputKind
from .source_functions import note_origin

_ATEN = torch.ops.aten
MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION)


@dataclass
class CallStructure:
    """How arguments and results of a program are nested, and what its inputs must be."""

    in_spec: TreeSpec
    out_spec: TreeSpec
    checks: InputChecks


class ExportedModule(torch.fx.GraphModule):
    """Runs an exported program. Its parameters and buffers have the names that they have in the original."""

    call_structure: CallStructure

    def flat_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of a call's arguments, which must be nested as in the example call."""
        wanted = self.call_structure.in_spec
        leaves = flatten_as((args, kwargs), wanted)
        if leaves is None:
            spec = tree_flatten((args, kwargs))[1]
            raise InputMismatchError(f"the arguments are nested as {spec}, the program was exported for {wanted}")
        return leaves

    def keyword_inputs(self, given: dict[str, Any], wanted: tuple[str, ...]) -> tuple[Any, ...]:
        """The values of keywords that are no parameters of forward."""
        for names, text in ((given.keys() - wanted, "got an unexpected keyword argument"),
                            (set(wanted) - given.keys(), "misses the keyword argument")):
            if names:
                raise TypeError(f"forward() {text} {min(names)!r}")
        return tuple([given[name] for name in wanted])

    def check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise `InputMismatchError` unless the program takes these arguments."""
        values = self.flat_inputs(tuple(args), dict(kwargs))
        if not vars(self)["_fits"](*values):
            self.mismatch(*values)

    def nested_results(self, results: Sequence[Any]) -> Any:
        """The results as the original nests them."""
        return unflatten(results, self.call_structure.out_spec)

    def mismatch(self, *values: Any) -> None:
        """Say what is wrong with inputs."""
        self.call_structure.checks.complain(values)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        kind = next(cls for cls in type(self).__mro__ if cls in (GradModeModule, ExportedModule))
        root = torch.nn.Module()
        tables = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
        vars(root).update({name: copy.deepcopy(vars(self)[name], memo) for name in tables})
        vars(root).update({name: value for name, value in vars(self).items() if is_opaque(value)})
        result = kind(root, copy.deepcopy(self.graph), class_name="GraphModule")  # type: ignore[call-arg]
        vars(result).update({name: vars(root)[name] for name in tables})
        result.call_structure = self.call_structure
        vars(result)["_fits"] = vars(self)["_fits"]
        return result

    def train(self, mode: bool = True) -> Any:
        raise UserCodeError("train() and eval() have no effect on an exported program",
                            "Its operators were fixed when it was exported: call model.train() or model.eval() before.")

    def eval(self) -> Any:
        return self.train(False)


class GradModeModule(ExportedModule):
    """A program that switches gradients on or off inside: they are put back when it raises there."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        enabled = torch.is_grad_enabled()
        try:
            return super().__call__(*args, **kwargs)
        except BaseException:
            torch.set_grad_enabled(enabled)
            raise


class CallCode(torch.fx.graph.CodeGen):
    """Writes forward with the original's arguments and results.

    A keyword that cannot be the name of a parameter here (``class``, ``a-b``, ``torch``) is taken out of ``**others``.
    """

    def __init__(self, names: list[str], positional: int, in_spec: TreeSpec, out_spec: TreeSpec,
                 checked: bool = True) -> None:
        super().__init__()
        self.checked = checked
        self.keys = names[positional:]
        scope = torch.fx.Graph()  # knows which names are free
        for reserved in ("self", "others"):
            scope.placeholder(reserved)
        self.names = [scope.placeholder(identifier(name)).name for name in names]
        self.positional = positional
        self.others = [key for key, name in zip(self.keys, self.names[positional:], strict=True) if key != name]
        self.flat = all(child.is_leaf() for part in children_of(in_spec) for child in children_of(part))
        self.out_spec = out_spec

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, **options: Any) -> str:
        """The signature, and what becomes of the arguments."""
        inputs = [name.split(":")[0].split("=")[0].strip() for name in free_vars if name != "self"]
        keywords = dict(zip(self.keys, self.names[self.positional:], strict=True))
        parameters = [*self.names[:self.positional], *(name for key, name in keywords.items() if key == name)]
        if self.others:
            parameters.append("**others")
        lines = [f"def forward({', '.join(['self', *parameters])}){maybe_return_annotation}:"]
        if self.others:
            taken = "".join(f"{keywords[key]}, " for key in self.others)
            lines.append(f"    {taken}= self.keyword_inputs(others, {tuple(self.others)!r})")
        if self.flat and inputs != self.names:
            lines.append(f"    {', '.join(inputs)}, = {', '.join(self.names)},")
        elif not self.flat and inputs:
            args = "".join(f"{name}, " for name in self.names[:self.positional])
            given = ", ".join(f"{key!r}: {name}" for key, name in keywords.items())
            lines.append(f"    {', '.join(inputs)}, = self.flat_inputs(({args}), {{{given}}})")
        values = ", ".join(inputs)
        if self.checked:
            lines.append(f"    if not self._fits({values}): self.mismatch({values})")
        return "\n".join(lines)

    def generate_output(self, output_args: Any, **options: Any) -> str:
        """The return statement."""
        shown = options.get("repr_fn") or repr
        items = [shown(item) for item in output_args]
        text = _nested(self.out_spec, iter(items))
        return f"return self.nested_results(({''.join(item + ', ' for item in items)}))" if text is None \
            else f"return {text}"


def _nested(spec: TreeSpec, items: Any) -> str | None:
    """Results as a literal, if their containers are Python's own."""
    if spec.is_leaf():
        return str(next(items))
    children = [_nested(child, items) for child in children_of(spec)]
    if any(child is None for child in children):
        return None
    texts = [str(child) for child in children]
    if spec.type is tuple:
        return f"({''.join(text + ', ' for text in texts)})"
    if spec.type is list:
        return f"[{', '.join(texts)}]"
    if spec.type is dict and all(isinstance(key, (str, int)) for key in spec.context):
        return f"{{{', '.join(f'{key!r}: {text}' for key, text in zip(spec.context, texts, strict=True))}}}"
    return None


def make_module(program: ExportedProgram, check_guards: bool = True) -> torch.fx.GraphModule:
    """The module of a program."""
    signature = program.graph_signature
    call = program.module_call_graph[0].signature
    assert call is not None
    root = torch.nn.Module()
    for name, part in program.graph_module.named_children():
        root.add_module(name, part)
    values = dict(zip([spec.arg.name for spec in signature.input_specs if spec.kind is not InputKind.USER_INPUT],
                      program.lifted_values(), strict=True))
    _register_state(root, program, values)
    graph = torch.fx.Graph()
    copied: dict[torch.fx.Node, torch.fx.Node] = {}
    targets = {spec.arg.name: spec.target for spec in signature.input_specs if spec.kind is not InputKind.USER_INPUT}
    _add_inputs(program, graph, copied, targets)
    for node in program.graph.nodes:
        if node.op == "output":
            add_output(program, graph, copied, node)
        elif node.op != "placeholder":
            copied[node] = graph.node_copy(node, copied.__getitem__)
            note_origin(copied[node], node, "ExportedProgram.module()")
    subgraphs = dict(program.graph_module.named_children())
    positional = len(children_of(children_of(call.in_spec)[0]))
    graph.set_codegen(CallCode(list(call.forward_arg_names or []), positional, call.in_spec, call.out_spec,
                               check_guards))
    kind = GradModeModule if any(node.target is set_grad_mode for node in graph.nodes) else ExportedModule
    module = kind(root, graph, class_name="GraphModule")
    # torch.fx leaves out what the graph does not use, and keeps neither the order of the state_dict nor persistence
    for table in ("_parameters", "_buffers", "_modules"):
        vars(module)[table].clear()
    _register_state(module, program, values)
    for name, part in subgraphs.items():
        module.add_module(name, part)
    paths = user_paths(call.in_spec, call.forward_arg_names or [])
    checks = input_checks(program, paths)
    module.call_structure = CallStructure(call.in_spec, call.out_spec, checks)
    module.__dict__["_fits"] = checks.function()
    return module


def _register_state(module: torch.nn.Module, program: ExportedProgram, values: dict[str, torch.Tensor]) -> None:
    """Give a module the program's tensors under their names, in the order of the state_dict."""
    for name, tensor in program.state_dict.items():
        _register(module, name, tensor, True)
    for spec in program.graph_signature.input_specs:
        if spec.kind is not InputKind.USER_INPUT and spec.target not in program.state_dict:
            assert spec.target is not None
            _register(module, spec.target, values[spec.arg.name], False)


def user_paths(in_spec: TreeSpec, names: Sequence[str] = ()) -> list[str]:
    """Where each leaf of a call is: ``x``, ``d['u']``, or ``*args[0]`` for a parameter without a name."""
    leaves = tree_flatten_with_path(tree_unflatten([0] * in_spec.num_leaves, in_spec))[0]
    return [path_text(path, names) for path, _ in leaves]


def _add_inputs(program: ExportedProgram, graph: torch.fx.Graph, copied: dict[torch.fx.Node, torch.fx.Node],
                targets: dict[str, str | None]) -> None:
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    for node in placeholders:
        if node.name not in targets:
            copied[node] = graph.node_copy(node)
            copied[node].target = copied[node].name
    for node in placeholders:
        if node.name in targets and node.users:
            target = targets[node.name]
            assert target is not None
            copied[node] = graph.create_node("get_attr", target, name=identifier(target.replace(".", "_")))
            copied[node].meta.update(node.meta)


def add_output(program: ExportedProgram, graph: torch.fx.Graph, copied: dict[torch.fx.Node, torch.fx.Node],
               node: torch.fx.Node) -> None:
    """The output of a copy of a program's graph: values that it returns for what it changes are copied there."""
    inputs = {spec.target if spec.target is not None else spec.arg.name: spec.arg.name
              for spec in program.graph_signature.input_specs}
    by_name = {other.name: copied[other] for other in program.graph.nodes if other in copied}
    results = []
    for spec, value in zip(program.graph_signature.output_specs, node.args[0], strict=True):  # type: ignore[arg-type]
        result = copied[value] if isinstance(value, torch.fx.Node) else value
        if spec.kind in MUTATIONS:
            assert spec.target is not None
            graph.call_function(_ATEN.copy_.default, (by_name[inputs[spec.target]], result))
        else:
            results.append(result)
    graph.output(tuple(results))


def _register(root: torch.nn.Module, name: str, tensor: Any, persistent: bool) -> None:
    *path, last = name.split(".")
    for part in path:
        if part not in dict(root.named_children()):
            root.add_module(part, torch.nn.Module())
        root = getattr(root, part)
    if not isinstance(tensor, torch.Tensor):
        setattr(root, last, tensor)  # an object that operators take
    elif isinstance(tensor, torch.nn.Parameter):
        root.register_parameter(last, tensor)
    else:
        root.register_buffer(last, tensor, persistent=persistent)
