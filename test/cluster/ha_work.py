"""The work of one event of ha_failovers: loops on three mounts, what they were told, and what is wrong afterwards."""

import dataclasses
import multiprocessing
import os
import pathlib
import random
import shutil
import sys
import time

import ha_checks
import ha_load

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parents[2] / "tools/bench"))
from ha_loop import Loop, content, failures, missing, path_of, small_files  # noqa: E402
from ha_table import longest_gap  # noqa: E402

PAUSE_S = 0.02
CONTEND_PAUSE_S = 0.01
GOES_ON_S = 90
AGAIN = 300  # files of an event that are read once more after the next one


@dataclasses.dataclass
class Result:
    kind: str
    stall: float = 0.0      # of loops of durable files
    shared: float = 0.0     # of what several mounts change
    settled: float = 0.0    # from when what happened was undone until both were in sync
    acknowledged: int = 0  # durable files
    operations: int = 0
    failed: int = 0
    lost: list = dataclasses.field(default_factory=list)
    twice: list = dataclasses.field(default_factory=list)
    unordered: list = dataclasses.field(default_factory=list)  # what no order explains
    verdicts: dict = dataclasses.field(default_factory=dict)   # checker: histories that it explains
    fsck: bool = False

    def is_good(self):
        return self.fsck and not (self.failed or self.lost or self.twice or self.unordered)


def stall(loops, began):
    """The longest time without a success of one of them, since then."""
    ends = [[end for _, end, error in records if not error] for records in loops]
    return max(longest_gap(of_one, began, max(of_one)) for of_one in ends)


class Work:
    """`mounts`: paths. `place`: a local directory for what is noted."""

    def __init__(self, mounts, number, place):
        self.mounts, self.name, self.place = mounts, f"event{number}", place
        place.mkdir(parents=True)
        shared = self.on(0) / "shared"
        ha_load.prepare(shared)
        self.ledgers, self.others = [], []
        context = multiprocessing.get_context("fork")
        progress = [context.Value("q", 0) for _ in mounts]
        self.go = context.Event()
        for m in range(len(mounts)):
            directory = self.on(m)
            # One syncs, one closes, which is as good; the third does either.
            self.ledgers.append(Loop(small_files, directory / f"ledger{m}", m != 1, PAUSE_S, go=self.go))
            for target, arguments in ((ha_load.contend, (m, progress, self.notes(m), CONTEND_PAUSE_S)),
                                      (ha_load.registers, (m, self.history("registers", m), PAUSE_S)),
                                      (ha_load.names, (m + len(mounts), self.history("names", m), PAUSE_S))):
                self.others.append(Loop(target, directory / "shared", *arguments, go=self.go))
        self.go.set()

    def on(self, mount):
        return self.mounts[mount % len(self.mounts)] / self.name

    def notes(self, mount):
        return self.place / f"contend{mount}"

    def history(self, what, mount):
        return self.place / f"{what}{mount}"

    def loops(self):
        return [*self.ledgers, *self.others]

    def begins(self):
        for one in self.loops():
            one.wait_for(3)

    def goes_on(self, since):
        """Each loop has had a success that began after a moment."""
        end = time.monotonic() + GOES_ON_S
        for one in self.loops():
            one.goes_on(since, max(1.0, end - time.monotonic()))

    def end(self, result, began):
        """Ends all loops; gives the records of the durable files. `began`: when the event was, of whose stall the result tells."""
        for one in self.loops():
            one.log.end()
        self.records = [one.end() for one in self.ledgers]
        others = [one.end() for one in self.others]
        result.operations = sum(map(len, (*self.records, *others)))
        result.failed += sum(map(failures, (*self.records, *others)))
        result.acknowledged = sum(len(r) - failures(r) for r in self.records)
        result.stall, result.shared = stall(self.records, began), stall(others, began)

    def kill(self):
        for one in self.loops():
            one.kill()

    # ---- Checks. `shift`: each looks through another mount than its own. ----

    def lost_files(self, shift, only=None):
        out = []
        for m, records in enumerate(self.records):
            if only is not None and len(records) > only:
                kept = set(random.Random(self.name).sample(range(len(records)), only))
                records = [(b, e, error if i in kept else -1) for i, (b, e, error) in enumerate(records)]
            out += [f"file {number} of mount {m} in {self.name}" for number in missing(records, self.on(m + shift) / f"ledger{m}")]
        return out

    def contention(self, mount):
        return [ha_checks.read_notes(self.notes(m)) for m in range(len(self.mounts))], ha_checks.look(self.on(mount) / "shared")

    def histories(self):
        lines = []
        for m in range(len(self.mounts)):
            for what in ("registers", "names"):
                lines += self.history(what, m).read_text().splitlines()
            ha_checks.look_at_registers(self.on(m) / "shared", 100 + m, lines)
            ha_checks.look_at_names(self.on(m) / "shared", 100 + m, lines)
        return ha_checks.by_object(lines)

    def check(self, result, checkers):
        result.lost += self.lost_files(1)
        notes, view = self.contention(2)
        found = ha_checks.Contention(notes, view)
        result.lost += found.lost
        result.twice += found.twice
        result.verdicts, result.unordered = checkers.check(self.histories(), self.place / "histories")

    def check_again(self, result):
        """After the next event."""
        result.lost += self.lost_files(2, AGAIN)
        notes, view = self.contention(1)
        result.lost += [f"after the next event: {one}" for one in ha_checks.Contention(notes, view).lost]

    def remove(self):
        shutil.rmtree(self.on(0))
        shutil.rmtree(self.place)

    # ---- That all this is able to fail ----

    def see_faults(self, checkers):
        """Does the worst to what has just been found good; gives what nobody noticed."""
        blind = []
        victim = path_of(self.on(0) / "ledger0", 0)
        os.unlink(victim)
        if len(self.lost_files(1)) != 1:
            blind.append("an acknowledged file that is gone")
        victim.write_bytes(content(1))
        if len(self.lost_files(1)) != 1:
            blind.append("an acknowledged file with other bytes")
        victim.write_bytes(content(0))
        blind += [what for what, kind, change in CHANGES if not self.is_noticed(kind, change)]
        for target in ("register0", "names"):
            lines = self.histories()[target]
            lines.append(wrong_answer(target, lines))
            good, wrong = checkers.check({target: lines}, self.place / "wrong")
            if good or len(wrong) != len(checkers.programs):
                blind.append(f"a wrong answer in the history of {target}: {dict(good)}")
        return blind

    def is_noticed(self, kind, change):
        notes, view = self.contention(0)
        change(notes, view)
        found = ha_checks.Contention(notes, view)
        return bool(getattr(found, kind))


def wrong_answer(target, lines):
    """An operation after all others that no order explains."""
    end = max(int(line.split()[1]) for line in lines if line.split()[1] != "-") + 10
    if target == "names":
        return f"{end} {end + 1} 200 lookup {ha_load.NAMES[0]} 0 {1 << 60}"
    values = [line.split()[4] for line in lines]
    return f"{end} {end + 1} 200 read {next(v for v in values if v != values[-1])}"  # the last ones read what is there


def both_told(notes, _view):
    i, key = next((i, key) for i, (what, key, error) in enumerate(notes[0]) if what == "create" and error)
    notes[0][i] = ("create", key, 0)


def nobody_told(notes, _view):
    key = next(key for what, key, _ in notes[0] if what == "unlink")
    for told in notes:
        told[:] = [(w, k, EXPECTED_UNLINK if (w, k) == ("unlink", key) else e) for w, k, e in told]


EXPECTED_UNLINK = ha_load.EXPECTED["unlink"]
R = ha_load.RECORD_BYTES
CHANGES = [
    ("two who created one name", "twice", both_told),
    ("a removal that nobody was told of", "twice", nobody_told),
    ("a record appended twice", "twice", lambda _, view: setattr(view, "appended", view.appended + view.appended[:R])),
    ("a record that is gone", "lost", lambda _, view: setattr(view, "appended", view.appended[R:])),
    ("a claim that is gone", "lost", lambda _, view: view.taken.pop(min(view.taken))),
    ("a claim under two names", "twice", lambda _, view: view.claims.update({min(view.taken): "0"})),
    ("a link that is there again", "lost", lambda _, view: view.links.add(0)),
    ("a rename that is undone", "lost", lambda _, view: view.tokens.update({0: [view.tokens[0][0] - 1]})),
]
