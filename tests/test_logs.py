"""debug/logs: silent by default, one marked line per line when switched on, clear errors for unknown names."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from firesteel import logs
from firesteel.logs import ARTIFACTS, detailed, enabled, log, set_logs


def run_with(setting: str | None, code: str) -> subprocess.CompletedProcess[str]:
    """Run code after loading logs.py alone as `logs` in a fresh process, with or without FIRESTEEL_LOGS."""
    environment = {name: value for name, value in os.environ.items() if name != "FIRESTEEL_LOGS"}
    if setting is not None:
        environment["FIRESTEEL_LOGS"] = setting
    package = Path(logs.__file__).parent
    environment["PYTHONPATH"] = os.pathsep.join([str(package), str(package.parent)])
    return subprocess.run(
        [sys.executable, "-c", f"import logs\n{code}"], env=environment, capture_output=True, text=True
    )


def test_silent_when_nothing_is_set(capsys):
    for name in ARTIFACTS:
        assert not enabled(name)
        log(name, "must not appear")
    assert capsys.readouterr() == ("", "")


def test_every_line_is_marked_with_its_subject(capsys):
    set_logs("graphs")
    log("graphs", "graph %d of %s:\n  return x", 1, "f")
    log("guards", "off, and %d arguments do not fit %d")
    assert capsys.readouterr() == ("", "[graphs] graph 1 of f:\n[graphs]   return x\n")


@pytest.mark.parametrize(
    "arguments, flags",
    [
        (("guards,shapes",), {}),
        ((" guards , shapes ",), {}),
        ((["guards", "shapes"],), {}),
        ((), {"guards": True, "shapes": True, "graphs": False}),
        (("guards",), {"shapes": True}),
    ],
)
def test_ways_to_switch_on(arguments, flags):
    set_logs("kernels")
    set_logs(*arguments, **flags)
    assert [name for name in ARTIFACTS if enabled(name)] == ["guards", "shapes"]
    set_logs()
    assert not any(map(enabled, ARTIFACTS))


def test_switching_twice_writes_once(capsys):
    set_logs("guards")
    set_logs("guards")
    log("guards", "x")
    assert capsys.readouterr().err == "[guards] x\n"


def test_switching_off_silences_the_logger_itself(capsys):
    set_logs("guards")
    set_logs()
    logs.logger("guards").info("x")
    assert capsys.readouterr().err == ""


def test_a_program_that_logs_everything_does_not_switch_us_on(caplog):
    caplog.set_level(logging.DEBUG)  # the level of the root logger
    log("guards", "must not appear")
    assert not caplog.records


def test_root_handlers_do_not_repeat_lines(capsys):
    root, handler = logging.getLogger(), logging.StreamHandler(sys.stderr)
    root.addHandler(handler)
    try:
        set_logs("guards")
        log("guards", "once")
    finally:
        root.removeHandler(handler)
    assert capsys.readouterr().err == "[guards] once\n"


def test_the_loggers_are_standard_ones():
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler, target = Keep(), logging.getLogger("firesteel.recompiles")
    assert logs.logger("recompiles") is target
    target.addHandler(handler)
    try:
        set_logs(recompiles=True)
        log("recompiles", "why: %s", "x")
    finally:
        target.removeHandler(handler)
    assert [record.getMessage() for record in records] == ["why: x"]


def test_unknown_names_list_the_known_ones():
    set_logs("guards")
    for attempt in (lambda: set_logs("gards"), lambda: set_logs(gards=True), lambda: logs.logger("gards")):
        with pytest.raises(ValueError, match="did you mean 'guards'.*graph_breaks, recompiles, guards, graphs"):
            attempt()
    assert enabled("guards")  # a mistake changes nothing


def test_the_environment_variable():
    code = "print([n for n in logs.ARTIFACTS if logs.enabled(n)]); logs.log('guards', 'hello')"
    done = run_with("guards,graphs", code)
    assert (done.stdout, done.stderr) == ("['guards', 'graphs']\n", "[guards] hello\n")
    done = run_with(None, code)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_wrong_environment_variable_is_one_warning_and_the_rest_of_it_counts():
    done = run_with("gards, graphs,nonsense", "print([n for n in logs.ARTIFACTS if logs.enabled(n)])")
    assert done.stdout == "['graphs']\n" and "Traceback" not in done.stderr
    assert "there is no log named 'nonsense'" in done.stderr
    assert "FIRESTEEL_LOGS='gards, graphs,nonsense': there is no log named 'gards'; did you mean 'guards'?" \
        in done.stderr


def test_all_of_them_and_all_but_some():
    set_logs("all")
    assert all(map(enabled, ARTIFACTS)) and not any(map(detailed, ARTIFACTS))
    set_logs("all,-kernels,+guards")
    assert [name for name in ARTIFACTS if not enabled(name)] == ["kernels"]
    assert [name for name in ARTIFACTS if detailed(name)] == ["guards"]
    set_logs()


@pytest.mark.parametrize("arguments, flags", [(("+guards,graphs",), {}), ((), {"guards": logging.DEBUG, "graphs": 20})])
def test_levels(capsys, arguments, flags):
    set_logs(*arguments, **flags)
    assert logs.logger("guards").level == logging.DEBUG and logs.logger("graphs").level == logging.INFO
    for name in ("guards", "graphs", "shapes"):
        logs.detail(name, "more of %s", name)
    assert capsys.readouterr().err == "[guards] more of guards\n"
    set_logs()


def test_help_names_every_subject():
    done = run_with("help", "print('went on')")
    assert done.stdout == "went on\n"
    for name, about in (*ARTIFACTS.items(), *logs.MORE.items()):
        assert name in done.stderr and about in done.stderr
