"""PostgreSQL under pgbench while a node, then the metadata server, are killed -9 and started again, over and over.

Its processes are signalled all the time (timers, latches), and PostgreSQL panics if fsync or fdatasync fails once. At the
end no transaction has failed, its log tells of no error, and the sums of accounts, branches, tellers and history agree; so
they do after a fast restart and after a crash, and every index fits its table."""

import contextlib
import pathlib
import pwd
import re
import shutil
import subprocess
import tempfile
import time

from place import command, need
from stria_cluster import say

HELP = "PostgreSQL under pgbench while a node and the metadata server are killed and come back; sums, restart, crash"
USER = "postgres"
START_S = 300
CHECK_S = 600
SETTINGS = """
listen_addresses = ''
shared_buffers = 16MB
checkpoint_timeout = 30s
max_wal_size = 64MB
min_wal_size = 32MB
restart_after_crash = off
# A signal to each process at work every few milliseconds, and to those that wait for each other.
client_connection_check_interval = 20ms
deadlock_timeout = 20ms
autovacuum_naptime = 1s
log_checkpoints = on
"""
BAD = re.compile(r"PANIC|FATAL|ERROR|Interrupted system call|could not|invalid page|checksum")
SUMS = """select (select sum(abalance) from pgbench_accounts), (select sum(bbalance) from pgbench_branches),
                 (select sum(tbalance) from pgbench_tellers), (select coalesce(sum(delta), 0) from pgbench_history),
                 (select count(*) from pgbench_history)"""


def add_options(parser):
    parser.add_argument("--seconds", type=int, default=90, help="of pgbench (90)")
    parser.add_argument("--clients", type=int, default=8, help="of pgbench (8)")
    parser.add_argument("--scale", type=int, default=3, help="of pgbench: 16 MB each (3)")
    parser.add_argument("--away", type=float, default=5, help="seconds that what was killed stays away (5)")


class Postgres:
    def __init__(self, data, run_dir):
        self.data, self.run_dir = data, run_dir
        self.log = run_dir / "log"
        self.programs = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))

    def words(self, program, *words):
        return ["runuser", "-u", USER, "--", self.programs / program, *words]

    def call(self, program, *words, timeout=CHECK_S):
        return command(*self.words(program, *words), cwd="/", timeout=timeout)

    def at(self, *words):
        return ["-h", self.run_dir, *words, "postgres"]

    def make(self):
        self.call("initdb", "-D", self.data, "-A", "trust", "--data-checksums", "--no-locale", "-E", "UTF8")
        with open(self.data / "postgresql.conf", "a", encoding="utf-8") as f:
            f.write(SETTINGS + f"unix_socket_directories = '{self.run_dir}'\n")

    def start(self):
        self.call("pg_ctl", "start", "-w", "-t", START_S, "-D", self.data, "-l", self.log, timeout=2 * START_S)

    def stop(self, how):
        self.call("pg_ctl", "stop", "-w", "-t", START_S, "-m", how, "-D", self.data, timeout=2 * START_S)

    def check_log(self):
        lines = self.log.read_text(errors="replace").splitlines()
        bad = [line for line in lines if BAD.search(line)]
        assert not bad, "PostgreSQL's log has:\n" + "\n".join(bad[:20])

    def check_sums(self, transactions):
        sums = [int(n) for n in self.call("psql", *self.at("-XAtF", " ", "-c", SUMS)).split()]
        assert sums[0] == sums[1] == sums[2] == sums[3], f"accounts, branches, tellers, history: {sums}"
        assert sums[4] == transactions, f"{transactions} transactions were committed, {sums[4]} are there"


def kill_and_start(args, place, bench):
    """Until pgbench ends. How often."""
    kills = 0
    while place.cluster and bench.poll() is None:
        name = ["n3", "meta"][kills % 2]
        time.sleep(args.away)
        place.cluster.kill(name)
        time.sleep(args.away)
        place.cluster.start(name)
        kills += 1
    return kills


def bench(args, place, pg):
    """How many transactions it committed."""
    words = pg.words("pgbench", *pg.at("-n", "-c", args.clients, "-j", 2, "-T", args.seconds, "--random-seed", args.seed))
    p = subprocess.Popen([str(w) for w in words], cwd="/", text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    try:
        kills = kill_and_start(args, place, p)
        out = p.communicate(timeout=CHECK_S)[0]
    except BaseException:
        p.kill()
        p.wait(timeout=60)
        raise
    pg.check_log()  # why, if pgbench failed
    assert p.returncode == 0, f"pgbench gave {p.returncode}:\n{out}"
    failed = re.search(r"number of failed transactions: (\d+)", out)
    assert failed and int(failed[1]) == 0, out
    assert not place.cluster or kills >= 2, f"only {kills} of a node and the metadata server were killed: pgbench was too short"
    done = int(re.search(r"number of transactions actually processed: (\d+)", out)[1])
    say(f"{done} transactions, none failed; servers were killed {kills} times")
    return done


def run(args, place):
    need(("psql", "postgresql"), ("pgbench", "postgresql-contrib"))
    user = pwd.getpwnam(USER)
    if place.cluster:
        place.cluster.dir.chmod(0o711)
    data = place.dir / "postgres"
    data.mkdir(mode=0o700)
    shutil.chown(data, user.pw_uid, user.pw_gid)
    with contextlib.ExitStack() as after:
        run_dir = pathlib.Path(after.enter_context(tempfile.TemporaryDirectory(prefix="stria-pg-")))  # sockets have short names
        shutil.chown(run_dir, user.pw_uid, user.pw_gid)
        pg = Postgres(data, run_dir)
        pg.make()
        pg.start()

        def stop_if_it_runs():
            if (data / "postmaster.pid").exists():
                pg.stop("immediate")
        after.callback(stop_if_it_runs)
        pg.call("pgbench", *pg.at("-i", "-q", "-s", args.scale))
        done = bench(args, place, pg)
        pg.check_sums(done)
        pg.stop("fast")
        pg.start()
        pg.check_sums(done)
        pg.stop("immediate")  # as if it had crashed
        pg.start()
        pg.check_sums(done)
        pg.call("pg_amcheck", *pg.at("--install-missing", "--heapallindexed"))
        say("the sums agree, after a restart and a crash too, and every index fits")
        pg.stop("fast")
