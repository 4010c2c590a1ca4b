"""Functions that several threads call at once: with locks, meetings and queues inside, writing to containers that they
share and taking from them, with tensors of sizes that differ. What is compared does not depend on which thread comes
first.
"""

from __future__ import annotations

import re

from ..program import Program
from ..values import Dice

SAMPLE = 6
STATEMENTS = (
    "with LOCK:\n    COUNT[0] += 1",
    "with LOCK:\n    y = y * 2\n    TOTAL.append(int(y.shape[0]))",
    "LOCK.acquire()\ntry:\n    COUNT[0] += 2\nfinally:\n    LOCK.release()",
    "with AGAIN:\n    with AGAIN:\n        COUNT[1] += 1",
    "with FEW:\n    y = y + 1",
    "MEETING.wait()",
    "y = y + k\nMEETING.wait()\ny = y * 2",
    "TABLE[k, i] = i",
    "TABLE[str(k) + str(i)] = y.sum()",
    "TABLE.pop((k, i), None)",
    "TABLE.setdefault('all', []).append(k)",
    "y = y + 1\nTABLE.setdefault(i, []).append(k)\ny = y * 2",
    "MORE[{n}].append(k)",
    "LAST.append(TASKS.pop())",
    "y = y + 1\nTOTAL.append(WAITING.popleft())\ny = y * 2",
    "LAST.append(OPEN.popitem()[0])",
    "NAMES.add((k, i))",
    "NAMES.add(k * 100 + i)",
    "TOTAL.append(k * 10 + i)",
    "LAST.append(k)",
    "QUEUE.put(k)\nQUEUE.get(timeout=20)",
    "LOCAL.number = k\ny = y + LOCAL.number",
    "LOCAL.number = getattr(LOCAL, 'number', 0) + 1",
    "DONE.set()\nDONE.wait(20)",
    "if y.sum() > {n}:\n    y = y - 1",
    "y = y * y.sum().item()",
    "y = torch.cat([y, y])",
    "y = y[: {n} + k]",
    "SHARED.number = {n}\ny = y + SHARED.number",
    "setattr(SHARED, 'a' + str(k), i)",
    "time.sleep(0)",
    "threading.current_thread().name",
    "y = inner(y, k)",
)

HEAD = """import collections
import queue
import threading
import time

import torch

LOCK, AGAIN, FEW, DONE = threading.Lock(), threading.RLock(), threading.Semaphore(2), threading.Event()
LOCAL, QUEUE = threading.local(), queue.Queue()
MEETING = threading.Barrier({threads}, timeout=20)
COUNT, TOTAL, LAST, TABLE, NAMES = [0, 0], [], [], {{}}, set()
TASKS, WAITING, OPEN, MORE = [], collections.deque(), {{}}, collections.defaultdict(list)


class SHARED:
    pass


def inner(y, k):
    {inner}
    return y


def fn(x, k, i):
    y = x + 1
"""

TAIL = """    return y


def use(fn, args, kwargs):
    threads, calls = args
    found, errors = {}, []
    COUNT[:] = [0, 0]
    for held in (TOTAL, LAST, TABLE, NAMES, TASKS, WAITING, OPEN, MORE):
        held.clear()
    TASKS.extend(range(200))
    WAITING.extend(range(200))
    OPEN.update(zip(range(200), range(200)))

    def work(k):
        try:
            for i in range(calls):
                found[k, i] = fn(torch.arange(2.0 + (k + i) %% 3), k, i)
        except BaseException as error:
            errors.append(type(error).__name__)
            MEETING.abort()

    workers = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    table = sorted((str(key), str(sorted(value) if isinstance(value, list) else value)) for key, value in TABLE.items())
    seen = [found[key] for key in sorted(found)], errors, any(worker.is_alive() for worker in workers), list(COUNT), \\
        sorted(TOTAL), sorted(LAST), table, sorted(map(str, NAMES)), vars(SHARED).get("number"), \\
        sorted((key, sorted(value)) for key, value in MORE.items())
    for held in (TOTAL, LAST, TABLE, NAMES, MORE):  # their order is anybody's
        held.clear()
    for name in [name for name in vars(SHARED) if name[0] == "a"]:
        delattr(SHARED, name)
    return seen


def make():
    return fn, [((%d, %d), {}), ((%d, %d), {})], lambda index: None, lambda: {}, use
"""


def generate(seed: int) -> Program:
    """The program of a seed."""
    dice = Dice(seed)
    threads = dice.between(2, 4)
    body = "".join(f"    {line}\n" for _ in range(dice.between(1, 4)) for line in _statement(dice, True).split("\n"))
    inner = _statement(dice, False).replace("\n", "\n    ")
    tail = TAIL % (threads, dice.between(1, 4), threads, dice.between(1, 6))
    return Program(seed, HEAD.format(threads=threads, inner=inner) + body + tail)


def _statement(dice: Dice, outer: bool) -> str:
    usable = STATEMENTS if outer else [text for text in STATEMENTS if not re.search(r"\bi\b|inner|MEETING", text)]
    return dice.choice(usable).replace("{n}", str(dice.between(1, 4)))
