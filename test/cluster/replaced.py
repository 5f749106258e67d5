"""A file that one mount replaces all the time (write new, rename over old): programs on others open the old or the new one, never
ESTALE, and their turn comes."""

import multiprocessing
import os
import time

from stria_cluster import Cluster, main, say, wait_for

SECONDS = 5


def replace(directory, end, told):
    count, wrong = 0, []
    while time.monotonic() < end:
        text = b"%9d\n" % count * 100
        try:
            (directory / "new").write_bytes(text)
            os.rename(directory / "new", directory / "f")
            count += 1
        except OSError as e:
            wrong.append(str(e))
    told.put(("replaced", count, wrong))


def read(directory, end, told):
    count, wrong = 0, []
    while time.monotonic() < end:
        try:
            with open(directory / "f", "rb", buffering=0) as f:
                lines = f.read(10_000).splitlines()
            if len(lines) != 100 or len(set(lines)) != 1:
                wrong.append(f"a mix: {len(lines)} lines, {set(lines)}")
            count += 1
        except OSError as e:
            wrong.append(str(e))
    told.put(("read", count, wrong))


def files_of(mount):
    s = os.statvfs(mount)
    return s.f_files - s.f_ffree


def run(writer, readers):
    told, end = multiprocessing.Queue(), time.monotonic() + SECONDS
    jobs = [multiprocessing.Process(target=replace, args=(writer, end, told))]
    jobs += [multiprocessing.Process(target=read, args=(r, end, told)) for r in readers]
    for j in jobs:
        j.start()
    results = sorted(told.get(timeout=SECONDS + 60) for _ in jobs)
    for j in jobs:
        j.join()
    for what, count, wrong in results:
        assert not wrong, (what, count, len(wrong), wrong[:3])
        assert count >= 10, results
    say(", ".join(f"{what} {count}" for what, count, _ in results))


def scenario():
    with Cluster(nodes=5, disks=1, layout="raid5:4+1") as c:
        other = c.dir / "other"
        other.mkdir()
        c.stria("dev", "mount", "--dir", c.cluster, "--at", other)
        (c.mount / "d").mkdir()
        (c.mount / "d/f").write_bytes(b"%9d\n" % 0 * 100)
        here, there = c.mount / "d", other / "d"
        run(here, [there, there])
        run(here, [here, there])
        assert sorted(os.listdir(there)) == ["f"]
        # What was replaced is freed: the root, its directory and the file are left.
        wait_for("the replaced files are freed", lambda: files_of(c.mount) == 3, 30)
        c.fsck()


main(scenario)
