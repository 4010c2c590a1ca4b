"""Functional ATen graphs for tests: what an eager call dispatches, as a graph whose nodes hold the real results."""

import operator

import torch
import torch.fx
from torch.utils._python_dispatch import TorchDispatchMode


class Mutates(Exception):
    """The call writes in place, which these graphs cannot say."""


class Recorder(TorchDispatchMode):
    def __init__(self, inputs):
        super().__init__()
        self.graph = torch.fx.Graph()
        self.root = torch.nn.Module()
        self.nodes = {}
        self.kept = []
        for k, tensor in enumerate(inputs):
            node = self.graph.placeholder(f"x{k}")
            self._bind(node, tensor)

    def _bind(self, node, tensor):
        node.meta["val"] = tensor
        self.nodes[id(tensor)] = node
        self.kept.append(tensor)

    def _node(self, value):
        if isinstance(value, torch.Tensor):
            if id(value) not in self.nodes:
                name = f"constant{len(self.kept)}"
                self.root.register_buffer(name, value)
                self._bind(self.graph.get_attr(name), value)
            return self.nodes[id(value)]
        if isinstance(value, (list, tuple)):
            return type(value)(self._node(part) for part in value)
        return value

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func._schema.is_mutable:
            raise Mutates(str(func))
        node_args = self._node(tuple(args))
        node_kwargs = {name: self._node(arg) for name, arg in kwargs.items()}
        result = func(*args, **kwargs)
        node = self.graph.call_function(func, node_args, node_kwargs)
        if isinstance(result, torch.Tensor):
            if id(result) in self.nodes:  # an operator that gave back its argument
                self.graph.erase_node(node)
                return result
            self._bind(node, result)
        else:
            node.meta["val"] = result
            for k, part in enumerate(result if isinstance(result, (list, tuple)) else ()):
                if isinstance(part, torch.Tensor):
                    self._bind(self.graph.call_function(operator.getitem, (node, k)), part)
        return result


def record(function, *inputs, **kwargs):
    """The graph of ``function(*inputs)`` and its tensor results, eager's own."""
    with torch.no_grad():
        recorder = Recorder([x for x in inputs if isinstance(x, torch.Tensor)])
        with recorder:
            result = function(*inputs, **kwargs)
    flat = [x for x in torch.utils._pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]
    recorder.graph.output([recorder._node(x) for x in flat])
    return torch.fx.GraphModule(recorder.root, recorder.graph), flat
