"""Where symbols and guards come from: errors, broken promises, the log of shapes and explained guards."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from firesteel import config, set_logs, shapes
from firesteel.errors import UserFrame
from firesteel.shapes import Provenance, ShapeEnv, eq, ne
from firesteel.shapes.advice import asked_in


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text("def forward(x, y):\n    a = y.item()\n    if a // 2 >= 5:\n        return x + y\n")
    return path


def at(program: Path, line: int, op: str = "") -> Provenance:
    return Provenance((UserFrame("train.py", 9, "main"), UserFrame(str(program), line, "forward")), "", op)


# Questions that data decides


def test_an_undecidable_question_says_what_would_decide_it(program: Path) -> None:
    env = ShapeEnv()
    u0 = env.new_symbol(None, "y.item()", provenance=at(program, 2))
    with pytest.raises(shapes.UndecidableError) as caught:
        env.evaluate(u0 // 2 >= 5, at(program, 3))
    first, _, rest = str(caught.value).partition(": ")
    assert first == "could not decide `u0 >= 10` (`a >= 10`), which depends on data"
    assert rest == textwrap.dedent(f"""\
        it is known when the program runs, not while it is captured
          u0 is y.item() (`a`), from {program}:2 in forward: a = y.item()
          asked at {program}:3 in forward: if a // 2 >= 5:
          if one answer always holds, state it before that line, with one of
            torch._check(a >= 10)
            torch._check(a <= 9)""")
    assert caught.value.suggestions == ["torch._check(a >= 10)", "torch._check(a <= 9)"]
    assert caught.value.expr is (u0 >= 10)
    assert [info.symbol for info in caught.value.symbols] == [u0]


@pytest.mark.parametrize("truth", [0, 1])
def test_either_suggestion_decides(program: Path, truth: int) -> None:
    env = ShapeEnv()
    u0 = env.new_symbol(None, "y.item()", provenance=at(program, 2))
    s0 = env.new_symbol(7, "x.size(0)", lower=2)
    question = shapes.and_(ne(u0, 3), u0 < s0 * 2)
    with pytest.raises(shapes.UndecidableError) as caught:
        env.evaluate(question)
    suggestion = caught.value.suggestions[truth]
    text = suggestion.removeprefix("torch._check(").removesuffix(")").replace("x.size(0)", "n")
    assert env.check(shapes.parse(text, {"a": u0, "n": s0}))
    assert env.evaluate(question) is (truth == 0)


def test_a_number_that_is_needed_itself(program: Path) -> None:
    env = ShapeEnv()
    u0 = env.new_symbol(None, "y.item()", lower=0)
    u1 = env.new_symbol(None, "z.item()", lower=0)
    with pytest.raises(shapes.UndecidableError) as caught:
        env.evaluate(u0 * u1 + 1)
    text = str(caught.value)
    assert "the value of `u0*u1 + 1` (`y.item()*z.item() + 1`)" in text
    assert "u0 is y.item()\n  u1 is z.item()\n" in text
    assert caught.value.suggestions[0].startswith("torch._check(y.item()*z.item() + 1 == ...)")


# Promises


def test_specialised_symbols_name_the_guard(program: Path) -> None:
    env = ShapeEnv()
    s0, s1, s2, s3 = [env.new_symbol(n, f"x.size({i})", lower=2) for i, n in enumerate((5, 5, 7, 35))]
    assert env.specialised() == []
    env.evaluate(eq(s0, s1), at(program, 2))
    assert env.specialised() == []
    env.evaluate(s0, at(program, 3, "aten.view"))
    found = {info.symbol: (value, str(guard.expr)) for info, value, guard in env.specialised()}
    assert found == {s0: (5, "s0 == 5"), s1: (5, "s0 == s1")}
    env.evaluate(eq(s3, 5 * s2), at(program, 4))
    assert {info.symbol for info, _, _ in env.specialised()} == {s0, s1}


def test_a_symbol_that_bounds_make_constant_is_specialised() -> None:
    env = ShapeEnv()
    s0 = env.new_symbol(2, "x.size(0)", lower=2)
    env.evaluate(s0 < 3)
    assert [(info.symbol, value, str(guard.expr)) for info, value, guard in env.specialised()] == [(s0, 2, "s0 <= 2")]


def test_promised_ranges_that_guards_cut(program: Path) -> None:
    env = ShapeEnv()
    s0 = env.new_symbol(8, "x.size(0)", lower=2, upper=64)
    s1 = env.new_symbol(8, "x.size(1)", lower=2)
    s2 = env.new_symbol(8, "x.size(2)", lower=4)
    env.evaluate(s1 <= 10)
    env.evaluate(s1 > 3)
    env.evaluate(s0 + s1 <= 70)
    assert env.narrowed() == []
    env.evaluate(s0 <= 10, at(program, 3))
    env.evaluate(s2 > 5, at(program, 4))
    env.evaluate(s2 < 100)
    assert [(info.symbol, str(guard.expr)) for info, guard in env.narrowed()] == [(s0, "s0 <= 10"), (s2, "s2 >= 6")]
    assert env.narrowed()[0][1].provenance.frames[-1].lineno == 3


# Cost


def test_provenance_is_computed_only_for_guards() -> None:
    asked = []

    def where() -> Provenance:
        asked.append(1)
        return Provenance(op="aten.add")

    env = ShapeEnv()
    s0 = env.new_symbol(5, "x.size(0)", lower=2)
    env.current_provenance = where
    assert env.evaluate(s0 >= 1) is True and env.evaluate(eq(s0, 0)) is False
    assert not asked
    env.evaluate(s0 > 3)
    env.evaluate(s0 > 3)
    assert len(asked) == 1


# Logs


@pytest.fixture
def shape_logs():
    set_logs("shapes")
    yield
    set_logs()


def test_the_log_shows_symbols_guards_and_specialisations(program: Path, shape_logs, capsys) -> None:
    env = ShapeEnv()
    s0 = env.new_symbol(8, "x.size(0)", lower=2, provenance=at(program, 1))
    s1 = env.new_symbol(8, "y.size(0)", lower=2, upper=64)
    u0 = env.new_symbol(None, "y.item()", provenance=at(program, 2))
    env.evaluate(eq(s0, s1), at(program, 4, "aten.add"))
    env.evaluate(s0 >= 2)
    env.check(u0 <= s0, at(program, 3))
    env.evaluate(s0, at(program, 4))
    assert capsys.readouterr().err == textwrap.dedent(f"""\
        [shapes] s0 = x.size(0): 8 in this run, at least 2; {program}:1 in forward: def forward(x, y):
        [shapes] s1 = y.size(0): 8 in this run, from 2 to 64
        [shapes] u0 = y.item(): unknown until the program runs; {program}:2 in forward: a = y.item()
        [shapes] guard s0 == s1, that is x.size(0) == y.size(0); {program}:4 in forward, in aten.add: return x + y
        [shapes] s1 (y.size(0)) is replaced by s0: guard s0 == s1
        [shapes] check u0 <= s0, that is y.item() <= x.size(0); {program}:3 in forward: if a // 2 >= 5:
        [shapes] guard s0 == 8, that is x.size(0) == 8; {program}:4 in forward: return x + y
        [shapes] s0 (x.size(0)) is always 8: guard s0 == 8
        """).replace("check u0 <= s0", "check s0 >= u0").replace("y.item() <= x.size(0)", "x.size(0) >= y.item()")


def test_nothing_is_logged_unless_asked(program: Path, capsys) -> None:
    env = ShapeEnv()
    s0 = env.new_symbol(8, "x.size(0)", lower=2)
    env.evaluate(s0 > 3, at(program, 4))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "text", ["s2 == s4", "s4==s2", "s2-s4 == 0", "z.size(0) == w.size(0)", "w.size(0)==z.size(0)"]
)
def test_an_explained_guard_shows_both_stacks(program: Path, text: str, capsys) -> None:
    env = ShapeEnv()
    names = ("x.size(0)", "y.size(0)", "z.size(0)", "v.size(0)", "w.size(0)")
    symbols = [env.new_symbol(8, name, lower=2) for name in names]
    with config.patch(explain_guard=text):
        env.evaluate(eq(symbols[0], symbols[1]), at(program, 2))
        assert capsys.readouterr().err == ""
        env.evaluate(eq(symbols[2], symbols[4]), at(program, 4, "aten.add"))
        shown = capsys.readouterr().err
        assert env.guards and capsys.readouterr().err == ""  # once is enough
    assert shown.startswith("guard s2 == s4, that is w.size(0) == z.size(0)\nasked by aten.add\n") or shown.startswith(
        "guard s2 == s4, that is z.size(0) == w.size(0)\nasked by aten.add\n"
    )
    assert f'File "{program}", line 4, in forward\n    return x + y' in shown and 'File "train.py", line 9' in shown
    internal = shown.partition("firesteel's stack")[2]
    assert "test_an_explained_guard_shows_both_stacks" in internal and "in evaluate" in internal
    assert "shape_log" not in internal


def test_a_guard_is_explained_in_the_form_it_is_checked_in(capsys) -> None:
    env = ShapeEnv()
    s0, s1, s2 = [env.new_symbol(8, f"x.size({i})", lower=2) for i in range(3)]
    with config.patch(explain_guard="s0 <= s2 + 3"):
        env.evaluate(s1 <= s2 + 3)
        env.evaluate(eq(s0, s1))
        assert capsys.readouterr().err == ""
        assert [str(guard.expr) for guard in env.guards] == ["s0 <= s2 + 3", "s0 == s1"]
        assert "guard s0 <= s2 + 3" in capsys.readouterr().err


def test_shapes_and_their_logs_need_no_torch() -> None:
    code = """
        import sys
        from firesteel import shapes
        env = shapes.ShapeEnv()
        env.evaluate(env.new_symbol(5, "n", lower=2) > 3)
        sys.exit("torch" in sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env={"FIRESTEEL_LOGS": "shapes", "PYTHONPATH": str(Path(shapes.__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr
    assert "[shapes] guard s0 >= 4, that is n >= 4" in done.stderr


# Advice


@pytest.mark.parametrize("line, expected", [
    ("if m.shape[0] > 2: return m", ("m.shape[0] > 2", "m.shape[0] <= 2")),
    ("elif len(m) == k:", ("len(m) == k", "len(m) != k")),
    ("return a if n < x.size(0) else b", ("n < x.size(0)", "n >= x.size(0)")),
    ("assert m.numel() != 0", ("m.numel() != 0", "m.numel() == 0")),
    ("if x.max().item() > 3:", None),  # another item() would be another number
    ("if 2 < n < 5:", None),
    ("if flag:", None),
    ("y = f(m)", None),
    ("if (m.shape[0] >", None),
])
def test_conditions_are_stated_in_the_words_of_the_line(line, expected):
    assert asked_in(line) == expected
