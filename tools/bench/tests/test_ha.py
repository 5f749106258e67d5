"""Options and plans of the measurement of several metadata servers, what it reads of processes and journals, and its loops."""

import contextlib
import itertools
import os
import time

import pytest

import ha
import ha_cluster
import ha_events
import ha_loop

TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:505E 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 100 0 0 10 0
   1: 0100007F:C001 0100007F:505F 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0 100 0 0 10 0
   2: 0100007F:505F 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 13 1 0 100 0 0 10 0
"""


def run_filter(program, packet):
    """A classic packet filter, as far as ours goes."""
    code = [tuple(map(int, one.split())) for one in program.split(",")[1:]]
    assert len(code) == int(program.split(",")[0])
    at = value = 0
    while True:
        what, if_so, if_not, k = code[at]
        at += 1
        if what == 0x28:
            value = int.from_bytes(packet[k:k + 2], "big")
        elif what == 0x30:
            value = packet[k]
        elif what == 0x15:
            at += if_so if value == k else if_not
        else:
            assert what == 6
            return k


def packet(source, destination, protocol=6, kind=0x800):
    head = bytearray(64)
    head[12:14], head[23] = kind.to_bytes(2, "big"), protocol
    head[34:36], head[36:38] = source.to_bytes(2, "big"), destination.to_bytes(2, "big")
    return bytes(head)


def test_packets_of_the_ports_are_dropped():
    program = ha_cluster.drop_program({7, 7401, 50000})
    for source, destination in itertools.product((7, 8, 7401, 50000), repeat=2):
        dropped = {source, destination} != {8}
        assert run_filter(program, packet(source, destination)) == (2 if dropped else 0xFFFFFFFF)
    assert run_filter(program, packet(7, 7, protocol=17)) == 0xFFFFFFFF
    assert run_filter(program, packet(7, 7, kind=0x86DD)) == 0xFFFFFFFF
    with pytest.raises(AssertionError, match="too many sockets"):
        ha_cluster.drop_program(set(range(200)))


def test_sockets_of_a_process():
    assert ha_cluster.own_sockets(TABLE, {"11", "12"}) == [(0x505E, 0), (0xC001, 0x505F)]
    assert ha_cluster.own_sockets(TABLE, set()) == []


def test_a_journal_ends_before_its_zeros(tmp_path, monkeypatch):
    monkeypatch.setattr(ha_cluster, "BLOCK", 16)
    path = tmp_path / "000007.log"
    for data, end in ((b"", 0), (bytes(40), 0), (b"x", 1), (b"abc" + bytes(50), 3), (bytes(20) + b"z" + bytes(30), 21), (bytes(15) + b"z", 16)):
        path.write_bytes(data)
        assert ha_cluster.end_of_data(path) == end
    (tmp_path / "LOG").write_bytes(b"not one")
    assert ha_cluster.journals(tmp_path) == {"000007.log": 16}


def test_what_was_written_to_journals():
    assert ha_cluster.written({"1": 100, "2": 50}, {"2": 80, "3": 5}) == 35
    assert ha_cluster.written({}, {}) == 0


def test_quick_is_small_and_what_is_named_counts():
    args = ha.parse(["--quick", "--events", "3"])
    assert args.events == 3 and args.rounds == 1 and args.metas == 3
    assert set(ha.ROWS) - set(args.only) == {ha.SLOW}
    assert ha.parse([]).events == 20 and ha.parse([]).only == list(ha.ROWS)
    with pytest.raises(SystemExit, match="no row called 'kil'"):
        ha.parse(["--only", "kil"])


def test_only_what_was_asked_for_is_planned(tmp_path):
    args = ha.parse(["--only", "copy,kill,plain,deadmount", "--events", "8", "--rounds", "2"])
    steps = ha.Measurement(args, tmp_path).steps()
    assert [(s.row, s.count) for s in steps] == [("kill", 8), ("deadmount", 2), ("compare", 2), ("copy", 5)]
    assert all(s.seconds > 0 for s in steps)


class FakeCluster:
    def __init__(self, why=""):
        self.why, self.downs, self.metas = why, 0, 3

    def can_drop(self):
        return self.why

    def down(self):
        self.downs += 1


def test_one_that_fails_leaves_a_gap_and_a_new_cluster(tmp_path, capsys):
    made, cluster = ha.Measurement(ha.parse(["--only", "kill,outage"]), tmp_path), FakeCluster()
    made.running["metas"] = cluster

    def stalls(_step):
        raise RuntimeError("no luck")

    made.stalls, made.outage = stalls, lambda step: made.values.update({step.row: {"seconds": [1.0], "rate": [1.0]}})
    made.run()
    assert made.failed == ["kill -9 of the primary, which stays away"] and cluster.downs == 1 and made.running == {}
    assert "no luck" in capsys.readouterr().err
    assert "| rejoin after an outage" in ha.report(made.values, made.left_out, "a day")


def test_where_packets_cannot_be_dropped_a_row_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(ha.shutil, "which", lambda _program: "/sbin/tc")
    made = ha.Measurement(ha.parse(["--only", "cutoff"]), tmp_path)
    made.running["metas"] = FakeCluster("no such filter")
    made.run()
    assert made.left_out == {"cutoff": "packets cannot be dropped here: no such filter"} and made.failed == []
    assert "Left out: cutoff: packets cannot be dropped here: no such filter." in ha.report(made.values, made.left_out, "a day")


def test_a_loop_says_what_it_did_and_what_is_missing_is_found(tmp_path):
    with ha_loop.loop(ha_loop.small_files, tmp_path / "files", True, 0.001) as files:
        files.wait_for(20)
        files.goes_on(time.monotonic())
        records = files.end()
        assert len(records) > 20 and ha_loop.failures(records) == 0
        assert all(begin <= end for begin, end, _ in records) and len(ha_loop.took_ms(records)) == len(records)
        assert ha_loop.missing(records, tmp_path / "files") == []
        ha_loop.path_of(tmp_path / "files", 3).unlink()
        ha_loop.path_of(tmp_path / "files", 5).write_bytes(b"else")
        assert ha_loop.missing(records, tmp_path / "files") == [3, 5]
        assert ha_loop.missing([(0, 0, 5)] * 6, tmp_path / "files") == []  # nobody was told that these are durable
    assert not (tmp_path / "files").exists()


def test_a_loop_counts_what_fails(tmp_path):
    with ha_loop.loop(ha_loop.small_files, tmp_path / "files", False, 0.001) as files:
        files.wait_for(5)
        (tmp_path / "files" / "0").rename(tmp_path / "files" / "away")
        files.wait_for(len(files.log) + 20)
        assert ha_loop.failures(files.end()) > 0


def test_plain_load_keeps_its_rate(tmp_path):
    with ha_loop.plain_load(tmp_path, 2, 200) as loads:
        rate = ha_events.rate_for(loads, 0.5)
        records = [one.end() for one in loads]
        assert all(ha_loop.failures(r) == 0 for r in records)
        assert all(len(os.listdir(one.directory)) <= ha_loop.KEPT + 1 for one in loads)
    assert 20 < rate < 300


def test_changes_are_counted(tmp_path):
    for what, left in (("create", ["f0", "f1"]), ("rename", ["g0", "g1"]), ("unlink", [])):
        log = ha_loop.Log(2)
        ha_loop.changes(log, tmp_path, what, 2)
        assert len(log) == 2 and sorted(os.listdir(tmp_path)) == left


def test_a_log_that_is_full_ends_its_loop(tmp_path):
    with ha_loop.loop(ha_loop.small_files, tmp_path / "files", False, most=7) as files:
        files.wait_for(7)
        files.process.join(10)
        assert len(files.end()) == 7


def test_a_loop_that_has_failed_is_told(tmp_path):
    def wrong(_log, _directory):
        os._exit(3)

    with contextlib.suppress(RuntimeError), ha_loop.loop(wrong, tmp_path / "files") as files:
        files.wait_for(1, 10)
        pytest.fail("it has not failed")


def test_times_of_a_log():
    assert ha_events.wall_seconds("1970-01-01T00:01:00.250+00:00") == 60.25
