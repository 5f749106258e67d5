"""The network between a mount and the metadata server is away for 30 s, twice a lease: nobody loses an open file, but of
one that another mount has changed meanwhile. What passes between them goes through a relay here that stops."""

import asyncio
import errno
import fcntl
import os
import subprocess
import threading
import time

from stria_cluster import MIB, Cluster, main, say, wait_for

GAP_S = 30
TIMEOUT_S = 60


class Relay:
    """Carries bytes both ways; while it is cut, none, and whatever comes waits, as packets that are sent again do."""

    def __init__(self, to):
        host, port = to.rsplit(":", 1)
        self.to = (host, int(port))
        self.loop = asyncio.new_event_loop()
        self.open = None
        started = threading.Event()

        def run():
            asyncio.set_event_loop(self.loop)
            self.open = asyncio.Event()
            self.open.set()
            self.server = self.loop.run_until_complete(asyncio.start_server(self.carry, "127.0.0.1", 0))
            started.set()
            self.loop.run_forever()

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        started.wait()
        self.address = "127.0.0.1:%d" % self.server.sockets[0].getsockname()[1]

    async def carry(self, reader, writer):
        await self.open.wait()
        try:
            far_reader, far_writer = await asyncio.open_connection(*self.to)
            await asyncio.gather(self.copy(reader, far_writer), self.copy(far_reader, writer))
        except OSError:
            pass

    async def copy(self, reader, writer):
        try:
            while piece := await reader.read(1 << 16):
                await self.open.wait()
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    def cut(self):
        self.loop.call_soon_threadsafe(self.open.clear)

    def heal(self):
        self.loop.call_soon_threadsafe(self.open.set)


class Mount:
    def __init__(self, c, relay):
        self.path = c.dir / "away"
        self.path.mkdir()
        self.log = c.cluster / "log/away.log"
        self.process = subprocess.Popen([c.program("stria-mount"), "-f", "--meta", relay.address, *c.mount_trust(),
                                         "--timeout", f"{TIMEOUT_S}s", "--log", self.log, self.path], stdin=subprocess.DEVNULL)
        wait_for(f"{self.path} is mounted", lambda: self.log.exists() and "is mounted" in self.log.read_text(), 60)

    def end(self):
        subprocess.run(["umount", self.path], timeout=120)
        self.process.wait(60)


class Writer(threading.Thread):
    """Writes a line and syncs it, all the time."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.file = os.open(path, os.O_CREAT | os.O_RDWR)
        self.lines, self.error, self.ends, self.longest = 0, None, False, 0

    def run(self):
        try:
            while not self.ends:
                began = time.monotonic()
                os.write(self.file, b"%07d\n" % self.lines)
                os.fsync(self.file)
                self.longest = max(self.longest, time.monotonic() - began)
                self.lines += 1
                time.sleep(0.05)
        except OSError as e:
            self.error = e

    def check(self, path):
        self.ends = True
        self.join(TIMEOUT_S)
        assert not self.is_alive(), "a write hangs"
        assert self.error is None, f"after {self.lines} lines: {self.error}"
        assert path.read_bytes() == b"".join(b"%07d\n" % i for i in range(self.lines)), "lines are missing"
        os.close(self.file)


def make(path, content):
    path.write_bytes(content)
    return path


def scenario():
    with Cluster(nodes=3, disks=1) as c:
        relay = Relay(next(p["address"] for p in c.processes() if p["kind"] == "meta"))
        m = Mount(c, relay)
        try:
            through_gap(c, m, relay)
        finally:
            relay.heal()
            m.end()


def through_gap(c, m, relay):
    big = os.urandom(8 * MIB)
    for name in ("read", "dirty", "touched", "locked", "unlinked"):
        make(m.path / name, big if name == "read" else b"a" * 10000)
    reading = os.open(m.path / "read", os.O_RDONLY)
    assert os.pread(reading, MIB, 0) == big[:MIB]
    dirty, touched, locked, unlinked = (os.open(m.path / n, os.O_RDWR) for n in ("dirty", "touched", "locked", "unlinked"))
    fcntl.lockf(locked, fcntl.LOCK_EX)
    os.unlink(m.path / "unlinked")
    writer = Writer(m.path / "log")
    writer.start()
    wait_for("lines are written", lambda: writer.lines > 20, 60)

    relay.cut()
    began = time.monotonic()
    os.pwrite(dirty, b"mine", 0)
    os.pwrite(touched, b"mine", 0)
    say(f"cut off for {GAP_S} s")
    # The other mount has what it wants when the lease is over, and not before.
    assert (c.mount / "dirty").read_bytes() == b"a" * 10000
    with open(c.mount / "touched", "r+b") as f:
        f.seek(100)
        f.write(b"theirs")
    say(f"after {time.monotonic() - began:.0f} s the other mount could write")
    time.sleep(max(0, began + GAP_S - time.monotonic()))
    relay.heal()

    assert os.pread(reading, len(big), 0) == big
    assert os.pread(unlinked, 10000, 0) == b"a" * 10000
    os.pwrite(unlinked, b"more", 0)
    os.fsync(unlinked)
    os.fsync(dirty)
    assert (c.mount / "dirty").read_bytes() == b"mine" + b"a" * 9996
    os.pwrite(dirty, b"then", 4)
    os.fsync(dirty)
    other = os.open(c.mount / "locked", os.O_RDWR)
    try:
        fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        raise AssertionError("the lock was lost")
    except BlockingIOError:
        pass
    os.close(other)
    say("open files, a lock and an unlinked file outlived it")

    try:
        os.fsync(touched)
        raise AssertionError("fsync of what another mount had changed meanwhile")
    except OSError as e:
        assert e.errno == errno.EIO, e
    want = b"a" * 100 + b"theirs" + b"a" * 9894
    assert (c.mount / "touched").read_bytes() == want
    assert (m.path / "touched").read_bytes() == want
    wait_for("the mount's log names the file", lambda: "/touched" in m.log.read_text(), 30)
    say("what another mount had changed is as that left it, and who wrote here has EIO")
    writer.check(c.mount / "log")
    say(f"{writer.lines} lines were written and synced through the gap, one took {writer.longest:.0f} s")
    for f in (reading, dirty, touched, locked, unlinked):
        try:
            os.close(f)
        except OSError as e:
            assert f == touched and e.errno == errno.EIO, e


if __name__ == "__main__":
    main(scenario)
