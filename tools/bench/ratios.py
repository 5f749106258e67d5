"""Measurements beside peers, as one picture: a row per work, a mark per peer at the ratio to it, on a logarithmic scale.

    draw("Stria beside ...", "Stria", {"cold read": {"Stria": [1300, 1290], "GlusterFS": [250, 240]}}) -> SVG

A mark is the ratio of the medians; the bar through it goes from the smallest to the largest ratio of two rounds with the same
number. Right of 1 the first system is faster. As a program: ratios.py VALUES.json [FIRST] >OUT.svg, of what `--json` has kept.
"""

import json
import math
import pathlib
import statistics
import sys

from plot import COLOURS, FAINT, FONT, GRID, HEAD, TEXT, name_width, text, tick_name

ROW = 22
WIDTH = 460       # of the scale
MARGIN = 16
MARKS = ["circle", "square", "diamond", "triangle"]


def ratios(rows, first):
    """[(work, {peer: (median, low, high)})] of works that the first system and at least one peer did."""
    out = []
    for work, values in rows.items():
        mine = values.get(first)
        peers = {}
        for peer, theirs in values.items():
            if peer == first or not mine or not theirs or min(theirs) <= 0 or min(mine) <= 0:
                continue
            each = [a / b for a, b in zip(mine, theirs)]
            median = statistics.median(mine) / statistics.median(theirs)
            peers[peer] = (median, min([median, *each]), max([median, *each]))
        if peers:
            out.append((work, peers))
    return out


def scale(values):
    """Whole powers of ten around all of them, and around 1."""
    return math.floor(math.log10(min([1, *values])) + 1e-9), math.ceil(math.log10(max([1.001, *values])) - 1e-9)


def mark(kind, x, y, colour):
    points = {"square": [(-4, -4), (4, -4), (4, 4), (-4, 4)], "diamond": [(0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)],
              "triangle": [(0, -5), (5, 4), (-5, 4)]}.get(kind)
    if not points:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>'
    return f'<polygon points="{" ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in points)}" fill="{colour}"/>'


def draw(title, first, rows):
    found = ratios(rows, first)
    if not found:
        raise ValueError(f"nothing was measured of {first} and of a peer")
    peers = list(dict.fromkeys(p for _, of in found for p in of))
    low, high = scale([v for _, of in found for triple in of.values() for v in triple])
    left = MARGIN + max(name_width(work) for work, _ in found)
    top = HEAD + ROW
    bottom = top + ROW * len(found)
    width, height = left + WIDTH + 2 * MARGIN, bottom + 2 * ROW + 8

    def place(value):
        return left + MARGIN + WIDTH * (math.log10(value) - low) / (high - low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
           f'height="{height:.0f}" font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>',
           text(MARGIN, 24, title, size=FONT + 3)]
    at = float(MARGIN)
    for i, peer in enumerate(peers):
        colour = COLOURS[i % len(COLOURS)]
        out += [mark(MARKS[i % len(MARKS)], at + 5, HEAD - 4, colour), text(at + 15, HEAD, peer)]
        at += 15 + name_width(peer) + 2 * MARGIN
    for power in range(low, high + 1):
        for step in (1, 2, 5):
            value = step * 10.0 ** power
            if value > 10.0 ** high * 1.001:
                continue
            x = place(value)
            out.append(f'<line x1="{x:.1f}" y1="{top - 8}" x2="{x:.1f}" y2="{bottom}" '
                       f'stroke="{TEXT if value == 1 else GRID}" stroke-width="{1.4 if value == 1 else 1}"/>')
            out.append(text(x, bottom + ROW - 4, tick_name(value), anchor="middle", colour=TEXT if step == 1 else FAINT))
    out.append(text(left + MARGIN + WIDTH / 2, bottom + 2 * ROW - 4, f"times as fast as the peer: right of 1 {first} is ahead",
                    anchor="middle", colour=FAINT))
    for n, (work, of) in enumerate(found):
        y = top + ROW * n + ROW / 2
        out.append(text(left, y + 4, work, anchor="end"))
        for i, peer in enumerate(peers):
            if peer not in of:
                continue
            median, least, most = of[peer]
            colour = COLOURS[i % len(COLOURS)]
            out.append(f'<line x1="{place(least):.1f}" y1="{y:.1f}" x2="{place(most):.1f}" y2="{y:.1f}" stroke="{colour}" '
                       'stroke-width="2"/>')
            out.append(mark(MARKS[i % len(MARKS)], place(median), y, colour))
    return "\n".join(out) + "\n</svg>\n"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    kept = json.loads(pathlib.Path(sys.argv[1]).read_text())
    rows = {key.rsplit(" [", 1)[0]: of["values"] for key, of in kept.items()}
    first = sys.argv[2] if len(sys.argv) == 3 else next(iter(next(iter(rows.values()))))
    sys.stdout.write(draw(f"{first} beside peers", first, rows))


if __name__ == "__main__":
    main()
