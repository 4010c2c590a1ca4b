"""Small programs that show what can be exported, what cannot, and how to write it instead.

    >>> from firesteel.export import examples
    >>> [found.name for found in examples.search("torch.cond")][:2]
    ['branch_with_closure', 'branches_of_different_sizes']
    >>> print(examples.get("print_in_forward").supported)
    False

``python -m firesteel.export.examples`` prints the documentation page that is made of them.
"""

from __future__ import annotations

from .registry import Example, every, get, search, tags

__all__ = ["Example", "every", "get", "search", "tags"]
