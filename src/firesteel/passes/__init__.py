"""Passes over functional ATen graphs: one file each, graph in, graph out. `pipeline.graph_passes` has their order."""
