"""Files that `torch.export.save` writes: read without torch's export, and written so that torch can read them.

A file is a zip archive. ``models/model.json`` has the graph, the signature and the ranges of sizes, as objects whose
fields `torch._export.serde.schema` fixes (major version 8 in torch 2.11 to 2.15); ``data/weights`` and
``data/constants`` have the memory of tensors, with a table of what lies where; ``data/sample_inputs`` has the example,
as `torch.save` writes it.
"""
