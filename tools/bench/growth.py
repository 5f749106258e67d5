"""How a cost grows with a size: ratios, growth per decade, and tables of them."""

import dataclasses
import math

NOISE = 1.3  # what the same work may take more of on a machine that others use, without anything growing


@dataclasses.dataclass
class Row:
    what: str
    unit: str
    values: dict           # size -> value
    more_is_better: bool = False
    judged: bool = True    # False: Stria does not decide how it grows (the machine's limit, or linear by its nature)
    drawn: str = ""        # its name in a chart; empty: it is in none
    clock: dict = dataclasses.field(default_factory=dict)  # where `values` are CPU time: the same by the clock

    def cost(self, size):
        return 1 / self.values[size] if self.more_is_better else self.values[size]

    def sizes(self):
        """Those with a value that can be compared."""
        return [s for s in sorted(self.values) if self.values[s] is not None and self.values[s] > 0]


def ratio(row, size):
    """Cost at `size` to cost at the smallest; None if there is nothing to compare."""
    sizes = row.sizes()
    if size not in sizes:
        return None
    return row.cost(size) / row.cost(sizes[0])


def per_decade(row):
    """How many times the cost for ten times the size: of the line that fits best, both axes logarithmic."""
    sizes = row.sizes()
    if len(sizes) < 2:
        return None
    xs = [math.log10(s) for s in sizes]
    ys = [math.log10(row.cost(s)) for s in sizes]
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys)) / sum((x - x_mean) ** 2 for x in xs)
    return 10 ** slope


def of_a_logarithm(first, last):
    """How much something grows from one size to another that is proportional to the logarithm."""
    return math.log2(1 + last) / math.log2(1 + first)


def verdict(row):
    """"flat", "log" (no faster than the logarithm), "more", or "" if it is not judged."""
    sizes = row.sizes()
    if not row.judged or len(sizes) < 2:
        return ""
    grown = ratio(row, sizes[-1])
    if grown <= NOISE:
        return "flat"
    return "log" if grown <= NOISE * of_a_logarithm(sizes[0], sizes[-1]) else "more"


def number(value):
    """Three digits that say something."""
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{round(value, digits):,.{max(0, min(digits, 3))}f}"


def size_name(size):
    """10,000 and more as powers of ten, where they are."""
    power = round(math.log10(size))
    return f"10^{power}" if size >= 10_000 and size == 10 ** power else f"{size:,}"


def table(rows, of):
    """Markdown. `of`: what the sizes count. In brackets the ratio of the cost to that at the smallest size."""
    sizes = sorted({s for row in rows for s in row.values})
    lines = [f"| {of} | " + " | ".join(size_name(s) for s in sizes) + " | ×/decade | growth |",
             "|---" * (len(sizes) + 3) + "|"]
    for row in rows:
        cells = []
        for size in sizes:
            value = row.values.get(size)
            if value is None:
                cells.append("")
                continue
            times = ratio(row, size)
            first = not row.sizes() or size == row.sizes()[0]
            cells.append(number(value) if first or times is None else f"{number(value)} ({times:.2f})")
        decade = per_decade(row)
        what = f"{row.what}, {row.unit}" if row.unit else row.what
        lines.append(f"| {what} | " + " | ".join(cells) + f" | {'' if decade is None else f'{decade:.2f}'} | {verdict(row)} |")
    return "\n".join(lines)
