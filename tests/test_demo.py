"""The demonstration runs and says that results are the same."""

from __future__ import annotations

from firesteel import demo


def test_demo(capsys, monkeypatch):
    monkeypatch.setattr(demo, "microseconds", lambda calls: [1.0, 1.0])
    assert demo.main() == 0
    out = capsys.readouterr().out
    assert "bar" in out and "transformer" in out and "2 graphs with 1 graph break" in out


def test_a_wrong_result_is_seen(monkeypatch, capsys):
    monkeypatch.setattr(demo, "microseconds", lambda calls: [1.0, 1.0])
    monkeypatch.setattr(demo, "equal", lambda left, right: False)
    assert demo.main() == 1
    assert "NO" in capsys.readouterr().out
