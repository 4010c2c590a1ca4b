"""Saved programs: one zip file of readable parts, without pickled objects.

    manifest.json               what the file is, its version; size and SHA-256 of every other part
    program.json                graph, signature, shape contract, module calls (see `schema`)
    weights.safetensors         parameters, buffers and constants
    examples.safetensors        the tensors of the example inputs
    program.txt                 the program as it is printed, for people; not read back

    schema.py       what program.json holds, and the check of it
    values.py       arguments of operators
    trees.py        how inputs and outputs are nested
    targets.py      the functions that a saved graph may call
    graphs.py       graphs and what is known about their values
    tensors.py      tensors as parts of the file
    programs.py     whole programs
    files.py        `save` and `load`
"""
