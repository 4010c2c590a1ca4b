"""Choices by measurement, for `options={"max_autotune": True}`.

`measuring` times alternatives side by side and keeps winners on disk. `kernels` tries ways to print each kernel, on
made-up data; passes use the same for library calls that can be made in several ways. `FIRESTEEL_LOGS=autotune` shows
the alternatives with their times.
"""

from .kernels import tuned_targets
from .measuring import Tuner
