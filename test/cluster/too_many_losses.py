"""More nodes die than the layout stands: exactly the lost ranges give EIO, never wrong bytes, and are listed; all
else is read and written as ever. When the nodes come back everything heals. raid5:4+1 on seven nodes."""

import errno
import json
import os

from stria_cluster import BLOCK, MIB, Cluster, chunks_of, main, say, wait_for

FILES = 14
FILE_BYTES = 10 * MIB + 17
SMALL = 30 * 1024


def readable(c, name):
    """Compares what can be read; gives the ranges that give EIO."""
    size, _ = c.files[name]
    bad = []
    with open(c.mount / name, "rb", buffering=0) as f:
        at = 0
        for piece in chunks_of(size, f"{name} {size}"):
            for begin in range(0, len(piece), BLOCK // 4):
                want = piece[begin:begin + BLOCK // 4]
                f.seek(at + begin)
                try:
                    while want:  # what comes before a lost range may come alone
                        got = f.read(len(want))
                        assert got and want.startswith(got), f"{name} has other bytes at {f.tell() - len(got)}"
                        want = want[len(got):]
                except OSError as e:
                    assert e.errno == errno.EIO, e
                    bad.append((f.tell(), len(want)))
            at += len(piece)
    return bad


def ranges_of(c, name):
    """Range and node of the file's bytes."""
    rows = json.loads(c.stria("where", c.mount / name, "--json").stdout)["ranges"]
    return [(r["offset"], r["length"], r["node"]) for r in rows if r["role"].startswith("data")]


def read_beside(c, name, ranges, dead):
    """Reads the ranges in turn, as a scan does. Those on living nodes are all there, and those on dead ones either are made
    from the others, or give EIO; the bytes that do."""
    size, _ = c.files[name]
    want, lost = b"".join(chunks_of(size, f"{name} {size}")), 0
    with open(c.mount / name, "rb", buffering=0) as f:
        for offset, length, node in sorted(ranges):
            try:
                got = os.pread(f.fileno(), length, offset)
            except OSError as e:
                assert e.errno == errno.EIO, e
                assert node in dead, f"{name} at {offset}+{length} is on {node}, which lives, and cannot be read"
                lost += length
                continue
            assert got and want.startswith(got, offset), f"{name} has other bytes at {offset}"
            assert len(got) == length or node in dead, f"{name} at {offset}: {len(got)} of {length} bytes"
    return lost


def scenario():
    with Cluster(nodes=7, disks=1, layout="raid5:4+1") as c:
        for i in range(FILES):
            c.write(f"f/{i}", FILE_BYTES + i)
        c.write("small", SMALL)
        ranges = {name: ranges_of(c, name) for name in c.files if name != "small"}
        for node in ("n2", "n3"):
            c.kill(node)
        wait_for("both count as down", lambda: {c.node(n)["state"] for n in ("n2", "n3")} == {"down"}, 60)
        c.fresh_mount()
        status = c.stria("status", check=False)
        assert status.returncode == 2 and "AT RISK" in status.stdout, status.stdout
        listed = {f["path"].lstrip("/") for f in c.status()["lost_files"]}
        lost = {name for name in c.files if readable(c, name)}
        assert lost, "nothing was lost; the test shows nothing"
        assert len(lost) < FILES, f"everything was lost ({len(listed)} files are listed); the test shows nothing"
        assert lost <= listed, f"EIO without being listed: {lost - listed}"
        say(f"{len(lost)} of {len(c.files)} files have ranges that give EIO, {len(listed)} are listed; no wrong byte was read")
        bytes_lost = sum(read_beside(c, name, ranges[name], ("n2", "n3")) for name in sorted(lost))
        say(f"{bytes_lost / MIB:.1f} MiB of them are lost, and all that lies on living nodes can be read")
        c.write("meanwhile", FILE_BYTES)
        c.verify(["meanwhile", "small"])
        for node in ("n2", "n3"):
            c.start(node)
        wait_for("nothing is lost any more", lambda: c.status()["lost_stripes"] == 0, 60)
        c.wait_whole()
        c.fresh_mount()
        c.verify()
        c.fsck()
        say("both are back: all bytes are right")


main(scenario)
