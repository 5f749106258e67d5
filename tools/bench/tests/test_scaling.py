"""Options, plans, and that values come back from a file as they were."""

import json
import pathlib

import pytest

import scaling
from growth import Row


def test_sizes_grow_by_tens():
    assert scaling.decades(4, 1_000_000) == [10_000, 100_000, 1_000_000]
    assert scaling.decades(0, 100) == [1, 10, 100]
    assert scaling.decades(4, 9_999) == []


def test_quick_is_small_and_what_is_named_counts():
    args = scaling.parse(["--quick", "--clients", "7,2,2"])
    assert args.inodes == 100_000 and args.servers == [5, 10] and args.clients == [2, 7]
    assert scaling.parse([]).inodes == 1_000_000
    with pytest.raises(SystemExit, match="no part called 'inodez'"):
        scaling.parse(["--only", "inodez"])


def test_only_what_was_asked_for_is_planned(tmp_path):
    args = scaling.parse(["--only", "extents,clients", "--extents", "100", "--clients", "1,4"])
    steps = scaling.Scaling(args, tmp_path).steps()
    assert [s.name for s in steps] == ["1 extents per file", "10 extents per file", "100 extents per file", "1 clients", "4 clients"]
    assert all(s.seconds > 0 for s in steps)


def test_one_that_fails_leaves_a_gap(tmp_path, capsys):
    made = scaling.Scaling(scaling.parse(["--only", "names", "--inodes", "100000"]), tmp_path)

    def store(section, size, tell):
        if size == 10_000:
            raise RuntimeError("no luck")
        made.rows[section] = {"x": Row("x", "us", {size: 1.0})}
    made.store = store
    made.run()
    assert made.failed == ["10,000 inodes"]
    assert made.rows["names"]["x"].values == {100_000: 1.0}
    assert "10,000 inodes: failed: no luck" in capsys.readouterr().err


def test_values_come_back(tmp_path):
    rows = {"names": {"a": Row("lookup", "us", {10_000: 1.5, 100_000: 2.0}, drawn="look"), "b": Row("gone", "us", {})},
            "servers": {"w": Row("write", "MB/s", {5: 100.0}, more_is_better=True, judged=False)}}
    path = tmp_path / "values.json"
    path.write_text(json.dumps({"sections": scaling.to_json(rows)}))
    back = scaling.from_json(path)
    assert list(back["names"].values()) == [rows["names"]["a"]]
    assert list(back["servers"].values()) == [rows["servers"]["w"]]
    text = scaling.report(back, "a day")
    assert "| lookup, us | 1.50 | 2.00 (1.33) | 1.33 | log |" in text and "| write, MB/s | 100 |  |  |" in text


def test_a_panel_shows_ratios_beside_the_logarithm():
    rows = [Row("lookup", "us", {10: 2.0, 100: 3.0}, drawn="look"), Row("other", "us", {10: 1.0, 100: 9.0}),
            Row("one value", "us", {10: 1.0}, drawn="one")]
    lines = scaling.panel("names", rows).lines
    assert [one.name for one in lines] == ["look", "the logarithm"]
    assert lines[0].points == [(10, 1.0), (100, 1.5)]
    assert lines[1].reference
