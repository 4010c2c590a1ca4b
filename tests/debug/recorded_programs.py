"""Small programs whose breaks and recompilations are known: comments say on which line each is.

``# break`` stands where a graph must end, ``# again`` where the program came to rely on what changes between the calls.
"""

import torch

import firesteel as fs

X = torch.linspace(-1, 1, 12).reshape(3, 4)
SCALE = 2.0
SETTINGS = {"mode": "a"}
PROGRAMS = []


def program(*calls, **options):
    """Registers a function with the arguments of each of its calls; an argument that can be called is what gives it."""
    def register(function):
        PROGRAMS.append((function, calls, options))
        return function

    return register


@fs.disable
def outside(x):
    return x + 1


def inner(x):
    y = x.sin()
    fs.graph_break()  # break: inner
    return y.cos()


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.factor = 2
        self.flag = True

    def forward(self, x):
        y = self.linear(x)
        if self.flag:  # again: Module
            y = y * self.factor
        return y


class Breaking(torch.nn.Module):
    def forward(self, x):
        x = x.relu()
        if x.sum() > 100:  # break: Breaking
            x = x + 1
        return x * 2


@program((X,), (X,))
def nothing_special(x):
    y = x.sin()
    return y + 1


@program((X,))
def data_dependent_branch(x):
    y = x * 2
    if y.sum() > 1e6:  # break
        return y + 1
    return y - 1


@program((X,))
def item(x):
    y = x.abs().sum()
    n = y.item()
    return x * float(str(n))  # break


@program((X,))
def marked_break(x):
    y = x + 1
    fs.graph_break()  # break
    return y * 2


@program((X,))
def two_breaks(x):
    y = x + 1
    fs.graph_break()  # break
    z = y * 2
    fs.graph_break()  # break
    return z.sin()


@program((X,))
def disabled_callee(x):
    y = x.cos()
    z = outside(y)  # break
    return z.sin()


@program((X,))
def break_in_callee(x):
    y = x * 3
    z = inner(y)
    return z + 1


@program((X,))
def break_in_loop(x):
    for _ in range(3):
        x = x + 1
        fs.graph_break()  # break
    return x


@program((X,))
def break_in_branch(x):
    if x.shape[0] == 3:
        x = x.exp()
        fs.graph_break()  # break
    return x + 1


@program((X,))
def break_in_with(x):
    with torch.no_grad():
        y = x.exp()
        fs.graph_break()  # break
        y = y + 1
    return y


@program((X,))
def break_in_try(x):
    y = x.exp()
    try:
        y = y + 1
        fs.graph_break()  # break
    finally:
        y = y * 2
    return y


@program((X,))
def on_several_lines(x):
    y = x.exp()
    z = torch.add(
        y,
        outside(  # break
            y * 2,
        ),
    )
    return z


@program((X,))
def converted_to_list(x):
    y = x.round()
    numbers = y.tolist()
    return x * len(str(numbers))  # break


@program((X,))
def breaking_module(x):
    module = Breaking()
    return module(x) + 1


@program((X,), (X[:2],), dynamic=False)
def other_size(x):
    y = x.sin()  # again
    return y + 1


@program((X,), (X[:2],))
def other_size_once(x):
    y = x.sin()  # again
    return y + 1


@program((X,), (X.double(),))
def other_dtype(x):
    y = x.sin()  # again
    return y


@program((X,), (X.t(),))
def other_strides(x):
    return x.sin() + x.cos()  # again


@program((X, 2), (X, 3), dynamic=False)
def other_number(x, n):
    y = x.sin()
    return y * n  # again


@program((X, "a"), (X, "b"))
def other_text(x, mode):
    y = x.sin()
    if mode == "a":  # again
        y = y + 1
    return y


@program((X, True), (X, False))
def other_flag(x, flag):
    y = x.sin()
    return y + 1 if flag else y - 1  # again


@program((X, None), (X, X))
def optional_tensor(x, bias):
    y = x.sin()
    if bias is not None:  # again
        y = y + bias
    return y


@program(([X],), ([X, X],))
def longer_list(tensors):
    total = 0
    for one in tensors:  # again
        total = total + one.sum()
    return total


@program(({"a": X},), ({"b": X},))
def other_keys(tensors):
    total = 0
    for name in tensors:  # again
        total = total + tensors[name].sum()
    return total


@program((X,), (lambda: globals().__setitem__("SCALE", 3.0) or X,), dynamic=False)
def other_global(x):
    y = x.sin()
    return y * SCALE  # again


@program((X,), (lambda: SETTINGS.__setitem__("mode", "b") or X,))
def other_setting(x):
    y = x.sin()
    if SETTINGS["mode"] == "a":  # again
        y = y + 1
    return y


@program((X, [1, 2]), (X, (1, 2)))
def other_type(x, sizes):
    y = x.sin()
    for size in sizes:  # again
        y = y + size
    return y


@program((X, X), (X, lambda: X.clone().requires_grad_()))
def needs_gradient(x, weight):
    y = x.sin()
    return y * weight  # again


@program((X, 20), (X, 3), dynamic=True)
def shape_condition(x, n):
    y = x.sin()
    if n > 10:  # again
        y = y + 1
    return y * n


MODULE = Module()


@program((X,), (lambda: setattr(MODULE, "flag", False) or X,))
def changed_attribute(x):
    return MODULE(x) + 1


@program((X, 2), (X, 3), dynamic=False)
def break_and_again(x, n):
    y = x * n  # again
    fs.graph_break()  # break
    return y + 1
