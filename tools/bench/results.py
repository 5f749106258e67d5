"""The measurements and their table."""

import pathlib
import os
import statistics
import sys
import time

CPU_PER_GB = "CPU-s/GB"
CPU_PER_OP = "CPU-us/op"


def say(text):
    print(text, file=sys.stderr, flush=True)


def busy_seconds():
    """CPU seconds of the whole machine, kernel threads and interrupts included: what a filesystem costs is
    not all in its processes. Only right when nothing else runs."""
    fields = [int(x) for x in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq = fields[:7]
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


class Measure:
    """Seconds and the machine's CPU seconds of a block."""

    def __enter__(self):
        self.busy = busy_seconds()
        self.start = time.monotonic()
        return self

    def __exit__(self, *exc):
        self.seconds = time.monotonic() - self.start
        self.cpu = busy_seconds() - self.busy


def peak_mib(pid):
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def quotients(above, below):
    return [a / b for a, b in zip(above, below) if b]


def quartiles(values):
    """(first quartile, median, third quartile); of nothing, three times not a number."""
    if not values:
        return (float("nan"),) * 3
    if len(values) == 1:
        return (values[0],) * 3
    return tuple(statistics.quantiles(values, n=4, method="inclusive"))


class Results:
    def __init__(self):
        self.values = {}  # (work, unit) -> system -> [value]
        self.cpu = {}     # (work, unit) -> system -> [value]
        self.cpu_unit = {}
        self.memory = {}  # system -> process -> most MiB seen

    def add(self, work, unit, system, value, measure, cpu_unit, amount):
        """`amount`: GB or operations that the CPU seconds are spread over."""
        key = (work, unit)
        cpu = measure.cpu / amount * (1e6 if cpu_unit == CPU_PER_OP else 1) if amount else 0.0
        self.values.setdefault(key, {}).setdefault(system, []).append(value)
        self.cpu.setdefault(key, {}).setdefault(system, []).append(cpu)
        self.cpu_unit[key] = cpu_unit
        say(f"  {system:12} {work:38} {value:10.1f} {unit:8} {cpu:8.2f} {cpu_unit}")

    def add_memory(self, system, processes):
        seen = self.memory.setdefault(system, {})
        for name, pid in processes.items():
            kind = name.rstrip("0123456789").rstrip("-") or name
            seen[kind] = max(seen.get(kind, 0.0), peak_mib(pid))

    def table(self, systems):
        """Medians; ratios are of the first system to each other one."""
        first, others = systems[0], systems[1:]
        lines = ["| Work | " + " | ".join(systems) + " | " + " | ".join(f"{first} / {o}" for o in others) + " |",
                 "|---" * (1 + len(systems) + len(others)) + "|"]
        for key, per in self.values.items():
            work, unit = key
            medians = {s: statistics.median(v) for s, v in per.items()}
            cells = []
            for s in systems:
                if s in medians:
                    cpu = statistics.median(self.cpu[key][s])
                    cells.append(f"{medians[s]:,.0f} {unit} ({cpu:,.2f})" if self.cpu_unit[key] == CPU_PER_GB else
                                 f"{medians[s]:,.0f} {unit} ({cpu:,.0f})")
                else:
                    cells.append("")
            for o in others:
                both = first in medians and medians.get(o)
                cells.append(f"{medians[first] / medians[o]:.2f}" if both else "")
            lines.append(f"| {work} | " + " | ".join(cells) + " |")
        lines.append("")
        lines.append("In brackets: CPU seconds of the machine per GB, or microseconds per operation.")
        for system, seen in self.memory.items():
            if seen:
                lines.append(f"Peak memory, {system}: " + ", ".join(f"{k} {v:.0f} MiB" for k, v in sorted(seen.items())))
        return "\n".join(lines)

    def pairs(self, systems):
        """Of measurements that belong together, the first of each system, the second of each, and so on: the ratio of the
        first system to each other one, as median (first to third quartile), and that of the CPU cost. A work that failed
        somewhere has no pairs: nobody knows which one is missing."""
        first, others = systems[0], systems[1:]
        lines = ["| Work | pairs | " + " | ".join(f"{first} / {o} | CPU" for o in others) + " |",
                 "|---" * (2 + 2 * len(others)) + "|"]
        for key, per in self.values.items():
            if len(per) < len(systems) or len({len(v) for v in per.values()}) > 1:
                lines.append(f"| {key[0]} | 0 |" + " | |" * len(others))
                continue
            cells = []
            for o in others:
                low, middle, high = quartiles(quotients(per[first], per[o]))
                cpu = quartiles(quotients(self.cpu[key][first], self.cpu[key][o]))[1]
                cells.append(f"{middle:.2f} ({low:.2f} to {high:.2f}) | {cpu:.2f}")
            lines.append(f"| {key[0]} | {len(per[first])} | " + " | ".join(cells) + " |")
        lines.append("")
        lines.append("Ratios of what was measured one after the other: the median, in brackets the quartiles.")
        return "\n".join(lines)

    def json(self):
        return {f"{work} [{unit}]": {"values": per, "cpu": self.cpu[work, unit], "cpu_unit": self.cpu_unit[work, unit]}
                for (work, unit), per in self.values.items()}
