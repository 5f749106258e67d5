"""stria-meta is killed with -9 during writes and started again: the mount resumes by itself, no write fails,
and nothing that fsync or close acknowledged is lost."""

import multiprocessing
import os
import random
import time

from stria_cluster import MIB, Cluster, main, say, write_file

WRITERS = 4
KILLS = 3
BETWEEN_S = 3.0


def write_until(mount, writer, stop, acknowledged):
    rng = random.Random(writer)
    number = 0
    while not stop.is_set():
        size = rng.choice([0, 1, 4096, 4097, rng.randrange(64 * 1024), rng.randrange(3 * MIB)])
        name = f"writer{writer}/{number}"
        written = write_file(mount, name + ".part", size, sync=rng.random() < 0.7)  # else close makes it durable
        os.rename(mount / (name + ".part"), mount / name)
        directory = os.open((mount / name).parent, os.O_RDONLY)
        os.fsync(directory)  # now the new name is durable too
        os.close(directory)
        acknowledged.append((name, *written))
        number += 1


def scenario():
    with Cluster(nodes=5, disks=1, layout="raid5:4+1") as c, multiprocessing.Manager() as manager:
        stop = multiprocessing.Event()
        acknowledged = manager.list()
        writers = [multiprocessing.Process(target=write_until, args=(c.mount, i, stop, acknowledged), daemon=True)
                   for i in range(WRITERS)]
        for w in writers:
            w.start()
        before = 0
        for _ in range(KILLS):
            time.sleep(BETWEEN_S)
            assert all(w.is_alive() for w in writers), "a writer failed"
            before = len(acknowledged)
            c.kill("meta")
            time.sleep(1.0)
            c.start("meta")
            say(f"stria-meta was killed and started after {before} files")
        time.sleep(BETWEEN_S)
        stop.set()
        for w in writers:
            w.join(120)
            assert w.exitcode == 0, "a writer failed or hangs"
        c.files = {name: (size, digest) for name, size, digest in acknowledged}
        assert len(c.files) > before, "nothing was written after the last restart"
        say(f"{len(c.files)} files were acknowledged; the mount went on by itself")
        c.verify()
        c.fresh_mount()
        c.verify()
        say("all of them are there, all bytes are right")
        c.fsck()


main(scenario)
