"""Which of several ways to do something on a GPU is fastest: timed on the device, the winner kept on disk.

    tuner = GpuTuner(device=device)
    tuner.choose("product 64x64", identity, {"library": lambda: library_call, "own": lambda: own_kernel})

A way is a function without arguments that launches work on the current stream. Its calls are recorded into a CUDA
graph, so that what is timed is the device and not the launching; what cannot be recorded is timed as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ...records import dataclass
from ..tuning.measuring import Tuner, Way

ROUNDS = 5
"""How often each way is timed, in turns; the best time counts."""
ROUND_SECONDS = 1e-3
"""How long one such time takes, about."""
MOST_CALLS = 200


@dataclass
class GpuTuner(Tuner):
    """Decides between alternatives by their time on a device, and remembers what it measured."""

    device: torch.device = torch.device("cuda")

    def machine(self) -> str:
        """The GPU and torch, whose libraries are among the alternatives."""
        gpu = torch.cuda.get_device_properties(self.device)
        return f"{gpu.name} {gpu.major}.{gpu.minor} {gpu.multi_processor_count} {torch.__version__}"

    def times(self, ways: Mapping[str, Way], one_thread: bool = False) -> dict[str, float]:
        return device_seconds(ways, self.device)


def device_seconds(ways: Mapping[str, Way], device: torch.device) -> dict[str, float]:
    """Seconds that one call of each way keeps the device busy, the best of several rounds in turns."""
    with torch.cuda.device(device), torch.no_grad():
        runs: dict[str, tuple[Way, int]] = {}
        for name, way in ways.items():
            way()  # the first call may prepare something
            once = _time(way, 3) / 3
            repeats = max(1, min(MOST_CALLS, int(ROUND_SECONDS / max(once, 1e-7))))
            runs[name] = _recorded(way, repeats), repeats
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(ROUNDS):
            for name, (run, repeats) in runs.items():
                best[name] = min(best[name], _time(run, 1) / repeats)
        return best


def _recorded(way: Way, repeats: int) -> Way:
    """Several calls of a way as one launch."""
    def loop() -> None:
        for _ in range(repeats):
            way()

    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            loop()
    except RuntimeError:
        torch.cuda.synchronize()
        return loop
    graph.replay()
    return graph.replay


def _time(run: Way, repeats: int) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    for _ in range(repeats):
        run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1000
