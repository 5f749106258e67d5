"""The log of load.py, and what the filesystem owes according to it. Pure.

A line is JSON: one when an operation begins, one when it returns.
    {"n": 7, "op": "write", "name": "f/3", "size": 4097, "at": 812.25}
    {"n": 7, "done": 812.31}            or, with the error:  {"n": 7, "done": 812.31, "failed": ".."}
"at" and "done" are seconds of the machine's monotonic clock."""

import dataclasses
import json


@dataclasses.dataclass
class Op:
    kind: str  # write, read, save, look, remove
    at: float
    name: str = ""
    size: int = 0
    version: int = 0
    done: float | None = None
    failed: str = ""

    @property
    def what(self):
        return f"{self.kind} of {self.name}" if self.name else f"{self.kind} of version {self.version}"


class BadLog(Exception):
    """It is not as load.py writes it."""


def parse_log(text):
    """All operations in the order in which they began. The last line may be torn: its writer was killed."""
    ops = {}
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            said = json.loads(line)
        except ValueError:
            if number == len(lines):
                break
            raise BadLog(f"line {number} is no JSON: {line[:80]}") from None
        n = said["n"]
        if "op" in said:
            if n in ops:
                raise BadLog(f"line {number}: operation {n} begins twice")
            ops[n] = Op(said["op"], said["at"], said.get("name", ""), said.get("size", 0), said.get("version", 0))
        else:
            if n not in ops or ops[n].done is not None:
                raise BadLog(f"line {number}: operation {n} ends, and does not run")
            ops[n].done, ops[n].failed = said["done"], said.get("failed", "")
    return list(ops.values())


class Ledger:
    """What must be there, and what may be."""

    def __init__(self):
        self.files = {}  # name -> size: acknowledged, there bit for bit
        self.unsure = {}  # name -> size: was being written; a front part of it, or nothing
        self.going = {}  # name -> size: was being removed; all of it, or nothing
        self.next = 0  # number of the next new file
        self.saved = 0  # this version of the document was acknowledged
        self.begun = 0  # this one may be there

    def learn(self, ops):
        for op in ops:
            well = op.done is not None and not op.failed
            if op.kind == "write":
                self.next += 1
                (self.files if well else self.unsure)[op.name] = op.size
            elif op.kind == "save":
                self.begun = max(self.begun, op.version)
                if well:
                    self.saved = max(self.saved, op.version)
            elif op.kind == "remove":
                size = self.files.pop(op.name)
                if not well:
                    self.going[op.name] = size

    def document_is(self, version):
        """What a look at it after a power failure has shown, when nobody was writing: it does not go back behind that."""
        self.saved = max(self.saved, version)
        self.begun = max(self.begun, version)

    def as_json(self):
        return json.dumps(vars(self))
