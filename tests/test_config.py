"""config: types, aliases, environment variables, and patch in every way it can be used."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import firesteel.config
from firesteel import config

SOURCE = Path(config.__file__)


def run_with(**environment: str) -> subprocess.CompletedProcess[str]:
    """Load config.py alone in a fresh process and print what the environment made of it."""
    code = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('settings', {str(SOURCE)!r})\n"
        "module = sys.modules['settings'] = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "print(module.recompile_limit, module.verbose, module.suppress_errors, module.default_backend)\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True
    )


def test_both_imports_give_the_same_object():
    assert firesteel.config is config is importlib.import_module("firesteel.config")


def test_every_setting_has_a_type_and_a_description():
    body = ast.parse(SOURCE.read_text()).body
    public = [
        (node.target.id, after)
        for node, after in zip(body, body[1:])
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_"
    ]
    assert {name for name, _ in public} == {*config._TYPES, *config._ALIASES}
    for name, after in public:
        assert isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant), f"{name} is not documented"


def test_assignment_is_seen_and_checked():
    with config.patch():
        before = config.inline_depth_limit
        try:
            config.inline_depth_limit = 7
            assert config.inline_depth_limit == 7
        finally:
            config.inline_depth_limit = before
    with pytest.raises(TypeError, match="recompile_limit is of type int, got True"):
        config.recompile_limit = True
    with pytest.raises(TypeError, match="verbose is of type bool, got 1"):
        config.verbose = 1
    with pytest.raises(TypeError, match="suppress_errors is of type bool, got 'no'"):
        config.suppress_errors = "no"


def test_unknown_names_suggest_the_right_one():
    with pytest.raises(AttributeError, match="did you mean 'recompile_limit'"):
        config.recompile_limits  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean 'verbose'"):
        config.verbos = True
    with pytest.raises(AttributeError, match="did you mean 'print_replay'"):
        config.patch(print_reply=False)
    with pytest.raises(AttributeError, match="the settings are accumulated_recompile_limit, "):
        config.patch({"zzzz": 1})


def test_a_bad_name_in_a_patch_changes_nothing():
    before = config.recompile_limit
    with pytest.raises(AttributeError):
        with config.patch({"recompile_limit": 3, "nonsense": 1}):
            pass
    assert config.recompile_limit == before


def test_aliases_read_and_write_the_setting_behind_them():
    with config.patch(cache_size_limit=3):
        assert config.recompile_limit == 3
        config.cache_size_limit = 4
        assert config.recompile_limit == config.cache_size_limit == 4
    assert config.recompile_limit == config.cache_size_limit == 8
    with config.patch(suppress_errors=False):
        assert config.raise_on_internal_error
        with config.patch(raise_on_internal_error=False):
            assert config.suppress_errors
    assert {"cache_size_limit", "suppress_errors", "recompile_limit"} <= set(dir(config))


def test_patch_nests_and_restores_after_exceptions():
    with pytest.raises(KeyError):
        with config.patch(recompile_limit=1, verbose=True):
            with config.patch({"recompile_limit": 2}):
                assert (config.recompile_limit, config.verbose) == (2, True)
            assert config.recompile_limit == 1
            config.recompile_limit = 99  # assigned inside: undone with the rest
            raise KeyError
    assert (config.recompile_limit, config.verbose) == (8, False)


def test_one_patch_object_can_be_entered_inside_itself():
    change = config.patch(recompile_limit=5)
    with change:
        with change:
            assert config.recompile_limit == 5
        assert config.recompile_limit == 5
    assert config.recompile_limit == 8


def test_patch_decorates_recursive_functions():
    @config.patch(recompile_limit=3)
    def depth(n: int) -> list[int]:
        """Documented."""
        inner = depth(n - 1) if n else []
        return [config.recompile_limit, *inner]

    assert depth(2) == [3, 3, 3]
    assert config.recompile_limit == 8
    assert (depth.__name__, depth.__doc__) == ("depth", "Documented.")


def test_threads_may_end_their_patches_in_any_order():
    entered, leave = threading.Event(), threading.Event()

    def first() -> None:
        with config.patch(recompile_limit=3):
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    assert entered.wait(10)
    with config.patch(recompile_limit=4):
        leave.set()
        thread.join()
        assert config.recompile_limit == 4  # ours is the newer one
    assert config.recompile_limit == 8


def test_calls_of_a_decorated_function_end_on_their_own():
    @config.patch(recompile_limit=3)
    def hold(entered: threading.Event, leave: threading.Event) -> None:
        entered.set()
        leave.wait(10)

    def start() -> tuple[threading.Thread, threading.Event]:
        entered, leave = threading.Event(), threading.Event()
        thread = threading.Thread(target=hold, args=(entered, leave))
        thread.start()
        assert entered.wait(10)
        return thread, leave

    first, leave_first = start()
    with config.patch(recompile_limit=4):
        second, leave_second = start()
        leave_first.set()
        first.join()
        assert config.recompile_limit == 3  # the second call, begun last, still holds
        leave_second.set()
        second.join()
        assert config.recompile_limit == 4
    assert config.recompile_limit == 8


def test_many_threads_leave_nothing_behind():
    def work(value: int) -> None:
        for _ in range(200):
            with config.patch(recompile_limit=value, verbose=bool(value % 2)):
                pass

    threads = [threading.Thread(target=work, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (config.recompile_limit, config.verbose) == (8, False)


def test_environment_variables_give_starting_values():
    done = run_with(FIRESTEEL_RECOMPILE_LIMIT="16", FIRESTEEL_VERBOSE="yes", FIRESTEEL_SUPPRESS_ERRORS="0")
    assert done.stdout.split() == ["16", "True", "False", "native"], done.stderr
    done = run_with(FIRESTEEL_CACHE_SIZE_LIMIT="5", FIRESTEEL_DEFAULT_BACKEND="mine", FIRESTEEL_LOGS="ignored here")
    assert done.stdout.split() == ["5", "False", "True", "mine"], done.stderr


@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("FIRESTEEL_RECOMPILE_LIMIT", "many", "must be of type int"),
        ("FIRESTEEL_VERBOSE", "2", "must be one of 1, true"),
    ],
)
def test_a_bad_environment_variable_is_named_and_ignored(name, value, expected):
    done = run_with(**{name: value})
    assert done.stdout.split() == ["8", "False", "True", "native"], done.stderr
    assert f"{name}='{value}' {expected}" in done.stderr and done.stderr.count("FiresteelWarning") == 1
    assert "Traceback" not in done.stderr


def test_unknown_variables_are_named_once():
    done = run_with(FIRESTEEL_RECOMPILE_LIMT="16", FIRESTEEL_ZZZZ="1", FIRESTEEL_LOGS="recompiles")
    assert done.returncode == 0
    assert done.stderr.count("FiresteelWarning") == 1
    assert "FIRESTEEL_RECOMPILE_LIMT (did you mean FIRESTEEL_RECOMPILE_LIMIT?), FIRESTEEL_ZZZZ;" in done.stderr
