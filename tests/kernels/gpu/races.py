"""Finds what programs of a kernel do to each other's memory, and threads of a program to that of other threads.

Triton's programs run in any order, and a program's accesses are spread over threads in its own way. So a program must
not read what another writes, nor what it has written itself before a barrier, nor write what others of its threads may
not have read yet. `stand_in_triton` tells of every access when it is given `Races`.
"""

class Race(AssertionError):
    """Results would depend on which thread comes first."""


class Races:
    """All accesses of one launch, by the memory and the first byte of an element."""

    def __init__(self):
        self.program = -1
        self.epoch = 0
        self.written = {}  # the program, the epoch
        self.read = {}  # the program, or None for several; the epoch; the lane, or None for several

    def begin(self, program):
        self.program, self.epoch = program, self.epoch + 1

    def barrier(self):
        """All threads of the program wait for each other."""
        self.epoch += 1

    def load(self, elements, offset, mask):
        for lane, place in self._places(elements, offset, mask):
            if place in self.written:
                program, epoch = self.written[place]
                if program != self.program:
                    raise Race("a program reads what another writes")
                if epoch == self.epoch:
                    raise Race("what a program has written is read without a barrier")
            program, epoch, known = self.read.get(place, (self.program, -1, lane))
            program = program if program == self.program else None
            self.read[place] = program, self.epoch, lane if known == lane or epoch != self.epoch else None

    def store(self, elements, offset, mask):
        for lane, place in self._places(elements, offset, mask):
            program, epoch, known = self.read.get(place, (self.program, -1, lane))
            if program != self.program:
                raise Race("a program writes what another reads")
            if epoch == self.epoch and known != lane:
                raise Race("a program writes what others of its threads read, without a barrier")
            self.written[place] = self.program, self.epoch

    def _places(self, elements, offset, mask):
        """Each access as the lane, among how many, and the address."""
        address, size, count = elements.data_ptr(), elements.element_size(), offset.numel()
        offset, lanes = offset.reshape(-1), range(count)
        if mask is not None and not mask.all():
            taken = mask.reshape(-1).nonzero().squeeze(1)
            offset, lanes = offset[taken], taken.tolist()
        for lane, at in zip(lanes, offset.tolist(), strict=True):
            yield (lane, count), address + at * size
