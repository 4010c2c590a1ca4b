"""Differentiation of functional graphs: joint traces, and their parting into forward and backward."""
