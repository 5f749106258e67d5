"""Line charts as SVG, from the standard library: panels with a logarithmic x axis, lines named at their ends.

    draw("Title", [Panel("names", "inodes", "cost", [Line("lookup", [(10_000, 1.0), (100_000, 1.2)])])])

Values must be positive. Lines are told apart by colour, dashes and markers, so that a print in grey still reads.
"""

import dataclasses
import math
from xml.sax.saxutils import escape

COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7a5c00", "#56b4e9", "#e69f00", "#555555"]  # told apart by the colour-blind
DASHES = ["", "7 3", "2 3", "9 3 2 3"]
TEXT, FAINT, GRID = "#222222", "#767676", "#e3e3e3"
PANEL_WIDTH, PANEL_HEIGHT = 640, 380
LEFT, TOP, BOTTOM = 62, 52, 52  # of a panel, around its axes; names stand on the right
HEAD, FOOT = 50, 30
NAME_STEP = 15                  # between names, so that none covers another
NAME_GAP = 18                   # from the axes to the names
FONT = 12
LETTER = 0.62 * FONT            # a wide one, on average
WIDE = 1.35                     # decades: fewer are marked where there are values
SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


@dataclasses.dataclass
class Line:
    name: str
    points: list            # [(x, y)]
    reference: bool = False  # faint, thin, without markers, and cut off where it leaves the others' range


@dataclasses.dataclass
class Panel:
    title: str
    x_label: str
    y_label: str
    lines: list


@dataclasses.dataclass
class Axis:
    low: float
    high: float
    ticks: list
    log: bool

    def place(self, value):
        """0 at the low end, 1 at the high one."""
        if self.log:
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value - self.low) / (self.high - self.low)


def tick_name(value):
    power = round(math.log10(value)) if value > 0 else 0
    if value >= 10_000 and math.isclose(value, 10.0 ** power):
        return "10" + str(power).translate(SUPERSCRIPTS)
    return f"{value:,.6g}" if value < 1000 else f"{value:,.0f}"


def x_axis(xs):
    low, high = min(xs), max(xs)
    if low == high:
        return Axis(low / 2, high * 2, [low], True)
    if math.log10(high / low) < WIDE + 1e-9 or len(set(xs)) <= 8 and not all(is_power(x) for x in xs):
        return Axis(low, high, sorted(set(xs)), True)
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    ticks = [10.0 ** p for p in range(first, last + 1) if low * 0.999 <= 10.0 ** p <= high * 1.001]
    return Axis(low, high, ticks, True)


def is_power(x):
    return math.isclose(math.log10(x), round(math.log10(x)), abs_tol=1e-9)


def nice_step(span, count):
    """1, 2 or 5 times a power of ten, so that about `count` steps cover the span."""
    raw = span / count
    power = 10.0 ** math.floor(math.log10(raw))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)


def y_axis(ys):
    """From 0, unless values are more than two decades apart."""
    low, high = min(ys), max(ys)
    if high / low > 100:
        first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
        return Axis(10.0 ** first, 10.0 ** last, [10.0 ** p for p in range(first, last + 1)], True)
    step = nice_step(high, 5)
    count = math.ceil(high * 1.02 / step)
    return Axis(0.0, count * step, [i * step for i in range(count + 1)], False)


def spread(wanted, low, high, step):
    """Places near the wanted ones, in their order, at least `step` apart and between low and high if that fits."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    step = min(step, (high - low) / max(1, len(wanted) - 1))
    groups = []  # [indices, sum of (wanted - place in the group), number]
    for i in order:
        groups.append([[i], wanted[i], 1])
        while len(groups) > 1:
            (a, a_sum, a_n), (b, b_sum, b_n) = groups[-2:]
            if b_sum / b_n - a_sum / a_n >= step * a_n:
                break
            groups[-2:] = [[a + b, a_sum + b_sum - step * a_n * b_n, a_n + b_n]]
    places = [0.0] * len(wanted)
    at = low
    for indices, total, count in groups:
        begin = max(total / count, at)
        begin = min(begin, high - step * (count - 1))
        for k, i in enumerate(indices):
            places[i] = max(begin + k * step, at)
            at = places[i] + step
    over = max(places, default=low) - high
    return [max(low, p - over) if over > 1e-9 else p for p in places]


def name_width(name):
    return len(name) * LETTER


def cut_at(points, top):
    """What of a line lies below the top, and whether that is not all. y grows downwards."""
    out = []
    for x, y in points:
        if y < top - 1e-9:
            if out and out[-1][1] > top:
                before_x, before_y = out[-1]
                out.append((before_x + (x - before_x) * (before_y - top) / (before_y - y), top))
            return out, True
        out.append((x, y))
    return out, False


def text(x, y, content, anchor="start", size=FONT, colour=TEXT, extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}"{extra}>'
            f"{escape(content)}</text>")


def line(x1, y1, x2, y2, colour, width=1.0):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def marker(kind, x, y, colour):
    if kind % 3 == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}"/>'
    if kind % 3 == 1:
        return f'<rect x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6" fill="{colour}"/>'
    return f'<path d="M{x:.1f} {y - 4:.1f} l4 7 h-8 z" fill="{colour}"/>'


def draw_panel(panel, left, top):
    lines = [one for one in panel.lines if one.points]
    out = [text(left + LEFT, top + 26, panel.title, size=15, extra=' font-weight="bold"')]
    right = max([NAME_GAP + 4 + name_width(one.name) for one in lines], default=0)
    x0, x1 = left + LEFT, left + PANEL_WIDTH - max(40, min(right, PANEL_WIDTH / 2))
    y0, y1 = top + PANEL_HEIGHT - BOTTOM, top + TOP
    if not lines:
        return out + [text((x0 + x1) / 2, (y0 + y1) / 2, "not measured", "middle", colour=FAINT)]
    points = [p for one in lines for p in one.points]
    if any(not (x > 0 and y > 0 and math.isfinite(x) and math.isfinite(y)) for x, y in points):
        raise ValueError(f"{panel.title}: values must be positive")
    measured = [p for one in lines for p in one.points if not one.reference] or points
    xs, ys = x_axis([x for x, _ in points]), y_axis([y for _, y in measured])

    def place(x, y):
        return x0 + xs.place(x) * (x1 - x0), y0 + ys.place(y) * (y1 - y0)

    for tick in ys.ticks:
        y = place(xs.low, tick)[1]
        out += [line(x0, y, x1, y, GRID), text(x0 - 7, y + 4, tick_name(tick), "end", colour=FAINT)]
    for tick in xs.ticks:
        x = place(tick, ys.high)[0]
        out += [line(x, y0, x, y0 + 5, FAINT), text(x, y0 + 19, tick_name(tick), "middle", colour=FAINT)]
    out += [line(x0, y0, x1, y0, FAINT), line(x0, y0, x0, y1, FAINT),
            text((x0 + x1) / 2, y0 + 38, panel.x_label, "middle"),
            text(left + 16, (y0 + y1) / 2, panel.y_label, "middle",
                 extra=f' transform="rotate(-90 {left + 16:.1f} {(y0 + y1) / 2:.1f})"')]

    paths = [cut_at([place(*p) for p in sorted(one.points)], y1) if one.reference else
             ([place(*p) for p in sorted(one.points)], False) for one in lines]
    named = [i for i, (_, is_cut) in enumerate(paths) if not is_cut]
    names = dict(zip(named, spread([paths[i][0][-1][1] for i in named], y1, y0, NAME_STEP)))
    number = 0
    for i, (one, (path, _)) in enumerate(zip(lines, paths)):
        if not path:
            continue
        colour = FAINT if one.reference else COLOURS[number % len(COLOURS)]
        dash = "1 4" if one.reference else DASHES[number // len(COLOURS) % len(DASHES)]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in path)
        out.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="{1.5 if one.reference else 2}"'
                   + (f' stroke-dasharray="{dash}"' if dash else "") + "/>")
        if not one.reference:
            out += [marker(number, x, y, colour) for x, y in path]
            number += 1
        end_x, end_y = path[-1]
        if i in names:
            out += [f'<polyline points="{end_x + 5:.1f},{end_y:.1f} {x1 + NAME_GAP - 4:.1f},{names[i]:.1f}" fill="none" '
                    f'stroke="{colour}" stroke-width="0.7"/>', text(x1 + NAME_GAP, names[i] + 4, one.name, colour=colour)]
        else:
            out.append(text(end_x + 6, end_y - 5, one.name, "start" if end_x < (x0 + x1) / 2 else "end", colour=colour))
    return out


def draw(title, panels, note="", columns=2):
    """The SVG's text."""
    rows = math.ceil(len(panels) / columns)
    width, height = columns * PANEL_WIDTH, HEAD + rows * PANEL_HEIGHT + FOOT
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           f'font-family="DejaVu Sans, Helvetica, Arial, sans-serif">',
           f'<rect width="{width}" height="{height}" fill="white"/>',
           text(LEFT, 32, title, size=19, extra=' font-weight="bold"')]
    for i, panel in enumerate(panels):
        out += draw_panel(panel, i % columns * PANEL_WIDTH, HEAD + i // columns * PANEL_HEIGHT)
    if note:
        out.append(text(LEFT, height - 12, note, colour=FAINT))
    return "\n".join(out + ["</svg>"]) + "\n"
