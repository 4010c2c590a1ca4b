"""From functional ATen graphs to kernels: lowering to loop IR, fusion, scheduling, memory planning, printing."""
