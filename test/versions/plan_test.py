"""The pure parts: every room is there, one part changes at a time, the documented order comes first, and files are told by their names."""

import hashlib
import itertools
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parent))

import load  # noqa: E402
import plan  # noqa: E402


def check_plan():
    assert [(part, version) for part, version, _ in plan.changes(plan.SHORT)] == [("metadata", 1), ("nodes", 1), ("mounts", 1)]
    assert plan.LONG[:3] == plan.SHORT
    assert set(plan.LONG) == set(itertools.product((0, 1), repeat=3)) and len(plan.LONG) == 8 and plan.LONG[-1] == (0, 0, 0)
    assert len(plan.changes(plan.LONG)) == 8
    assert plan.told((1, 0, 0)) == "metadata new, nodes old, mounts old"
    for wrong in (((1, 1, 0),), ((0, 0, 0),)):
        try:
            plan.changes(wrong)
        except AssertionError:
            continue
        raise AssertionError(f"{wrong} counts as one step")


def check_content():
    data = b"".join(load.content("w1-3-5000"))
    assert len(data) == load.size_of("w1-3-5000") == 5000 and hashlib.sha256(data).hexdigest() == load.digest_of("w1-3-5000")
    assert load.digest_of("w2-3-5000") != load.digest_of("w1-3-5000")
    assert load.digest_of("w1-0-0") == hashlib.sha256(b"").hexdigest()


def check_loads(directory):
    """On this machine's own filesystem: a load does its work, its ledger says what is there, and a fault is found."""
    mount, ledgers = directory / "mount", directory / "ledgers"
    (mount / load.DIRECTORY).mkdir(parents=True)
    ledgers.mkdir()
    with load.Load([mount, mount], ledgers, (1, 3000, 70_000)) as running:
        running.progress()
    names, lines = load.owed(ledgers)
    assert len(names) >= 2 and len(lines) >= 8, (names, lines)
    load.check_everything(mount, names, lines)
    name = max(names, key=load.size_of)
    path = mount / load.DIRECTORY / name
    good = path.read_bytes()
    for fault in (good[:-1], bytes([good[0] ^ 1]) + good[1:], None):
        path.unlink() if fault is None else path.write_bytes(fault)
        try:
            load.check_everything(mount, names, lines)
        except AssertionError as e:
            assert name in str(e), e
            continue
        raise AssertionError("a fault is not found")
    path.write_bytes(good)
    (mount / load.JOURNAL).write_bytes((mount / load.JOURNAL).read_bytes()[load.LINE:])
    try:
        load.check_everything(mount, names, lines)
    except AssertionError as e:
        assert "journal" in str(e), e
        return
    raise AssertionError("a line that is missing in the journal is not found")


def main():
    check_plan()
    check_content()
    with tempfile.TemporaryDirectory(prefix="stria-versions-", dir=os.environ.get("STRIA_TEST_DIR", "/var/tmp")) as directory:
        check_loads(pathlib.Path(directory))
    print("passed")


main()
