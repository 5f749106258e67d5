"""Twenty files written in parallel while a data server is killed with -9: no write fails, all verify."""

import multiprocessing

from stria_cluster import MIB, Cluster, main, say, wait_for, write_file

FILES = 20
FILE_BYTES = 32 * MIB + 12345


def write_one(mount, number, written, acknowledged):
    name = f"parallel/{number}"
    acknowledged.put((name, *write_file(mount, name, FILE_BYTES + number, counter=written)))


def scenario():
    with Cluster(nodes=5, disks=2, layout="raid5:4+1") as c:
        written = multiprocessing.Value("q", 0)
        acknowledged = multiprocessing.Queue()
        writers = [multiprocessing.Process(target=write_one, args=(c.mount, i, written, acknowledged), daemon=True)
                   for i in range(FILES)]
        for w in writers:
            w.start()
        wait_for("a fifth is written", lambda: written.value > FILES * FILE_BYTES / 5, 60, 0.01)
        c.kill("n3")
        unfinished = sum(w.is_alive() for w in writers)
        say(f"n3 was killed while {unfinished} of {FILES} files were being written")
        assert unfinished > 0, "all was written before the kill"
        for w in writers:
            w.join(300)
            assert w.exitcode == 0, "a write failed or hangs"
        for _ in writers:
            name, size, digest = acknowledged.get(timeout=10)
            c.files[name] = (size, digest)
        say("all writes were acknowledged")
        c.fresh_mount()
        c.verify()
        say("without n3: all bytes are right")
        c.start("n3")
        c.fresh_mount()
        c.verify()
        say("with n3 back: all bytes are right")
        c.fsck()


main(scenario)
