"""Programs over the whole language: statements, classes, containers, modules around tensor expressions."""

from ..generator import generate

__all__ = ["generate"]
