"""cp clones: copies share the stripes, and each lives on whatever happens to the others, to the metadata server
or to a node. When the last copy goes, so do the stripes."""

import hashlib
import os
import subprocess

from stria_cluster import COMMAND_S, MIB, Cluster, digest_of_file, main, say, wait_for

SIZE = 64 * MIB
EDIT = b"changed"
EDIT_AT = 5 * MIB + 1000


def copy(source, target):
    subprocess.run(["cp", source, target], check=True, timeout=COMMAND_S)


def edited(path):
    """Changes a few bytes of the file; gives its digest now."""
    content = bytearray(path.read_bytes())
    content[EDIT_AT:EDIT_AT + len(EDIT)] = EDIT
    with open(path, "r+b", buffering=0) as f:
        f.seek(EDIT_AT)
        f.write(EDIT)
        os.fsync(f.fileno())
    return len(content), hashlib.sha256(content).hexdigest()


def scenario():
    with Cluster(nodes=4, disks=1, layout="raid5:2+1") as c:
        c.write("original", SIZE)
        before = c.status()["stripes"]
        copy(c.mount / "original", c.mount / "copy")
        assert c.status()["stripes"] == before, "a copy has stripes of its own"
        c.files["copy"] = c.files["original"]
        copy(c.mount / "copy", c.mount / "edited")
        c.files["edited"] = edited(c.mount / "edited")
        c.verify()
        os.unlink(c.mount / "original")
        del c.files["original"]
        c.fsck()
        say("a copy, an edited copy, and the original gone")
        c.kill("meta")
        c.start("meta")
        c.kill("n2")
        c.fresh_mount()
        c.verify()
        c.start("n2")
        c.wait_whole()
        c.fsck()
        for name in c.files:
            assert digest_of_file(c.mount / name) == c.files[name][1]
            os.unlink(c.mount / name)
        wait_for("the last copy takes the stripes with it", lambda: c.status()["stripes"] == 0, 60)
        c.fsck()


if __name__ == "__main__":
    main(scenario)
