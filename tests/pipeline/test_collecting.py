"""Garbage collection around compilations."""

from __future__ import annotations

import gc
import weakref

import pytest

from firesteel import importing
from firesteel.pipeline.collecting import collection_paused


class Ring:
    def __init__(self) -> None:
        self.own = self


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(importing, "_uncounted", 0)
    gc.collect(1)  # what tests make now is the only thing that is young
    yield
    gc.unfreeze()
    gc.enable()


def test_cycles_made_inside_are_freed_and_what_stays_is_old():
    with collection_paused():
        gone, kept = weakref.ref(Ring()), Ring()
        assert gone() is not None and not gc.isenabled()
    assert gc.isenabled() and gone() is None
    assert any(item is kept for item in gc.get_objects(generation=2))
    assert gc.get_freeze_count() == 0


def test_what_the_user_froze_stays_frozen():
    ring = Ring()
    assert any(item is ring for item in gc.get_objects())
    gc.freeze()
    with collection_paused():
        Ring()
    assert gc.get_freeze_count() > 0 and not any(item is ring for item in gc.get_objects())


def test_what_the_user_froze_is_not_counted_each_time(monkeypatch):
    counted = []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: counted.append(1) or 300_000)
    for _ in range(50):
        with collection_paused():
            pass
    assert len(counted) == 1


def test_disabled_stays_disabled():
    gc.disable()
    with collection_paused():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_what_is_old_is_still_freed():
    with collection_paused():
        ring = Ring()
    gone = weakref.ref(ring)
    del ring
    gc.collect()
    assert gone() is None
