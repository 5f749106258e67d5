"""Tests without a cluster: arithmetic, formats, cat_ranges on plain files, clusters of ROOT files made here."""

import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

import stria
from stria import locate

fs_module = pytest.importorskip("stria.fs", reason="needs fsspec")


def test_locations_are_parsed_and_say_where_to_go_on():
    text = "0+10 n1:d1 data ok\n10+5 n2:d2 data down\n0+15 n3:d1 parity ok\n"
    rows, more = locate._parse(text)
    assert more is None
    assert rows[1] == stria.Location(10, 5, "n2", "d2", "data", "down")
    assert locate._parse("0+10 n1:d1 data ok\n... 10\n")[1] == 10
    assert locate._parse("0+10 n1:d1 data ok\n... redundancy\n") == (rows[:1], None)


def test_long_lists_are_asked_for_in_parts(monkeypatch, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"x" * 40)
    asked = []

    def answer(_, name):
        begin, length = map(int, name.split("@")[1].split("+"))
        asked.append((begin, length))
        row = f"{begin}+10 n{begin // 10}:d1 data ok\n"
        return row + (f"... {begin + 10}\n" if begin + 10 < 40 else "")

    monkeypatch.setattr(locate, "attribute", answer)
    assert [r.node for r in stria.locations(path)] == ["n0", "n1", "n2", "n3"]
    assert asked == [(0, 40), (10, 30), (20, 20), (30, 10)]


def test_reads_are_added_and_compared():
    a, b = stria.Reads(10, 30, 1), stria.Reads(40, 40, 5)
    assert (b - a) == stria.Reads(30, 10, 4)
    assert (b - a).locality == 0.75
    assert stria.Reads(0, 0, 0).locality == 1.0


def test_a_plain_directory_is_no_mount(tmp_path):
    with pytest.raises(FileNotFoundError, match="in no mount of Stria"):
        stria.reads(tmp_path)
    assert stria.node(tmp_path) is None


def test_names_may_be_any_bytes(tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff\n:x"
    with open(name, "wb") as f:
        f.write(b"found")
    quoted = os.fsdecode(name).replace("\n", "\\n").replace("\udcff", "\\udcff")  # as `stria split` writes it
    path = tmp_path / "n1.json"
    path.write_bytes(f'{{"host": "n1", "bytes": 5, "local_bytes": 5, "work": [{{"path": "{quoted}", "offset": 0, "length": 5}}]}}'.encode())
    work = stria.load_work(path)
    assert os.fsencode(work.items[0].path) == name
    with open(work.items[0].path, "rb") as f:
        assert f.read() == b"found"


def test_events_of_files_whose_names_are_any_bytes(tmp_path):
    uproot = pytest.importorskip("uproot", reason="needs uproot")
    np = pytest.importorskip("numpy")
    name = os.fsencode(tmp_path) + b"/\xff:x.root"
    with uproot.recreate(str(tmp_path / "plain.root")) as f:
        f["Events"] = {"x": np.arange(10)}
    os.rename(tmp_path / "plain.root", name)
    paths = tmp_path / "paths.json"
    paths.write_text(json.dumps([os.fsdecode(name)]))
    done = subprocess.run([sys.executable, "-m", "stria.clusters", "--paths", str(paths)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["entries"] == 10


def test_work_lists_come_back(tmp_path):
    path = tmp_path / "n1.json"
    path.write_text(json.dumps({"host": "n1", "bytes": 9, "local_bytes": 8, "work": [
        {"path": "/a", "entry_start": 3, "entry_stop": 5}, {"path": "/b", "offset": 10, "length": 7}]}))
    work = stria.load_work(path)
    assert work.items == [stria.WorkItem("/a", 3, 5), stria.WorkItem("/b", 10, 17)]
    assert (work.local_bytes, work.remote_bytes, work.decoded_bytes) == (8, 1, 0)


def test_a_split_says_what_is_not_local(tmp_path, monkeypatch):
    program = tmp_path / "stria"
    answer = {"unit": "bytes", "away": [{"node": "n3", "state": "down"}], "hosts": [
        {"host": "n1", "bytes": 100, "local_bytes": 60, "remote_bytes": 10, "decoded_bytes": 30, "work": []}]}
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(answer)}\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv("STRIA", str(program))
    split = stria.split([tmp_path])
    assert (split.locality, split.decoded, dict(split.away)) == (0.6, 0.3, {"n3": "down"})
    assert split.hosts[0].remote_bytes == 10


@pytest.mark.parametrize("seed", range(30))
def test_merged_ranges_hold_all_ranges(seed):
    rng = random.Random(seed)
    ranges = []
    for _ in range(rng.randrange(20)):
        begin = rng.randrange(10_000)
        ranges.append((begin, begin + rng.randrange(500)))
    gap = rng.randrange(300)
    runs = fs_module.merge_ranges(ranges, gap, 4000)
    assert sorted(i for run in runs for i in run[2]) == list(range(len(ranges)))
    for begin, end, members in runs:
        assert begin == min(ranges[i][0] for i in members) and end == max(ranges[i][1] for i in members)
        assert end - begin <= 4000
    for (_, end, _), (begin, end2, _) in zip(runs, runs[1:]):
        assert begin > end + gap or end2 - begin > 0


@pytest.mark.parametrize("seed", range(10))
def test_cat_ranges_is_what_slices_give(tmp_path, seed):
    rng = random.Random(seed)
    contents = {str(tmp_path / f"f{i}"): rng.randbytes(rng.randrange(300_000)) for i in range(3)}
    for path, data in contents.items():
        pathlib.Path(path).write_bytes(data)
    paths, starts, ends = [], [], []
    for _ in range(50):
        paths.append(rng.choice(sorted(contents)))
        starts.append(rng.choice([None, rng.randrange(-1000, 400_000)]))
        ends.append(rng.choice([None, rng.randrange(-1000, 400_000)]))
    fs = fs_module.StriaFileSystem()
    got = fs.cat_ranges(["stria://" + p for p in paths], starts, ends)
    assert got == [contents[p][a:b] for p, a, b in zip(paths, starts, ends)]
    missing = fs.cat_ranges([paths[0], str(tmp_path / "none")], 0, 5)
    assert missing[0] == contents[paths[0]][:5] and isinstance(missing[1], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges([str(tmp_path / "none")], 0, 5, on_error="raise")


def test_fsspec_finds_it(tmp_path):
    import fsspec
    (tmp_path / "f").write_bytes(b"hello")
    fsspec.register_implementation("stria", fs_module.StriaFileSystem, clobber=True)
    with fsspec.open(f"stria://{tmp_path}/f", "rb") as f:
        assert f.read() == b"hello"
    fs = fsspec.filesystem("stria")
    assert fs.unstrip_protocol(str(tmp_path / "f")) == f"stria://{tmp_path}/f"
    assert [p.rsplit("/", 1)[1] for p in fs.ls(f"stria://{tmp_path}", detail=False)] == ["f"]


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
def test_clusters_cover_every_entry_and_lie_apart(tmp_path, kind):
    uproot = pytest.importorskip("uproot")
    np = pytest.importorskip("numpy")
    path = tmp_path / "f.root"
    sizes = [1000, 500, 2000]
    with uproot.recreate(path, compression=None) as out:
        first = {"x": np.arange(sizes[0], dtype="float32"), "n": np.arange(sizes[0], dtype="int32")}
        if kind == "ttree":
            table = out.mktree("Events", {"x": "float32", "n": "int32"})
            table.extend(first)
        else:
            table = out.mkrntuple("Events", first)
        for n in sizes[1:]:
            table.extend({"x": np.arange(n, dtype="float32"), "n": np.arange(n, dtype="int32")})
    (tmp_path / "list.json").write_text(json.dumps([str(path)]))
    done = subprocess.run([sys.executable, "-m", "stria.clusters", "--paths", tmp_path / "list.json"], text=True,
                          capture_output=True, check=True)
    [answer] = json.loads(done.stdout)
    assert (answer["tree"], answer["entries"]) == ("Events", 3500)
    assert [c[:2] for c in answer["clusters"]] == [[0, 1000], [1000, 1500], [1500, 3500]]
    data = path.read_bytes()
    reached = 0
    for (begin, end, ranges), n in zip(answer["clusters"], sizes):
        assert min(r[0] for r in ranges) >= reached
        reached = max(r[0] + r[1] for r in ranges)
        assert sum(r[1] for r in ranges) >= 8 * n
        # The entries' own bytes lie in there: RNTuple splits bytes of a value, so look at a TTree's.
        if kind == "ttree":
            inside = b"".join(data[a:a + b] for a, b in ranges)
            assert np.arange(n, dtype=">f4").tobytes() in inside


def test_clusters_say_what_is_missing(tmp_path):
    uproot = pytest.importorskip("uproot")
    np = pytest.importorskip("numpy")
    path = tmp_path / "f.root"
    with uproot.recreate(path) as out:
        out["Events"] = {"x": np.zeros(3)}
    (tmp_path / "list.json").write_text(json.dumps([str(path)]))
    done = subprocess.run([sys.executable, "-m", "stria.clusters", "--paths", tmp_path / "list.json", "--tree", "Nope"],
                          text=True, capture_output=True)
    assert done.returncode == 1 and "no tree Nope" in done.stderr
