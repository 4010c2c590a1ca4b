"""From functional ATen graphs to computations of the loop IR.

`lower` goes through a graph node by node. What an operator means is a function in one of the files here, registered by
the operator's name with `lowering`; an operator without one is called in ATen. Tensors are not computed when their
operator is met but where they are used (`tensors`), and `policy` says when they go through memory all the same.
"""

from .context import Lowering
from .graph import LoweredGraph
from .lower import lower
