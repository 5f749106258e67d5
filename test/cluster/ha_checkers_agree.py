"""Do the two checkers of ha_failovers say the same? Small random histories of registers and names, right and wrong ones:
ha_checkers_agree.py [HISTORIES]. Needs no cluster."""

import collections
import errno
import pathlib
import random
import sys
import tempfile

import ha_checks

NAMES = ["a", "b"]
OPERATIONS, SPAN, LONGEST = 7, 14, 6


def answer(rng, target):
    if target.startswith("register"):
        return f"{rng.choice(['read', 'write'])} {rng.randrange(3)}"
    a, b = rng.sample(NAMES, 2)
    error = rng.choice([0, 0, errno.ENOENT])
    what = rng.choice(["create", "create", "unlink", "rename", "lookup", "list"])
    if what == "create":
        return f"create {a} 17 0" if rng.random() < 0.3 else f"create {a} 0 {rng.randrange(10, 99)}"
    return {"unlink": f"unlink {a} {error}", "rename": f"rename {a} {b} {error}",
            "lookup": f"lookup {a} {error} {0 if error else rng.choice(range(10, 99))}",
            "list": "list " + " ".join(sorted(n for n in NAMES if rng.random() < 0.5))}[what]


def history(rng, target):
    """Half of the time what a lookup finds is one of the files that are there at all: else nearly all would be wrong."""
    lines, files = [], ["11"]
    for client in range(rng.randrange(2, OPERATIONS)):
        called = rng.randrange(SPAN)
        told = answer(rng, target).split()
        if told[0] == "create" and told[2] == "0":
            files.append(told[3])
        if told[0] == "lookup" and told[2] == "0":
            told[3] = rng.choice(files)
        pending = told[0] in ("create", "unlink", "rename", "write") and rng.random() < 0.15
        if pending and told[0] != "write":  # as ha_load notes what had no answer
            told = {"create": [*told[:2], "0", "0"], "unlink": [*told[:2], "0"], "rename": [*told[:3], "0"]}[told[0]]
        lines.append(f"{called} {'-' if pending else called + rng.randrange(1, LONGEST)} {client} {' '.join(told)}")
    return lines


def main():
    count, said = int(sys.argv[1]) if len(sys.argv) > 1 else 300, collections.Counter()
    with tempfile.TemporaryDirectory() as d:
        checkers = ha_checks.Checkers(pathlib.Path(d))
        assert len(checkers.programs) == 2, checkers.why_not
        for seed in range(count):
            for target in ("register0", "names"):
                lines = history(random.Random(seed), target)
                good, _ = checkers.check({target: lines}, pathlib.Path(d) / "histories")
                assert len(good) != 1, f"seed {seed}, {target}: only {list(good)} can explain\n" + "\n".join(lines)
                said[target, "yes" if good else "no"] += 1
    print(", ".join(f"{target}: {number} {what}" for (target, what), number in sorted(said.items())))


main()
