"""Bounds of several metadata servers, and what a measurement says of them; pure.

The bounds are those that the design's acceptance demands. Of percentiles the nearest rank counts, which is a value that was
seen: of few values the 95th is the greatest."""

import dataclasses
import math
import statistics

from results import quartiles, quotients

LEASE_S = 15      # session.lease of the clusters that are measured
NOISE = 1.25      # "unchanged" of a p99, whose repetitions differ by that
LATENCY_MS = 0.15  # beyond solo and the round trip


def percentile(values, percent):
    """Of nothing: not a number."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(percent / 100 * len(values)) - 1)]


def longest_gap(ends, since, until):
    """The longest time between two successes that overlaps [since, until]. `ends`: when they ended."""
    if since >= until:
        return 0.0
    before = [e for e in ends if e <= since]
    after = [e for e in ends if e >= until]
    points = [max(before, default=since)] + sorted(e for e in ends if since < e < until) + [min(after, default=until)]
    return max(b - a for a, b in zip(points, points[1:]))


@dataclasses.dataclass
class Verdict:
    what: str
    measured: str
    bound: str
    met: object = None  # True, False, or None: nothing can be said

    def cells(self):
        said = {True: "met", False: "missed", None: ""}[self.met]
        return [self.what, self.measured, self.bound, said]


def times(number, what):
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


# ---- Stalls of a loop that syncs ----

@dataclasses.dataclass(frozen=True)
class Stall:
    what: str
    limits: tuple  # ((percent, seconds at most), ..); 100 is the longest


STALLS = {
    "switchover": Stall("planned switchover", ((95, 2.0),)),
    "kill": Stall("kill -9 of the primary, which stays away", ((50, 6.5), (95, 8.0))),
    "stop": Stall("the primary stopped (SIGSTOP)", ((95, 8.0),)),
    "cutoff": Stall("the primary's PC gone: no packet of it arrives any more", ((95, 8.0),)),
    "deadmount": Stall("the same, and a mount dies with it", ((95, 8.0 + LEASE_S),)),
    "standby": Stall("a standby killed", ((100, 2.5),)),
    "standbystop": Stall("a standby stopped (SIGSTOP)", ((100, 2.5),)),
}
FAILOVERS = ("kill", "stop", "cutoff", "deadmount")


def percent_name(percent):
    return "longest" if percent == 100 else f"p{percent}"


def stall(key, values):
    """`values`: {"stalls": [seconds]}."""
    of, stalls = STALLS[key], values["stalls"]
    shown = sorted({50, *(p for p, _ in of.limits)})
    measured = ", ".join(f"{percent_name(p)} {percentile(stalls, p):.2f} s" for p in shown)
    return Verdict(f"stall of an fsync loop: {of.what}", f"{measured} ({times(len(stalls), 'event')})",
                   ", ".join(f"{percent_name(p)} <= {limit:g} s" for p, limit in of.limits),
                   all(percentile(stalls, p) <= limit for p, limit in of.limits))


def etcd(values):
    """`values`: {"before": [ms], "during": [ms], "failed": n, "seconds": s}; each a p99 of one outage."""
    before, during = statistics.median(values["before"]), statistics.median(values["during"])
    ratio = statistics.median(quotients(values["during"], values["before"]))
    return Verdict(f"all of etcd lost for {values['seconds']:g} s",
                   f"{values['failed']} failed, p99 {during:.1f} ms, before {before:.1f} ms: {ratio:.2f} x ({times(len(values['during']), 'event')})",
                   f"0 failed, p99 unchanged (<= {NOISE:g} x)", values["failed"] == 0 and ratio <= NOISE)


def lost(failovers, events, acknowledged, missing, failed):
    """Two rows, of all events together."""
    return [Verdict("acknowledged fsyncs that are lost", f"{missing} of {acknowledged:,} in {times(failovers, 'failover')} and "
                    f"{times(events - failovers, 'other event')}", "0 in 200 failovers", missing == 0),
            Verdict("operations of these loops that failed", f"{failed}", "0", failed == 0)]


# ---- Beside a solo server ----

@dataclasses.dataclass(frozen=True)
class Ratio:
    what: str
    unit: str
    least: object = None  # of metas / solo
    most: object = None


RATIOS = {
    "writers": Ratio("16 writers that sync", "/s", least=0.90),
    "writers cpu": Ratio("CPU of the primary per file, the same", "µs", most=1.2),
    "writers journal": Ratio("journal bytes of the primary per file, the same", "B", most=2.1),
    "create": Ratio("create, one process", "/s", least=0.95),
    "rename": Ratio("rename, one process", "/s", least=0.95),
    "unlink": Ratio("unlink, one process", "/s", least=0.95),
    "create many": Ratio("create, {many} processes", "/s", least=0.95),
    "rename many": Ratio("rename, {many} processes", "/s", least=0.95),
    "unlink many": Ratio("unlink, {many} processes", "/s", least=0.95),
    "plain cpu": Ratio("CPU of the primary per create, rename, unlink", "µs", most=1.2),
    "plain journal": Ratio("journal bytes of the primary per create, rename, unlink", "B", most=2.1),
}
LATENCIES = {"close": "create, write 4 KiB, close: p50", "fsync": "create, write 4 KiB, fsync, close: p50"}


def ratio(key, solo, metas, many):
    """Values of pairs, the first of each together, and so on. Quartiles of ratios are in brackets."""
    of = RATIOS[key]
    low, middle, high = quartiles(quotients(metas, solo))
    bound = f">= {of.least:.0%} of solo" if of.least else f"<= {of.most:g} x solo"
    met = None if math.isnan(middle) else (middle >= of.least if of.least else middle <= of.most)
    return Verdict(of.what.format(many=many), f"{statistics.median(metas):,.0f} {of.unit}, solo {statistics.median(solo):,.0f} {of.unit}: "
                   f"{middle:.2f} x ({low:.2f} to {high:.2f}, {times(len(metas), 'pair')})", bound, met)


def latency(key, solo, metas, rtt):
    """Milliseconds, in pairs."""
    more = [m - s for m, s in zip(metas, solo)]
    low, middle, high = quartiles(more)
    allowed = statistics.median(rtt) + LATENCY_MS
    return Verdict(LATENCIES[key], f"{statistics.median(metas):.2f} ms, solo {statistics.median(solo):.2f} ms: {middle:+.2f} ms "
                   f"({low:+.2f} to {high:+.2f}, {times(len(metas), 'pair')})",
                   f"<= solo + round trip ({statistics.median(rtt):.3f} ms) + {LATENCY_MS:g} ms", middle <= allowed)


# ---- Coming back ----

REJOIN_S = 5.0
COPY_MIB_S = 30.0
COPY_P99 = 1.5


def rejoin(key, values):
    """`values`: {"seconds": [s], "rate": [op/s], "outage": s}."""
    seconds, rate = values["seconds"], statistics.median(values["rate"])
    what = {"outage": f"rejoin after an outage of {values.get('outage', 0):g} s with load",
            "diverged": "rejoin after kill -9 with a diverged tail, with load"}[key]
    return Verdict(what, f"median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s, at {rate:,.0f} op/s "
                   f"({times(len(seconds), 'event')})", f"<= {REJOIN_S:g} s" + (" at 1,000 op/s" if key == "outage" else ""), max(seconds) <= REJOIN_S)


def copy(values):
    """`values`: {"rate": [MiB/s], "seconds": [s], "mib": n, "before": [ms], "during": [ms]}; p99 of each event."""
    rate, slower = statistics.median(values["rate"]), statistics.median(quotients(values["during"], values["before"]))
    return [Verdict(f"rejoin by copy, {values['mib']:,.0f} MiB", f"{rate:,.0f} MiB/s; {statistics.median(values['seconds']):.1f} s from its start "
                    f"until it is in sync ({times(len(values['rate']), 'event')})", f">= {COPY_MIB_S:g} MiB/s", rate >= COPY_MIB_S),
            Verdict("p99 of an fsync loop meanwhile", f"{statistics.median(values['during']):.1f} ms, before "
                    f"{statistics.median(values['before']):.1f} ms: {slower:.2f} x", f"<= {COPY_P99:g} x", slower <= COPY_P99)]


# ---- The table ----

def verdicts(values, many):
    """Of what was measured, {row: values}, in the design's order."""
    out = []
    if "lost" in values:
        out += lost(**values["lost"])
    out += [stall(key, values[key]) for key in STALLS if values.get(key, {}).get("stalls")]
    if values.get("etcd", {}).get("during"):
        out.append(etcd(values["etcd"]))
    pairs = values.get("pairs", {})
    out += [latency(key, **pairs[key], rtt=values["rtt"]) for key in LATENCIES if key in pairs]
    out += [ratio(key, **pairs[key], many=many) for key in RATIOS if key in pairs]
    out += [rejoin(key, values[key]) for key in ("outage", "diverged") if values.get(key, {}).get("seconds")]
    if values.get("copy", {}).get("rate"):
        out += copy(values["copy"])
    return out


def table(rows):
    lines = ["| What | Measured | Bound | |", "|---|---|---|---|"]
    return "\n".join(lines + ["| " + " | ".join(row.cells()) + " |" for row in rows])
