"""Benchmarks: firesteel beside torch.compile and eager, each script printing one of the project's bars."""
