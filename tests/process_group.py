"""Processes with a gloo group, which call functions of test modules; made once for all tests of a file.

    processes = Processes(2)
    processes.call("collective_programs", "compare", "all_reduce_in_place")    # what each of the two returns
    processes.close()
"""

from __future__ import annotations

import datetime
import importlib
import multiprocessing.connection
import os
import pickle
import subprocess
import sys
import tempfile
import traceback
from typing import Any

PATIENCE = 60


class Failed(Exception):
    """A process raised an exception, ended or did not answer."""


class Processes:
    """Some processes that wait for calls."""

    def __init__(self, count: int = 2) -> None:
        self.folder = tempfile.TemporaryDirectory()
        address = os.path.join(self.folder.name, "calls")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        self.processes: list[subprocess.Popen[bytes]] = []
        self.connections: list[Any] = []
        with multiprocessing.connection.Listener(address, "AF_UNIX") as listener:
            for rank in range(count):
                command = [sys.executable, __file__, address, str(rank), str(count),
                           os.path.join(self.folder.name, "store")]
                self.processes.append(subprocess.Popen(command, env=environment))
            found = {}
            for _ in range(count):
                connection = listener.accept()
                found[connection.recv()] = connection
            self.connections = [found[rank] for rank in range(count)]

    def call(self, module: str, function: str, *args: Any, patience: float = PATIENCE) -> list[Any]:
        """Call a function in all processes; raises `Failed` with the traceback of the first that fails."""
        for connection in self.connections:
            connection.send((module, function, args))
        answers, failures = [], []
        for rank, connection in enumerate(self.connections):
            if not connection.poll(patience):
                self.close()
                raise Failed(f"process {rank} does not answer")
            try:
                fine, answer = read(connection)
            except EOFError:
                self.close()
                raise Failed(f"process {rank} ended") from None
            (answers if fine else failures).append(answer)
        if failures:
            raise Failed("\n".join(failures))
        return answers

    def kill(self) -> None:
        """End the processes at once."""
        for process in self.processes:
            process.kill()
        self.close()

    @property
    def alive(self) -> bool:
        """Whether the processes can be called."""
        return all(not connection.closed for connection in self.connections)

    def close(self) -> None:
        """End the processes."""
        for connection in self.connections:
            connection.close()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.folder.cleanup()


def read(connection: Any) -> tuple[bool, Any]:
    """Whether a call went well in a process, and its answer or traceback; raises EOFError where it has ended."""
    answer: tuple[bool, Any] = pickle.loads(connection.recv_bytes())
    return answer


def _serve(address: str, rank: int, count: int, store: str) -> None:
    with multiprocessing.connection.Client(address, "AF_UNIX") as connection:
        connection.send(rank)
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        dist.init_process_group("gloo", store=dist.FileStore(store, count), rank=rank, world_size=count,
                                timeout=datetime.timedelta(seconds=PATIENCE / 2))
        while True:
            try:
                module, function, args = connection.recv()
            except (EOFError, OSError):
                break
            try:
                answer = True, getattr(importlib.import_module(module), function)(rank, *args)
            except BaseException:
                answer = False, f"process {rank}: {traceback.format_exc()}"
            connection.send_bytes(pickle.dumps(answer))
        dist.destroy_process_group()


if __name__ == "__main__":
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))] \
        + [os.path.dirname(os.path.abspath(__file__))]
    _serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
