"""What must hold of ha_load's work, whatever happened to metadata servers meanwhile. All but the checkers' programs is pure.

`lost`: who was told that something was done, and it is not there. `twice`: two were told that they were the one; or nobody was, and
it was done; or something is there twice. Both are sentences."""

import collections
import dataclasses
import os
import pathlib
import shutil
import subprocess
import time

import ha_load
from ha_load import EXPECTED, RECORD_BYTES

CHECK_S = 300
BUILD_S = 100
HERE = pathlib.Path(__file__).absolute().parent
TREE = HERE.parents[1]


@dataclasses.dataclass
class View:
    """What a mount shows of `contend`'s directory."""

    claims: dict   # key: content
    taken: dict    # key: {mount: content}
    links: set
    seed_links: int
    tokens: dict   # mount: [number]
    appended: bytes


def look(directory):
    taken, tokens = collections.defaultdict(dict), collections.defaultdict(list)
    for path in (directory / "taken").iterdir():
        key, mount = map(int, path.name.split("."))
        taken[key][mount] = path.read_text()
    for path in directory.glob("token*"):
        mount, number = path.name.removeprefix("token").split("-")
        tokens[int(mount)].append(int(number))
    return View({int(p.name): p.read_text() for p in (directory / "claims").iterdir()}, dict(taken),
                {int(p.name) for p in (directory / "links").iterdir()}, os.stat(directory / "seed").st_nlink, dict(tokens),
                (directory / "appended").read_bytes())


def read_notes(path):
    """[(what, key, errno)]"""
    return [(what, int(key), int(error)) for what, key, error, _, _ in map(str.split, pathlib.Path(path).read_text().splitlines())]


class Contention:
    """`notes`: of each mount."""

    def __init__(self, notes, view):
        self.view, self.mounts = view, len(notes)
        self.lost, self.twice = [], []
        self.answers = {what: collections.defaultdict(dict) for what in (*EXPECTED, "append", "count")}
        for mount, told in enumerate(notes):
            for what, key, error in told:
                self.answers[what][key][mount] = error
        self.winners()
        self.claims()
        self.links()
        self.tokens()
        self.appended()

    def is_known(self, what, key):
        """Whether each that tried had an answer that says something."""
        return all(error in (0, EXPECTED[what]) for error in self.answers[what].get(key, {}).values())

    def winner(self, what, key):
        """A mount, or None."""
        return next((m for m, error in self.answers[what].get(key, {}).items() if error == 0), None)

    def winners(self):
        for what in EXPECTED:
            for key, answers in self.answers[what].items():
                won = [m for m, error in answers.items() if error == 0]
                if len(won) > 1:
                    self.twice.append(f"{what} of {key}: mounts {won} were all told that they did it")
                elif not won and len(answers) == self.mounts and self.is_known(what, key):
                    self.twice.append(f"{what} of {key}: each mount was told that another one did it")

    def claims(self):
        view = self.view
        for key in sorted({*self.answers["create"], *view.claims, *view.taken}):
            creator, taker = self.winner("create", key), self.winner("take", key)
            there = view.taken.get(key, {})
            if len(there) + (key in view.claims) > 1:
                self.twice.append(f"claim {key} is there as {sorted(there)} and in claims: {key in view.claims}")
            if not (self.is_known("create", key) and self.is_known("take", key)) or creator is None:
                continue
            if taker is None and there:
                self.twice.append(f"claim {key} was taken by {sorted(there)}, who was not told so")
            elif taker is not None and taker not in there:
                self.lost.append(f"mount {taker} took claim {key}, which is not there")
            elif taker is None and key not in view.claims:
                self.lost.append(f"mount {creator} created claim {key}, which is not there")
            elif (content := there[taker] if taker is not None else view.claims[key]) != str(creator):
                self.lost.append(f"claim {key} of mount {creator} holds '{content}'")

    def links(self):
        view = self.view
        for key in sorted({*self.answers["link"], *view.links}):
            if not (self.is_known("link", key) and self.is_known("unlink", key)):
                continue
            linked, unlinked = self.winner("link", key) is not None, self.winner("unlink", key) is not None
            if linked and not unlinked and key not in view.links:
                self.lost.append(f"link {key} is not there")
            elif unlinked and key in view.links:
                self.lost.append(f"link {key} was removed and is there")
            elif not linked and key in view.links:
                self.twice.append(f"link {key} is there, and nobody was told so")
        if view.seed_links != 1 + len(view.links):
            self.lost.append(f"the linked file counts {view.seed_links} links, and has {1 + len(view.links)}")

    def tokens(self):
        for mount in range(self.mounts):
            errors = [answers[mount] for answers in self.answers["count"].values() if mount in answers]
            if missing := sum(error == EXPECTED["take"] for error in errors):
                self.twice.append(f"{missing} renames of mount {mount}'s own file did not find it")
            wanted = errors.count(0)
            if not any(errors) and self.view.tokens.get(mount) != [wanted]:
                self.lost.append(f"mount {mount} renamed its file {wanted} times, and it is there as {self.view.tokens.get(mount)}")

    def appended(self):
        data, last = self.view.appended, {}
        there = collections.Counter(data[i:i + RECORD_BYTES] for i in range(0, len(data), RECORD_BYTES))
        known = {}
        for key, answers in self.answers["append"].items():
            for mount, error in answers.items():
                known[ha_load.record(mount, key)] = (mount, key, error)
        for one, (mount, key, error) in known.items():
            if there[one] > 1:
                self.twice.append(f"mount {mount}'s record {key} was appended {there[one]} times")
            elif there[one] == 0 and error == 0:
                self.lost.append(f"mount {mount}'s record {key} is not there")
        for i in range(0, len(data), RECORD_BYTES):
            mount, key, _ = known.get(data[i:i + RECORD_BYTES], (None, 0, 0))
            if mount is None:
                self.lost.append(f"at {i} of what was appended is no record: {data[i:i + RECORD_BYTES]}")
            elif key < last.get(mount, -1):
                self.lost.append(f"mount {mount}'s record {key} is behind its record {last[mount]}")
            else:
                last[mount] = key


# ---- Histories ----


def look_at_registers(directory, client, lines):
    """Adds a read of each, as any client's."""
    for i in range(ha_load.REGISTERS):
        called = time.monotonic_ns()
        value = ha_load.register_value((directory / f"register{i}").read_bytes())
        lines.append(f"register{i} {called} {time.monotonic_ns()} {client} read {value}")


def look_at_names(directory, client, lines):
    for name in ha_load.NAMES:
        called, file, error = time.monotonic_ns(), 0, 0
        try:
            file = os.stat(directory / "names" / name).st_ino
        except OSError as e:
            error = e.errno
        lines.append(f"names {called} {time.monotonic_ns()} {client} lookup {name} {error} {file}")


def by_object(lines):
    """{object: [line of its own history]}"""
    out = collections.defaultdict(list)
    for line in lines:
        target, _, rest = line.partition(" ")
        out[target].append(rest)
    return dict(out)


class Checkers:
    """Programs that say whether a history is linearizable: {name: path}. `why_not`: of those that cannot be had."""

    def __init__(self, directory):
        self.directory, self.programs, self.why_not = directory, {}, {}
        self.find_ours()
        self.find_porcupine()

    def find_ours(self):
        for path in (TREE / "test/linear/check_history", TREE / "bazel-bin/test/linear/check_history"):
            if path.exists():
                self.programs["ours"] = path
                return
        sources = [TREE / "test/linear" / name for name in ("check_history.cc", "models.cc")]
        if not (shutil.which("g++") and sources[0].exists()):
            self.why_not["ours"] = "it is not built, and there is no g++"
            return
        subprocess.run(["g++", "-std=c++20", "-O2", "-I", TREE, *sources, "-o", self.directory / "check_history"], check=True, timeout=CHECK_S)
        self.programs["ours"] = self.directory / "check_history"

    def find_porcupine(self):
        if path := os.environ.get("STRIA_PORCUPINE"):
            self.programs["porcupine"] = path
            return
        if not shutil.which("go"):
            self.why_not["porcupine"] = "there is no Go to build it with"
            return
        source = self.directory / "porcupine-source"
        shutil.copytree(TREE / "test/linear/porcupine", source)  # Go does not follow links
        environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
        if "HOME" not in os.environ:
            environment |= {"GOPATH": str(self.directory / "go"), "GOCACHE": str(self.directory / "go-cache"), "GOMODCACHE": str(self.directory / "go-mod")}
        try:
            done = subprocess.run(["go", "build", "-o", self.directory / "porcupine", "."], cwd=source, env=environment, capture_output=True, text=True,
                                  check=False, timeout=BUILD_S)
        except subprocess.TimeoutExpired:
            self.why_not["porcupine"] = f"its module was not here within {BUILD_S} s"
            return
        if done.returncode == 0:
            self.programs["porcupine"] = self.directory / "porcupine"
        else:
            self.why_not["porcupine"] = (done.stderr.strip().splitlines() or ["go build failed"])[-1]

    def check(self, histories, place):
        """({checker: histories that it explains}, [what is wrong]). The histories stay in `place`."""
        good, wrong = collections.Counter(), []
        place.mkdir(exist_ok=True)
        for target, lines in sorted(histories.items()):
            path = place / target
            path.write_text("".join(line + "\n" for line in lines))
            for name, program in self.programs.items():
                done = subprocess.run([program, "names" if target == "names" else "register", path], capture_output=True, text=True, check=False,
                                      timeout=CHECK_S)
                if done.returncode == 0:
                    good[name] += 1
                else:
                    wrong.append(f"{name}: {target}: {(done.stdout + done.stderr).strip()}")
        return good, wrong
