"""A cluster on this machine, read with uproot, awkward and Dask by way of stria://. Skipped without /dev/fuse or a
built Stria."""

import os
import pathlib
import subprocess

import pytest

import stria
from stria import work

np = pytest.importorskip("numpy")
uproot = pytest.importorskip("uproot")
ak = pytest.importorskip("awkward")
pytest.importorskip("fsspec")

EVENTS = 40_000
CLUSTERS = 4


@pytest.fixture(scope="module")
def mount(tmp_path_factory):
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("no /dev/fuse")
    try:
        command = work.command()
    except FileNotFoundError:
        pytest.skip("no built stria")
    top = pathlib.Path(os.path.realpath(tmp_path_factory.mktemp("cluster")))
    subprocess.run([command, "dev", "up", "--dir", top / "c", "--nodes", "3", "--disks", "1", "--mount", top / "mnt",
                    "--layout", "raid5:2+1,arrange=gathered,unit=256K"], check=True, stdin=subprocess.DEVNULL)
    os.environ["STRIA_TRUST"] = str(top / "c/meta/trust/admin")
    yield top / "mnt"
    subprocess.run([command, "dev", "down", "--dir", top / "c"], check=True, stdin=subprocess.DEVNULL)


def make(path, kind, seed):
    rng = np.random.default_rng(seed)
    chunks = [{"x": rng.normal(size=EVENTS // CLUSTERS), "n": rng.integers(0, 9, EVENTS // CLUSTERS)}
              for _ in range(CLUSTERS)]
    with uproot.recreate(path, compression=None) as out:
        if kind == "ttree":
            table = out.mktree("Events", {"x": "float64", "n": "int64"})
            table.extend(chunks[0])
        else:
            table = out.mkrntuple("Events", chunks[0])
        for chunk in chunks[1:]:
            table.extend(chunk)
    return np.concatenate([c["x"] for c in chunks])


@pytest.fixture(scope="module")
def files(mount, tmp_path_factory):
    """Path in the mount -> its content. Written elsewhere and copied: uproot seeks back while it writes."""
    source = tmp_path_factory.mktemp("source")
    found = {}
    for i, kind in enumerate(["ttree", "rntuple"]):
        values = make(source / f"{kind}.root", kind, i)
        (mount / f"{kind}.root").write_bytes((source / f"{kind}.root").read_bytes())
        found[str(mount / f"{kind}.root")] = values
    return found


def test_uproot_reads_through_fsspec(files):
    for path, values in files.items():
        with uproot.open(f"stria://{path}") as file:
            got = file["Events"].arrays(["x", "n"])
            assert np.array_equal(ak.to_numpy(got["x"]), values)


def test_locations_cover_the_file_and_hosts_agree(files, mount):
    for path in files:
        rows = stria.locations(path)
        at = 0
        by_node = {}
        for row in rows:
            assert row.offset == at and row.health == "ok"
            at += row.length
            by_node[row.node] = by_node.get(row.node, 0) + row.length
        assert at == os.stat(path).st_size
        for node, share in stria.hosts(path).items():
            assert abs(share - by_node[node] / at) < 0.002
        assert stria.locations(path, 1000, 5)[0].length == 5
        assert any(r.role in ("parity", "copy") for r in stria.locations(path, redundancy=True))
    assert stria.node(mount) == "n1"


def test_split_gives_each_event_once(files):
    split = stria.split(list(files), align="root")
    assert split.unit == "entries" and len(split.hosts) == 3
    for path, values in files.items():
        items = sorted((i.begin, i.end) for h in split.hosts for i in h.items if i.path == path)
        assert items[0][0] == 0 and items[-1][1] == EVENTS
        assert all(a[1] == b[0] for a, b in zip(items, items[1:]))
    whole = stria.split(list(files), align="file")
    assert sorted(i.path for h in whole.hosts for i in h.items) == sorted(files)


def test_reads_are_counted(mount):
    path = mount / "fresh"
    data = np.random.default_rng(5).bytes(3_000_000)
    path.write_bytes(data)
    before = stria.reads(mount)
    assert path.read_bytes() == data
    more = stria.reads(mount) - before
    assert more == stria.reads(path), "nothing else was read"
    assert more.local + more.network >= len(data) and more.reconstructed == 0
    assert more.locality == pytest.approx(stria.hosts(path).get("n1", 0), abs=0.35)


def test_dask_adds_up_what_split_gave(files):
    distributed = pytest.importorskip("distributed")

    def total(path, begin, end):
        with uproot.open(path) as file:
            return float(np.sum(ak.to_numpy(file["Events"].arrays(["x"], entry_start=begin, entry_stop=end)["x"])))

    split = stria.split(list(files), align="root")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            futures = [client.submit(total, i.path, i.begin, i.end, pure=False) for h in split.hosts for i in h.items]
            got = sum(client.gather(futures))
    assert got == pytest.approx(sum(float(v.sum()) for v in files.values()))
