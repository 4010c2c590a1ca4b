"""Explanations of what the compiler did."""
