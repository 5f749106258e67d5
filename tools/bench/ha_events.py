"""What clients notice when metadata servers, or etcd, are lost, and how soon one that was lost is in sync again."""

import contextlib
import datetime
import os
import pathlib
import shutil
import time

from ha_loop import failures, loop, missing, plain_load, small_files, took_ms
from ha_table import longest_gap, percentile

BEFORE_S, AFTER_S = 1.0, 1.5  # of the loop, around an event
PAUSE_S = 0.005  # of the loop between two files: it is to notice, not to load
DIVERGES_S = 0.15  # plain changes wait when a member has not received them for 250 ms
LOAD_PROCESSES, LOAD_RATE = 8, 1000
MIB = 1 << 20
FILL_BYTES = 32 * 1024  # of an attribute
DEAD_MOUNT = "mount3"


class Events:
    """Of one cluster. `note(text)`: a line for whoever watches."""

    def __init__(self, cluster, note):
        self.cluster, self.note = cluster, note
        self.number = 0
        self.seen = {"failovers": 0, "events": 0, "acknowledged": 0, "missing": 0, "failed": 0}

    def directory(self):
        self.number += 1
        return self.cluster.mount / f"event{self.number}"

    def check(self, records, directory, failover):
        """Counts what was lost or failed of a loop, through the other mount."""
        lost, failed = missing(records, self.cluster.other_mount / directory.relative_to(self.cluster.mount)), failures(records)
        for key, value in (("failovers", int(failover)), ("events", 1), ("acknowledged", len(records) - failed),
                           ("missing", len(lost)), ("failed", failed)):
            self.seen[key] += value
        if lost:
            self.note(f"LOST: files {lost[:10]} of {directory.name}, {len(lost)} of {len(records)}")
        if failed:
            self.note(f"{failed} operations failed with errno {sorted({e for _, _, e in records if e})}")

    # ---- Stalls ----

    def stall(self, key, failover):
        """The longest gap of a loop around one event, in seconds."""
        self.cluster.settle()
        undo = contextlib.ExitStack()
        happens = getattr(self, key)
        with loop(small_files, self.directory(), True, PAUSE_S) as files:
            files.wait_for(1)
            time.sleep(BEFORE_S)
            began = time.monotonic()
            happens(undo)
            files.goes_on(time.monotonic())
            time.sleep(AFTER_S)
            until = time.monotonic()
            records = files.end()
            gap = longest_gap([end for _, end, error in records if not error], began, until)
            at = datetime.datetime.now() - datetime.timedelta(seconds=time.monotonic() - began)
            self.note(f"{key}: stalled for {gap:.2f} s, the event was at {at:%H:%M:%S}")
            undo.close()
            self.cluster.settle()
            self.check(records, files.directory, failover)
        return gap

    def switchover(self, _undo):
        self.cluster.ask("meta", "promote", "--yes")

    def kill(self, undo):
        name = self.cluster.primary()
        undo.callback(self.cluster.start, name)
        self.cluster.kill(name)

    def stop(self, undo):
        undo.callback(self.cluster.go_on)
        self.cluster.stop(self.cluster.primary())

    def cutoff(self, undo):
        name = self.cluster.primary()
        undo.callback(self.cluster.start, name)
        undo.callback(self.cluster.go_on)
        self.cluster.cut_off(name)

    def deadmount(self, undo):
        at = self.cluster.place / DEAD_MOUNT
        if DEAD_MOUNT not in self.cluster.names("mount"):
            self.cluster.ask("dev", "mount", "--dir", self.cluster.dir, "--at", at, "--node", "n3")
        (at / f"held{self.number}").write_bytes(b"by a lease of its own")
        self.cutoff(undo)
        undo.callback(self.cluster.mount_again, DEAD_MOUNT, at)
        self.cluster.lose_mount(DEAD_MOUNT)

    def standby(self, undo):
        name = self.cluster.standbys()[0]
        undo.callback(self.cluster.start, name)
        self.cluster.kill(name)

    def standbystop(self, undo):
        undo.callback(self.cluster.go_on)
        self.cluster.stop(self.cluster.standbys()[0])

    # ---- etcd ----

    def etcd(self, seconds):
        """(p99 before, p99 during, failed operations) of one outage of all its members."""
        self.cluster.settle()
        failed = self.seen["failed"]
        with loop(small_files, self.directory(), True, PAUSE_S) as files:
            files.wait_for(1)
            time.sleep(BEFORE_S)
            began = time.monotonic()
            time.sleep(seconds)
            till = time.monotonic()
            for name in self.cluster.names("etcd"):
                self.cluster.kill(name)
            lost = time.monotonic()
            time.sleep(seconds)
            until = time.monotonic()
            records = files.end()
            self.cluster.start_all()
            self.cluster.settle()
            self.check(records, files.directory, False)
        before, during = (percentile(took_ms(records, *when), 99) for when in ((began, till), (lost, until)))
        self.note(f"etcd: p99 {before:.1f} ms before, {during:.1f} ms meanwhile")
        return before, during, self.seen["failed"] - failed

    # ---- Coming back ----

    def under_load(self, happens, failover):
        """(seconds until the one that was lost is in sync, plain operations per second): `happens(files, rate_for)` loses one, and
        gives its name and that rate. The load goes on until it is back."""
        self.cluster.settle()
        directory = self.directory()
        with loop(small_files, directory / "files", True, PAUSE_S) as files, plain_load(directory, LOAD_PROCESSES, LOAD_RATE) as loads:
            for one in (files, *loads):
                one.wait_for(5)
            name, rate = happens(files, lambda seconds: rate_for(loads, seconds))
            seconds = self.cluster.start(name)
            records = files.end()
            failed = sum(failures(one.end()) for one in loads)
            self.cluster.settle()
            self.check(records, files.directory, failover)
            self.seen["failed"] += failed
            if failed:
                self.note(f"{failed} plain operations failed")
        shutil.rmtree(directory, ignore_errors=True)
        self.note(f"in sync again after {seconds:.2f} s, at {rate:,.0f} plain operations/s")
        return seconds, rate

    def outage(self, seconds):
        def happens(_files, rate):
            name = self.cluster.standbys()[0]
            self.cluster.kill(name)
            return name, rate(seconds)
        return self.under_load(happens, False)

    def diverged(self):
        """The primary makes changes that no other one gets, and is killed with them."""
        def happens(files, rate):
            name, seen = self.cluster.primary(), rate(BEFORE_S)
            self.cluster.sever(name)
            time.sleep(DIVERGES_S)
            self.cluster.kill(name)
            self.cluster.go_on()
            files.goes_on(time.monotonic())
            return name, seen
        return self.under_load(happens, True)

    def fill(self, mib, tell):
        """Bytes of metadata that do not compress, and that no data server has. `tell(part)` is called as it goes."""
        directory, count = self.cluster.mount / "fill", mib * MIB // FILL_BYTES
        directory.mkdir()
        for i in range(count):
            path = directory / f"{i}"
            path.touch()
            os.setxattr(path, "user.fill", os.urandom(FILL_BYTES))
            tell((i + 1) / count)
        handle = os.open(directory, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)

    def copy(self, mib, seconds):
        """{rate in MiB/s, seconds, p99 before and during} of a member with an empty directory."""
        name = self.one_to_copy()
        log = pathlib.Path(self.cluster.process(name)["log"])
        self.cluster.kill(name)
        with loop(small_files, self.directory(), True, PAUSE_S) as files:
            files.goes_on(time.monotonic())  # it has left the set
            self.cluster.wipe(name)
            began = time.monotonic()
            time.sleep(seconds)
            started, logged = time.monotonic(), log.stat().st_size
            self.cluster.start(name)
            until = time.monotonic()
            records = files.end()
            self.check(records, files.directory, False)
        asked = self.asked_at(log, logged, started, until)
        before, during = (percentile(took_ms(records, *when), 99) for when in ((began, started), (started, until)))
        self.note(f"copied {mib} MiB in {until - asked:.2f} s; p99 {before:.1f} ms before, {during:.1f} ms meanwhile")
        return {"rate": mib / (until - asked), "seconds": until - started, "before": before, "during": during}

    def one_to_copy(self):
        """`stria dev` starts its first metadata server as the one that makes the cluster, which an empty directory must not."""
        self.cluster.settle()
        if not self.others():
            self.cluster.ask("meta", "promote", "--yes")
            self.cluster.settle()
        return self.others()[0]

    def others(self):
        return [name for name in self.cluster.standbys() if name != self.cluster.names("meta")[0]]

    def asked_at(self, log, since, started, until):
        """When it had become a member and could begin to copy: on this program's clock, by its log's."""
        for line in log.read_bytes()[since:].decode(errors="replace").splitlines():
            if "to become one of the metadata servers" in line and line.rstrip().endswith("done"):
                wall = wall_seconds(line.split()[0])
                return min(max(wall - time.time() + time.monotonic(), started), until)
        return started


def rate_for(loads, seconds):
    done, began = sum(len(one.log) for one in loads), time.monotonic()
    time.sleep(seconds)
    return (sum(len(one.log) for one in loads) - done) / (time.monotonic() - began)


def wall_seconds(stamp):
    """Of a log's line, as 2026-11-29T12:01:13.240+00:00."""
    return datetime.datetime.fromisoformat(stamp).timestamp()
