"""Percentiles, gaps, and what is met."""

import math

import pytest

import ha_table
from ha_table import longest_gap, percentile


def test_the_nearest_rank_counts():
    values = list(range(1, 101))
    assert percentile(values, 50) == 50 and percentile(values, 95) == 95 and percentile(values, 100) == 100
    assert percentile([3, 1, 2], 95) == 3 and percentile([3, 1, 2], 50) == 2
    assert percentile([7], 1) == 7
    assert math.isnan(percentile([], 50))


@pytest.mark.parametrize("ends, since, until, gap", [
    ([0, 1, 2, 8, 9], 2.5, 8.5, 6),     # it begins before, as the last success does
    ([0, 1, 2, 8, 9], 0, 9, 6),
    ([1, 2, 3, 9, 10], 4, 5, 6),        # nothing ends in the time
    ([], 3, 7, 4),                      # nothing ever
    ([1, 2], 2, 7, 5),                  # it never goes on
    ([5, 9, 1, 2], 1, 9, 4),            # of several loops, not in order
    ([1, 2, 3], 3, 3, 0),
])
def test_the_longest_gap_that_overlaps(ends, since, until, gap):
    assert longest_gap(ends, since, until) == gap


def test_each_percentile_has_its_bound():
    met = ha_table.stall("kill", {"stalls": [6.0, 6.4, 7.9]})
    assert met.met and met.cells() == ["stall of an fsync loop: kill -9 of the primary, which stays away",
                                       "p50 6.40 s, p95 7.90 s (3 events)", "p50 <= 6.5 s, p95 <= 8 s", "met"]
    assert ha_table.stall("kill", {"stalls": [6.6, 6.6, 6.6]}).cells()[3] == "missed"
    assert not ha_table.stall("kill", {"stalls": [1.0] * 9 + [8.1]}).met
    assert ha_table.stall("standby", {"stalls": [1.5, 2.5]}).measured == "p50 1.50 s, longest 2.50 s (2 events)"
    assert not ha_table.stall("switchover", {"stalls": [2.1]}).met


def test_ratios_are_of_pairs():
    row = ha_table.ratio("create", solo=[100, 200, 400], metas=[95, 200, 396], many=4)
    assert row.met and row.measured == "200 /s, solo 200 /s: 0.99 x (0.97 to 0.99, 3 pairs)" and row.bound == ">= 95% of solo"
    assert not ha_table.ratio("writers", [100], [89], 4).met
    assert ha_table.ratio("plain journal", [100], [210], 4).met and not ha_table.ratio("plain journal", [100], [211], 4).met
    assert ha_table.ratio("create many", [1], [1], 4).what == "create, 4 processes"
    assert ha_table.ratio("writers cpu", [0], [5], 4).met is None


def test_latency_may_grow_by_a_round_trip():
    assert ha_table.latency("fsync", [1.0, 1.2], [1.19, 1.39], rtt=[0.05]).met
    missed = ha_table.latency("fsync", [1.0], [1.3], rtt=[0.05])
    assert missed.cells()[1:] == ["1.30 ms, solo 1.00 ms: +0.30 ms (+0.30 to +0.30, 1 pair)",
                                  "<= solo + round trip (0.050 ms) + 0.15 ms", "missed"]


def test_etcd_is_not_noticed():
    values = {"before": [10.0, 10.0], "during": [10.0, 12.0], "failed": 0, "seconds": 20}
    assert ha_table.etcd(values).met
    assert not ha_table.etcd({**values, "failed": 1}).met
    assert not ha_table.etcd({**values, "during": [20.0, 20.0]}).met


def test_one_that_is_lost_is_missed():
    lost, failed = ha_table.lost(failovers=2, events=3, acknowledged=1000, missing=1, failed=0)
    assert lost.cells() == ["acknowledged fsyncs that are lost", "1 of 1,000 in 2 failovers and 1 other event", "0 in 200 failovers", "missed"]
    assert failed.met


def test_what_was_not_measured_has_no_row():
    assert ha_table.verdicts({}, 4) == [] and ha_table.verdicts({"kill": {"stalls": []}, "copy": {"rate": []}}, 4) == []


def test_rows_are_in_the_designs_order():
    values = {
        "copy": {"rate": [31.0], "seconds": [3.0], "mib": 64, "before": [10.0], "during": [16.0]},
        "outage": {"seconds": [4.0, 5.1], "rate": [900.0, 1000.0], "outage": 10},
        "rtt": [0.05],
        "pairs": {"plain cpu": {"solo": [10], "metas": [12]}, "fsync": {"solo": [1.0], "metas": [1.1]}},
        "etcd": {"before": [1.0], "during": [1.0], "failed": 0, "seconds": 20},
        "kill": {"stalls": [6.0]}, "switchover": {"stalls": [1.0]},
        "lost": {"failovers": 1, "events": 2, "acknowledged": 10, "missing": 0, "failed": 0},
    }
    rows = ha_table.verdicts(values, 4)
    assert [r.met for r in rows] == [True, True, True, True, True, True, True, False, True, False]
    text = ha_table.table(rows)
    assert text.startswith("| What | Measured | Bound | |\n|---|---|---|---|\n| acknowledged fsyncs that are lost |")
    assert "| rejoin by copy, 64 MiB | 31 MiB/s; 3.0 s from its start until it is in sync (1 event) | >= 30 MiB/s | met |" in text
    assert "| median 4.55 s, longest 5.10 s, at 950 op/s (2 events) | <= 5 s at 1,000 op/s | missed |" in text
