"""What went wrong in one run of a program: in which stage, how, and at which operator."""

from __future__ import annotations

import re
from dataclasses import dataclass

PROGRAM = "program"
"""The stage of errors that are the program's own."""
RUN = "run"
"""The stage behind all others: compiled code is called."""


@dataclass(frozen=True)
class Failure:
    """One failure."""

    kind: str
    """One of "exception", "crash", "hang" and "difference"."""
    stage: str
    error: str
    """The type of the exception, the name of the signal, or what differs."""
    message: str
    where: str = ""
    """The function of firesteel's that raised, as file:function."""
    operators: tuple[str, ...] = ()
    """The operators at fault, as far as they are known, the likeliest first."""
    line: str = ""
    """The line of the program that the operator comes from."""
    seen: str = ""
    """Of a difference: where `fs.check` saw it, and what kind it is of."""
    eager: str = ""
    """The type of the exception that eager raises, if it does."""

    def __str__(self) -> str:
        return f"{self.kind} in {self.stage}: {self.error}: {self.message}"

    @property
    def essence(self) -> frozenset[str]:
        """The words of the message that say what is wrong, without names, numbers and places of one program."""
        return frozenset(word.lower() for word in re.findall(r"[A-Za-z]{3,}", re.sub(r"\S*[\d_/\[\]'\"]\S*", " ",
                                                                                    self.message)))

    def is_same(self, other: Failure) -> bool:
        """Whether a program fails in the same way as another one, from which it was made."""
        return self.is_same_elsewhere(other) and (self.kind != "difference" or self.seen == other.seen)

    def is_same_elsewhere(self, other: Failure) -> bool:
        """The same, where what differs may reach the program by another way: in a graph on its own."""
        if (self.kind, self.error) != (other.kind, other.error) or self.stage != other.stage:
            return False
        if self.eager and not other.eager:
            return False  # a program that fails by itself does not show the failure
        if self.kind != "exception":
            return self.seen.partition(" ")[0] == other.seen.partition(" ")[0]
        if self.where != other.where:
            return False
        mine, others = self.essence, other.essence
        return not mine or not others or len(mine & others) * 2 >= min(len(mine), len(others))
