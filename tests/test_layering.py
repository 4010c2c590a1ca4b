"""What firesteel stands on and what it replaces, the order of its packages, and the cost of importing it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import networkx
import pytest

from reading_sources import forget, nodes_of

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))

# What firesteel replaces. Functions of these modules in users' programs are recognised by name, without an import.
REPLACED = (
    "torch.compile",
    "torch.compiler",
    "torch._dynamo",
    "torch._C._dynamo",
    "torch._inductor",
    "torch._functorch.aot_autograd",
    "torch._functorch._aot_autograd",
    "torch._functorch.partitioners",
    "torch.export",
    "torch._export",
    "torch.jit",
)
FOR_TOOLS_OF_TORCH = "export/torch_programs.py"
"""The one module that may use `torch.export`: it makes torch's ExportedProgram for tools that take those. Nothing of
firesteel imports it before `fs.export.to_torch` is called."""
NEVER_LOADED = (
    "torch._dynamo",
    "torch._inductor",
    "torch._functorch.aot_autograd",
    "torch._functorch.partitioners",
)
IMPORT_COST = 0.05
"""How much of the time that torch takes to be imported firesteel may take beside it, in seconds of the CPU."""

ORDER = (
    "version", "compiling_flag", "systems", "own_frames", "loops_around", "tested_versions", "records", "errors",
    "config", "registry", "locks", "logs", "stage_times", "events", "progress", "shape_markers", "devices",
    "function_marks", "signatures", "paying", "module_twins", "torch_compat", "support", "importing", "interruptions",
    "cache_entries", "cache_claims", "remote_cache", "disk_cache", "rank_decisions", "native", "shapes",
    "repro_scripts", "control_flow", "fake", "functional", "autodiff", "passes", "kernels", "packed_cache", "pipeline",
    "backends", "capture", "runtime", "control", "size_declarations", "module_wrapper", "compiled_functions", "waiting",
    "compiling", "export", "debug", "repair", "unchanged", "__init__", "demo", "commands", "cli", "__main__",
)
"""The packages and modules of firesteel from the lowest to the highest. Each imports from those before it only."""
FOR_TYPES_ONLY = frozenset({
    ("events", "capture"), ("events", "runtime"), ("passes", "kernels"), ("pipeline", "capture"),
    ("backends", "capture"), ("capture", "runtime"),
})
"""Upward imports that only a type checker reads. This list only ever shrinks."""
OF_ONE_DEVICE = ("devices.py", "kernels/cpu/", "kernels/gpu/")
"""Where devices are named: what is known of each kind, and how kernels for it are made."""
DEVICE_QUESTIONS = {
    "export/packages/loading.py": 4,  # names in the files of packages
    "fake/meta_kernels.py": 2, "fake/rules/attention.py": 1, "fake/rules/backward.py": 3,
    "fake/rules/convolution.py": 4, "fake/rules/images.py": 4, "fake/rules/linalg.py": 2, "fake/rules/matmul.py": 1,
    "fake/rules/nn.py": 4, "fake/rules/operands.py": 2,  # rules that are known for eager's kernels on the CPU only
    "kernels/targets.py": 1,  # the table of what compiles for which
}
"""How often files ask which device something is on rather than for a trait of its kind. This list only ever shrinks."""
LARGEST_CIRCLE = 5
"""How many modules may import each other in a circle."""
LONGEST_FUNCTION = 80


@pytest.fixture(autouse=True, scope="module")
def trees() -> Iterator[None]:
    """Syntax trees are kept from one test to the next, and no longer."""
    yield
    forget()


def torch_names(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """Every name under `torch` that a file imports, at any depth, or reaches by attribute access: (line, dotted name).

    Names bound by imports anywhere in the file count everywhere in it, so a shadowed name can give a false alarm but
    nothing is missed.
    """
    bound: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for item in node.names:
                yield node.lineno, item.name
                root = item.name.partition(".")[0]
                bound[item.asname or root] = item.name if item.asname else root
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for item in node.names:
                yield node.lineno, f"{node.module}.{item.name}"
                bound[item.asname or item.name] = f"{node.module}.{item.name}"
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__"):
                yield node.lineno, str(node.args[0].value)
    for node in nodes:
        if isinstance(node, ast.Attribute):
            parts, at = [node.attr], node.value
            while isinstance(at, ast.Attribute):
                parts.append(at.attr)
                at = at.value
            if isinstance(at, ast.Name) and at.id in bound:
                yield node.lineno, ".".join([bound[at.id], *reversed(parts)])


def types_only(nodes: Sequence[ast.AST]) -> set[ast.AST]:
    """What stands under ``if TYPE_CHECKING``."""
    return {
        inner
        for node in nodes
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }


def own_imports(path: Path, root: Path) -> Iterator[tuple[str, bool]]:
    """What a file imports of firesteel, wherever in the file: the name under the package, whether for types only."""
    nodes = nodes_of(path)
    package = path.parent.relative_to(root).parts
    types = types_only(nodes)
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [item.name.split(".")[1:] for item in node.names if item.name.split(".")[0] == "firesteel"]
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".") if node.module else []
            if node.level:
                module = [*package[: len(package) - node.level + 1], *module]
            elif module[:1] == ["firesteel"]:
                module = module[1:]
            else:
                continue
            names = [module] if module else [[item.name] for item in node.names]
        else:
            continue
        for name in names:
            first = name[0] if name else "__init__"
            yield (first if first in ORDER else "__init__"), node in types


def upward_imports(root: Path) -> dict[str, list[str]]:
    """Imports of packages that stand higher: "package -> package" to the files that do so."""
    rank = {name: place for place, name in enumerate(ORDER)}
    found: dict[str, list[str]] = {}
    for path in sorted(root.rglob("*.py")):
        own = path.relative_to(root).parts[0].removesuffix(".py")
        for other, for_types in own_imports(path, root):
            if rank[other] > rank[own] and not (for_types and (own, other) in FOR_TYPES_ONLY):
                found.setdefault(f"{own} -> {other}", []).append(str(path.relative_to(root)))
    return found


def in_text(source: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(source)))


def replaced_names(nodes: Sequence[ast.AST]) -> list[str]:
    """What a file uses of what firesteel replaces, as "line: name"."""
    return [
        f"{line}: {name}"
        for line, name in torch_names(nodes)
        if any(name == banned or name.startswith(banned + ".") for banned in REPLACED)
    ]


def private_names(nodes: Sequence[ast.AST]) -> list[str]:
    """Private torch API that a file uses, as "line: name"."""
    return [
        f"{line}: {name}"
        for line, name in torch_names(nodes)
        if name.startswith("torch.")
        and any(part.startswith("_") and not part.startswith("__") for part in name.split("."))
    ]


def run_fresh(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "source",
    [
        "import torch._dynamo",
        "import torch._dynamo.config as c",
        "from torch import compile",
        "from torch import _inductor as i",
        "from torch.export import Dim",
        "from torch._functorch import partitioners",
        "import torch\ntorch.compile(f)",
        "import torch\ntorch._dynamo.reset()",
        "import torch as t\nx = t.jit.script",
        "from torch import _functorch\n_functorch.aot_autograd.aot_function",
        "import torch\ndef f():\n    return torch.compiler.is_compiling()",
        "def f():\n    import torch._inductor.ir",
        "def f():\n    import torch\n    torch._C._dynamo.guards",
        "import importlib\nimportlib.import_module('torch._dynamo')",
        "if True:\n    __import__('torch._export')",
    ],
)
def test_the_check_finds_what_is_replaced(source):
    assert replaced_names(in_text(source))


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.fx.Graph()",
        "import sys\nsys.modules.get('torch._dynamo')",
        "NAMES = {'torch.compiler.is_compiling'}",
        "import torch\ntorch.compiled_with_cxx11_abi()",
        "from firesteel import export\nexport.jit",
        "import re\nre.compile('x')",
        "def f(torch_module):\n    return torch_module._dynamo",
    ],
)
def test_the_check_leaves_the_rest_alone(source):
    assert not replaced_names(in_text(source))


def test_the_check_finds_private_names():
    assert private_names(in_text("import torch\ntorch._C._get_tracing_state()"))
    assert private_names(in_text("from torch.utils import _pytree"))
    assert not private_names(in_text("import torch\ntorch.__version__\ntorch.fx.Node"))


def test_sources_import_nothing_that_is_replaced():
    assert SOURCES
    package = ROOT / "src" / "firesteel"
    found = {path.relative_to(package).as_posix(): replaced_names(nodes_of(path)) for path in SOURCES}
    exception = found.pop(FOR_TOOLS_OF_TORCH)
    assert exception and all(name.partition(": ")[2].startswith("torch.export") for name in exception)
    assert not {path: names for path, names in found.items() if names}


def test_the_exception_is_imported_only_when_it_is_called():
    done = run_fresh("""
        import sys, torch, firesteel as fs
        program = fs.export.export(torch.nn.Linear(2, 3), (torch.ones(1, 2),))
        fs.export.load, fs.export.save, fs.export.unflatten
        print("firesteel.export.torch_programs" in sys.modules)
        fs.export.to_torch(program)
        print("firesteel.export.torch_programs" in sys.modules)
    """)
    assert done.split() == ["False", "True"]


def test_packages_import_downwards_only():
    packages = {path.name.removesuffix(".py") for path in (ROOT / "src" / "firesteel").iterdir()
                if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert packages == set(ORDER)
    assert not upward_imports(ROOT / "src" / "firesteel")


def module_imports(root: Path) -> networkx.DiGraph:
    """Which module imports which, imports that only a type checker reads left out."""
    names = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        names[parts[:-1] if parts[-1] == "__init__" else parts] = path
    graph = networkx.DiGraph()
    for name, path in names.items():
        nodes = nodes_of(path)
        types = types_only(nodes)
        package = path.parent.relative_to(root).parts
        for node in nodes:
            if not isinstance(node, ast.ImportFrom) or node in types:
                continue
            module = tuple(node.module.split(".")) if node.module else ()
            if node.level:
                module = (*package[: len(package) - node.level + 1], *module)
            elif module[:1] == ("firesteel",):
                module = module[1:]
            else:
                continue
            for item in node.names:
                target = (*module, item.name) if (*module, item.name) in names else module
                if target in names and target != name:
                    graph.add_edge(name, target)
    return graph


def test_circles_of_modules_are_small():
    circles = networkx.strongly_connected_components(module_imports(ROOT / "src" / "firesteel"))
    assert not [sorted(circle) for circle in circles if len(circle) > LARGEST_CIRCLE]


def long_functions(root: Path) -> dict[str, int]:
    """Functions of more lines than are seen at once, by file and name."""
    return {
        f"{path.relative_to(root)}: {node.name}": node.end_lineno - node.lineno + 1
        for path in sorted(root.rglob("*.py"))
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno >= LONGEST_FUNCTION
    }


def test_functions_are_short(tmp_path):
    assert not long_functions(ROOT / "src" / "firesteel")
    (tmp_path / "long.py").write_text("def f():\n" + "    x = 1\n" * LONGEST_FUNCTION)
    (tmp_path / "short.py").write_text("def f():\n" + "    x = 1\n" * (LONGEST_FUNCTION - 1))
    assert long_functions(tmp_path) == {"long.py: f": LONGEST_FUNCTION + 1}


def device_questions(nodes: Sequence[ast.AST]) -> list[str]:
    """Lines that name CUDA, ask whether a tensor is on a certain device, or compare one with the CPU."""
    documentation = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    lines = []
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            asks = re.fullmatch(r"cuda(:\d+)?", node.value) is not None
        elif isinstance(node, ast.Attribute):
            asks = node.attr in ("is_cuda", "is_cpu") or node.attr == "name" and getattr(node.value, "id", "") == "CUDA"
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            asks = any(isinstance(side, ast.Name) and side.id in ("CPU", "_CPU") or ast.unparse(side) == "CPU.name"
                       or isinstance(side, ast.Constant) and side.value == "cpu" for side in sides)
        else:
            asks = False
        if asks:
            lines.append(f"line {node.lineno}: {ast.unparse(node)}")
    return lines


def test_devices_are_asked_for_traits():
    package = ROOT / "src" / "firesteel"
    files = {path.relative_to(package).as_posix(): path for path in SOURCES}
    counts = {name: lines for name, path in files.items() if not name.startswith(OF_ONE_DEVICE)
              if (lines := device_questions(nodes_of(path)))}
    assert not {name: lines for name, lines in counts.items() if len(lines) > DEVICE_QUESTIONS.get(name, 0)}
    assert not {name: count for name, count in DEVICE_QUESTIONS.items() if len(counts.get(name, ())) < count}


@pytest.mark.parametrize("source", [
    "x.device.type == 'cuda'", "torch.autocast('cuda')", "device != 'cpu'", "x.is_cuda", "own == CPU",
    "device.type == CUDA.name",
])  # fmt: skip
def test_questions_about_devices_are_found(source):
    assert device_questions(in_text(source))
    without = "kind_of(x).is_host and x.device.type == y.device.type\n'cuda'\ntorch.device('cpu')"
    assert not device_questions(in_text(without))


def test_locals_are_named_for_what_they_are():
    """In these packages; in those behind them some are still called so."""
    packages = ("native", "torch_compat", "shapes", "fake", "functional", "autodiff", "passes", "kernels", "pipeline",
                "backends", "capture", "runtime", "control_flow")
    files = [path for name in packages for path in (ROOT / "src" / "firesteel" / name).rglob("*.py")]
    fields = {id(line.target) for path in files for node in nodes_of(path) if isinstance(node, ast.ClassDef)
              for line in node.body if isinstance(line, ast.AnnAssign)}
    unnamed = [f"{path.relative_to(ROOT)}:{node.lineno}"
               for path in files for node in nodes_of(path)
               if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in ("found", "made")
               and id(node) not in fields]
    assert files and not unnamed


def test_the_guide_lists_packages_in_their_order():
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("| in `src/firesteel/` |")[2].partition("\n\n")[0]
    cells = "".join(line.split("|")[1] for line in table.splitlines()[2:])
    assert tuple(re.findall(r"`(\w+)(?:/|\.py)`", cells)) == ORDER


def test_upward_imports_are_found(tmp_path):
    (tmp_path / "shapes").mkdir()
    (tmp_path / "kernels" / "cpu").mkdir(parents=True)
    (tmp_path / "shapes" / "fine.py").write_text("from .. import config\nfrom ..errors import A\nfrom . import expr\n")
    (tmp_path / "kernels" / "cpu" / "fine.py").write_text("from ...shapes import B\nfrom .. import ir\nimport torch\n")
    assert not upward_imports(tmp_path)
    (tmp_path / "shapes" / "one.py").write_text("def f():\n    from ..kernels.cpu import x\n")
    (tmp_path / "shapes" / "two.py").write_text("from firesteel import compile, runtime\nimport firesteel.cli\n")
    (tmp_path / "kernels" / "cpu" / "three.py").write_text("try:\n    from ... import backends\nexcept E:\n    pass\n")
    (tmp_path / "shapes" / "four.py").write_text("if TYPE_CHECKING:\n    from ..export import x\n")
    assert upward_imports(tmp_path) == {
        "shapes -> kernels": ["shapes/one.py"], "shapes -> __init__": ["shapes/two.py"],
        "shapes -> runtime": ["shapes/two.py"], "shapes -> cli": ["shapes/two.py"],
        "kernels -> backends": ["kernels/cpu/three.py"], "shapes -> export": ["shapes/four.py"]}


def imports_of(package: str, source: str) -> list[str]:
    """Lines that import from a package, wherever in the file."""
    if package not in source:
        return []
    return [f"line {line}: {name}" for line, name in torch_names(in_text(source)) if name.split(".")[0] == package]


def test_tests_import_nothing_from_the_benchmarks():
    """What both need lives with the tests, and benchmarks import it from there."""
    planted = "def f():\n    from benchmarks.fuzz import main\n"
    assert imports_of("benchmarks", planted) == ["line 2: benchmarks.fuzz.main"]
    found = {str(path.relative_to(ROOT)): lines for path in sorted((ROOT / "tests").rglob("*.py"))
             if (lines := imports_of("benchmarks", path.read_text()))}
    assert not found


def test_private_torch_api_is_touched_in_one_package():
    package = ROOT / "src" / "firesteel" / "torch_compat"
    assert (package / "__init__.py").exists()
    programs = ROOT / "src" / "firesteel" / "export" / "examples"  # as users write them, with torch._check
    found = {
        str(path.relative_to(ROOT)): [
            name
            for name in private_names(nodes_of(path))
            if not (path.is_relative_to(programs) and name.endswith(": torch._check"))
        ]
        for path in SOURCES
        if not path.is_relative_to(package)
    }
    assert not {path: names for path, names in found.items() if names}


def test_compiling_loads_nothing_that_is_replaced():
    loaded = run_fresh(
        f"""
        import sys

        import torch
        from torch import nn

        import firesteel as fs


        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

            def forward(self, x):
                return nn.functional.gelu(self.norm(self.linear(x)))


        model = Block()
        x = torch.randn(4, 8)
        before = [name for name in {NEVER_LOADED!r} if name in sys.modules]
        assert not before, f"torch itself loads {{before}}: the check says nothing"
        out = fs.compile(model, backend="eager")(x)
        out.sum().backward()
        assert model.linear.weight.grad is not None
        torch.testing.assert_close(out, model(x))
        print(*[name for name in {NEVER_LOADED!r} if name in sys.modules])
        """
    )
    assert loaded.split() == []


def test_training_a_convolution_loads_none_of_torch_that_it_does_not_need():
    """Places of the largest elements are kept for the backward in fewer bytes."""
    loaded = run_fresh(
        """
        import sys

        import torch
        from torch import nn

        import firesteel as fs

        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 9, 5))
        fs.compile(model, tier="wait")(torch.randn(2, 3, 8, 8)).sum().backward()
        assert model[0].weight.grad is not None
        print(*[name for name in ("sympy", "torch.distributed.tensor") if name in sys.modules])
        """
    )
    assert loaded.split() == []


def test_importing_is_cheap():
    code = """
        import time

        began = time.process_time()
        import torch

        torch_there = time.process_time()
        import firesteel

        print((time.process_time() - torch_there) / (torch_there - began))
        """
    best = min(float(run_fresh(code)) for _ in range(3))
    assert best <= IMPORT_COST, f"import firesteel takes {best:.1%} of the time that import torch takes"
