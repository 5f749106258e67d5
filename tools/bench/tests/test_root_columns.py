"""Both ways read the true bytes of a ROOT file; a Python without uproot is reported."""

import sys

import pytest

import root_columns


def test_a_python_without_uproot_is_told_of(monkeypatch):
    monkeypatch.setenv("STRIA_PYTHON", "false")
    with pytest.raises(RuntimeError, match="has no uproot .*STRIA_PYTHON"):
        root_columns.python_with_uproot()


def test_both_ways_read_the_same(tmp_path, monkeypatch):
    pytest.importorskip("uproot")
    monkeypatch.setattr(root_columns, "drop_caches", lambda: None)
    path = tmp_path / "events.root"
    root_columns.make(path, 3)
    events = 3 * root_columns.MIB // (4 * len(root_columns.COLUMNS) * root_columns.BASKET_EVENTS) * root_columns.BASKET_EVENTS
    told = [root_columns.scan_once(sys.executable, path, handler)[1:] for handler in root_columns.HANDLERS]
    assert told[0] == told[1]
    assert told[0][0] == 4 * events * len(root_columns.READ)
