"""Child processes of minify and bisect: nothing of them stays, however the command ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from firesteel.repair.children import Limits, in_child, run_python

START = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid"

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def is_gone(pid: int) -> bool:
    end = time.monotonic() + 20
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_alive(pid)


@pytest.mark.parametrize("ends", [True, False])
def test_what_a_child_has_started_ends_with_it(ends):
    def work(report):
        report(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid)
        time.sleep(0 if ends else 600)

    ended = in_child(work, Limits(60.0 if ends else 1.0))
    assert (ended.done, ended.hangs) == (ends, not ends) and is_gone(ended.reports[0])


def test_what_others_take_of_the_processor_is_not_counted():
    processor = min(os.sched_getaffinity(0))

    def busy(report):
        os.sched_setaffinity(0, {processor})
        other = subprocess.Popen([sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{processor}}})\n"
                                                        "while True: pass"])
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            pass
        other.kill()

    assert in_child(busy, Limits(60.0)).seconds < 0.85


def test_a_child_that_says_nothing_hangs():
    def work(report):
        for number in range(4):
            report(number)
            time.sleep(0.3)
        time.sleep(600)

    ended = in_child(work, Limits(60.0, quiet=lambda last: 1.5 if last == 3 else 60.0))
    assert ended.hangs and ended.reports == [0, 1, 2, 3] and 2.0 < ended.seconds < 30.0
    assert in_child(work, Limits(60.0, left=0.5)).hangs


def test_what_python_has_started_ends_with_it(tmp_path):
    text = f"import subprocess, sys, time; open('pid', 'w').write(str({START})); {{}}"
    status, written = run_python(["-c", text.format("1 / 0")], 60.0, str(tmp_path))
    assert status == 1 and "ZeroDivisionError" in written and is_gone(int((tmp_path / "pid").read_text()))
    assert run_python(["-c", text.format("time.sleep(600)")], 1.0, str(tmp_path)) == (None, "")
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_python_looks_for_modules_where_this_process_does(tmp_path, monkeypatch):
    for name in ("here", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "here" / "module_beside.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "here")
    assert run_python(["-c", "import module_beside"], 60.0, str(tmp_path / "elsewhere")) == (0, "")


@pytest.mark.parametrize("how, apart", [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGKILL, False),
                                        (signal.SIGINT, True)])
def test_a_command_that_is_stopped_leaves_nothing(tmp_path, how, apart):
    """``apart``: its children are those of a new process."""
    (tmp_path / "script.py").write_text("import os, time\nopen('child', 'w').write(str(os.getpid()))\n"
                                        "os.rename('child', 'pid')\ntime.sleep(600)\n")
    command = textwrap.dedent("""
        import os, signal, sys
        from firesteel.repair import apart
        if os.environ.get("APART"):
            apart.forks_lack_nothing = lambda: False
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from firesteel.cli import main
        sys.exit(main(["minify", "script.py"]))
    """)
    process = subprocess.Popen([sys.executable, "-c", command], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "APART": "yes" if apart else ""})
    end = time.monotonic() + 60
    while not (tmp_path / "pid").exists() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    pid = int((tmp_path / "pid").read_text())
    assert pid != process.pid and is_alive(pid)
    process.send_signal(how)
    written = process.communicate(timeout=60)[1]
    assert is_gone(pid)
    if how != signal.SIGKILL:
        assert process.returncode == 130 and written.splitlines()[-1] == "firesteel: stopped" \
            and "Traceback" not in written
    assert os.listdir(tmp_path) and not (tmp_path / "script.min.py").exists()
