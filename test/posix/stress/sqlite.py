"""sqlite with concurrent writers that are killed midway.

Each writer commits rows and reports each committed one over a pipe. After kill -9 of all writers, and after
kill -9 of the mount under them: PRAGMA integrity_check is ok, every reported row is there with its bytes, and
every row that is there is whole."""

import hashlib
import multiprocessing
import os
import random
import signal
import sqlite3
import time

from stria_cluster import is_running, say, wait_for

HELP = "sqlite with concurrent writers, killed -9 midway (programs, then the mount); integrity_check, all rows"
BUSY_S = 60


def add_options(parser):
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3, help="of being killed (3)")
    parser.add_argument("--seconds", type=float, default=10, help="of writing in each round (10)")
    parser.add_argument("--journal", default="delete", choices=["delete", "truncate", "persist", "wal"])


def blob_of(writer, number):
    rng = random.Random(writer * 1_000_003 + number)
    return rng.randbytes(rng.choice([10, 500, 5000, 30_000]))


def connect(path, journal):
    db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    db.execute(f"PRAGMA journal_mode={journal}")
    db.execute("PRAGMA synchronous=FULL")
    return db


def write_until_killed(path, journal, writer, first, pipe):
    db = connect(path, journal)
    number = first
    while True:
        many = 1 + number % 3
        db.execute("BEGIN IMMEDIATE")
        for n in range(number, number + many):
            blob = blob_of(writer, n)
            db.execute("INSERT INTO rows VALUES (?, ?, ?, ?)", (writer, n, blob, hashlib.sha256(blob).hexdigest()))
        db.execute("COMMIT")
        number += many
        pipe.send(number)


def check(path, journal, committed):
    db = connect(path, journal)
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok", db.execute("PRAGMA integrity_check").fetchall()
    for writer, upto in committed.items():
        rows = db.execute("SELECT number, data, digest FROM rows WHERE writer=? ORDER BY number", (writer,)).fetchall()
        assert [r[0] for r in rows] == list(range(len(rows))), f"writer {writer}: rows are missing"
        assert len(rows) >= upto, f"writer {writer}: {upto} rows were committed, {len(rows)} are there"
        for number, data, digest in rows:
            assert data == blob_of(writer, number) and hashlib.sha256(data).hexdigest() == digest, (writer, number)
        committed[writer] = len(rows)  # a commit may have been done and not reported
    db.close()
    return sum(committed.values())


def one_round(args, place, path, committed, kill_mount):
    pipes, writers = {}, []
    for i in range(args.writers):
        pipes[i], theirs = multiprocessing.Pipe(duplex=False)
        where = place.dirs[i % len(place.dirs)] / path.name
        p = multiprocessing.Process(target=write_until_killed, args=(where, args.journal, i, committed[i], theirs),
                                    daemon=True)
        p.start()
        theirs.close()
        writers.append(p)
    time.sleep(args.seconds)
    if kill_mount:
        pids = [p["pid"] for p in place.cluster.processes() if p["kind"] == "mount"]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    else:
        assert all(p.is_alive() for p in writers), "a writer gave up"
    for p in writers:
        p.kill()
    for p in writers:
        p.join(BUSY_S)
        assert not p.is_alive(), "a writer cannot be killed"
    for i, pipe in pipes.items():
        try:
            while pipe.poll():
                committed[i] = pipe.recv()
        except EOFError:
            pass
    if kill_mount:
        for pid in pids:
            wait_for("the killed mount is gone", lambda pid=pid: not is_running(pid), BUSY_S)
        for p in place.cluster.processes():
            if p["kind"] == "mount":
                place.cluster.start(p["name"])


def run(args, place):
    path = place.dir / "test.db"
    db = connect(path, args.journal)
    db.execute("CREATE TABLE rows (writer INT, number INT, data BLOB, digest TEXT, PRIMARY KEY (writer, number))")
    db.close()
    committed = dict.fromkeys(range(args.writers), 0)
    for n in range(args.rounds):
        before = sum(committed.values())
        kill_mount = place.cluster is not None and n == args.rounds - 1 and args.rounds > 1
        one_round(args, place, path, committed, kill_mount)
        rows = check(path, args.journal, committed)
        assert rows > before, "no writer committed anything"
        say(f"{'the mount and ' if kill_mount else ''}{args.writers} writers killed: {rows} rows, all whole")
