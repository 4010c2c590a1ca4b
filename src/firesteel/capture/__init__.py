"""Capture: bytecode is interpreted symbolically; out come graphs, guards and continuations."""
