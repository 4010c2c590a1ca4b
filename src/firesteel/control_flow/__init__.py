"""Control flow that depends on data, as operators: cond, map, while_loop, scan, associative_scan.

>>> import torch, firesteel as fs
>>> x = torch.ones(3)
>>> fs.cond(x.sum() > 2, lambda x: x * 2, lambda x: x - 1, (x,))
tensor([2., 2., 2.])

Called outside of compiled code they run at once, as the loops and branches that they stand for. In a captured graph
they are one operation each, which owns the graphs of its functions (see `operators`).
"""

from .associative import associative_scan
from .conditional import cond
from .looping import while_loop
from .mapping import map
from .scanning import scan
