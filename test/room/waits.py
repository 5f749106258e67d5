"""How long readers and writers waited, and whether that is too long. Pure."""

import collections
import dataclasses

LIMIT_S = 20.0


@dataclasses.dataclass
class Excused:
    """A time in which docs/operations.md says that programs wait, and where it says so."""
    begin: float
    end: float
    where: str


def excused_s(begin, end, excuses):
    """How much of the time from begin to end is excused; times may overlap."""
    total, reached = 0.0, begin
    for e in sorted(excuses, key=lambda e: e.begin):
        low, high = max(e.begin, reached), min(e.end, end)
        if high > low:
            total += high - low
            reached = high
    return total


def problems(ops, end, cut, excuses=(), limit_s=LIMIT_S):
    """A sentence for each operation that failed, waited too long, or had not returned at the end. `cut`: power failed then, and what was under
    way had no time to return; it has waited until then, though."""
    found = []
    for op in ops:
        if op.failed:
            found.append(f"{op.what} failed: {op.failed}")
        if op.done is None and not cut:
            found.append(f"{op.what} has not returned for {end - op.at:.1f} s")
            continue
        until = end if op.done is None else op.done
        waited = until - op.at - excused_s(op.at, until, excuses)
        if waited > limit_s:
            found.append(f"{op.what} took {waited:.1f} s, more than {limit_s:.0f} s")
    return found


def idle(ops, kinds):
    """Those of the kinds that never returned well: nobody tried what is to be shown."""
    did = {op.kind for op in ops if op.done is not None and not op.failed}
    return [kind for kind in kinds if kind not in did]


def summary(ops, end):
    """"read: 812, the longest took 1.3 s; .." """
    count, longest = collections.Counter(), collections.Counter()
    for op in ops:
        count[op.kind] += 1
        longest[op.kind] = max(longest[op.kind], (end if op.done is None else op.done) - op.at)
    return "; ".join(f"{kind}: {count[kind]}, the longest took {longest[kind]:.1f} s" for kind in sorted(count)) or "nothing"
