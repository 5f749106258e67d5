"""A node falls silent: nothing refuses, packets just are not answered. Once one that everybody misses (its process is stopped,
as good as a PC without power), once one that the metadata server hears and that clients cannot reach (it is behind a relay
that is stopped). Durable writes and reads go on within seconds, also the later ones; what was written is right.

The longest write + fsync and the longest read are printed. They were 15 s and more when writers waited for such a node."""

import multiprocessing
import os
import select
import signal
import socket
import time

from stria_cluster import CHUNK, MIB, Cluster, main, say, wait_for, write_file

FILE_BYTES = 3 * MIB
BEFORE_S = 2
GAP_S = 15  # a node that is not heard is suspect after 3 s and down after 10 s
MOST_S = 6  # half of this on a machine of its own
RELAY_BYTES = 1 << 16


def write_on(mount, stop, written):
    """Files, one after another: name, size, digest, seconds."""
    number = 0
    while not stop.is_set():
        name = f"silent/{os.getpid()}-{number}"
        began = time.monotonic()
        size, digest = write_file(mount, name, FILE_BYTES)
        written.put((name, size, digest, time.monotonic() - began))
        number += 1
        stop.wait(0.2)


def read_on(mount, names, stop, seconds):
    """Past the caches: seconds of each file."""
    turn = 0
    while not stop.is_set():
        began = time.monotonic()
        fd = os.open(mount / names[turn % len(names)], os.O_RDONLY | os.O_DIRECT)
        while os.read(fd, CHUNK):
            pass
        os.close(fd)
        seconds.put(time.monotonic() - began)
        turn += 1
        stop.wait(0.2)


def drain(queue, out):
    while not queue.empty():
        out.append(queue.get(timeout=10))


def run_gap(c, what, begin, end):
    names = sorted(c.files)
    stop = multiprocessing.Event()
    written, seconds = multiprocessing.Queue(), multiprocessing.Queue()
    workers = [multiprocessing.Process(target=write_on, args=(c.mount, stop, written), daemon=True) for _ in range(2)]
    workers.append(multiprocessing.Process(target=read_on, args=(c.mount, names, stop, seconds), daemon=True))
    for w in workers:
        w.start()
    time.sleep(BEFORE_S)
    writes, reads, usual_writes = [], [], []
    wait_for("files are written before", lambda: drain(written, usual_writes) or usual_writes, 60)
    begin()
    try:
        until = time.monotonic() + GAP_S
        while time.monotonic() < until:
            time.sleep(0.5)
            drain(written, writes)
            drain(seconds, reads)
    finally:
        end()
    stop.set()
    for w in workers:
        while w.is_alive():
            drain(written, writes)
            drain(seconds, reads)
            w.join(0.5)
        assert w.exitcode == 0, "a reader or writer failed"
    drain(written, writes)
    drain(seconds, reads)
    for name, size, digest, _ in usual_writes + writes:
        c.files[name] = (size, digest)
    stalls = sum(took > 1.5 for *_, took in writes)
    longest, longest_read = max(w[3] for w in writes), max(reads)
    say(f"{what}: {len(writes)} durable writes, the longest {longest:.1f} s (before: {max(w[3] for w in usual_writes):.1f} s), "
        f"{stalls} took more than 1.5 s; {len(reads)} reads, the longest {longest_read:.1f} s")
    assert longest < MOST_S, f"a durable write took {longest:.1f} s"
    assert longest_read < MOST_S, f"a read took {longest_read:.1f} s"


def all_right(c):
    wait_for("all nodes are up", lambda: all(c.node(n)["state"] == "up" for n in ("n1", "n2", "n3", "n4", "n5")), 60)
    c.wait_whole()
    c.fresh_mount()
    c.verify()
    c.fsck()


def without_power(c):
    pid = next(p["pid"] for p in c.processes() if p["name"] == "n2")
    run_gap(c, "a node that nobody hears", lambda: os.kill(pid, signal.SIGSTOP), lambda: os.kill(pid, signal.SIGCONT))
    all_right(c)


def relay(listener, port):
    """Bytes both ways between whoever connects and the port, until it is killed."""
    peers = {}
    while True:
        for s in select.select([listener, *peers], [], [])[0]:
            if s is listener:
                a, b = listener.accept()[0], socket.create_connection(("127.0.0.1", port))
                peers[a], peers[b] = b, a
                continue
            if s not in peers:
                continue
            try:
                data = s.recv(RELAY_BYTES)
                if data:
                    peers[s].sendall(data)
                    continue
            except OSError:
                pass
            other = peers.pop(s)
            peers.pop(other)
            s.close()
            other.close()


def out_of_reach(c):
    arguments = c.arguments("n3")
    port = int(next(a for a in arguments if a.startswith("127.0.0.1:") and arguments[arguments.index(a) - 1] == "--listen")
               .rsplit(":", 1)[1])
    listener = socket.create_server(("127.0.0.1", 0))
    process = multiprocessing.Process(target=relay, args=(listener, port), daemon=True)
    process.start()
    c.kill("n3")
    c.start_with("n3", [*arguments, "--address", f"127.0.0.1:{listener.getsockname()[1]}"])
    try:
        wait_for("n3 is written to through the relay", lambda: (c.write("silent/relayed", FILE_BYTES), True)[1], 60)
        c.wait_whole()

        def heard():
            assert c.node("n3")["state"] == "up", "the metadata server is to hear it all the time"
            os.kill(process.pid, signal.SIGCONT)
        run_gap(c, "a node that clients cannot reach", lambda: os.kill(process.pid, signal.SIGSTOP), heard)
        all_right(c)
    finally:
        c.end_own("n3")
        process.kill()
        process.join(10)


def scenario():
    with Cluster(nodes=5, disks=2, layout="raid5:3+1") as c:
        for i in range(12):
            c.write(f"f/{i}", FILE_BYTES + i)
        without_power(c)
        out_of_reach(c)


main(scenario)
