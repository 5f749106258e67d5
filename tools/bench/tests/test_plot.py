"""Axes, names that do not cover each other, and that the result is an SVG with all of it inside."""

import xml.etree.ElementTree as ElementTree

import pytest

import plot
from plot import Line, Panel, draw, nice_step, spread, tick_name, x_axis, y_axis

SVG = "{http://www.w3.org/2000/svg}"


def panel(lines, title="A & B <c>"):
    return Panel(title, "inodes", "cost", lines)


def elements(text, name):
    return list(ElementTree.fromstring(text).iter(SVG + name))


def test_powers_of_ten_are_marked_on_a_wide_axis():
    axis = x_axis([1, 10, 1000, 10 ** 6])
    assert axis.ticks == [10 ** p for p in range(7)]
    assert axis.place(1) == 0 and axis.place(10 ** 6) == 1
    assert axis.place(1000) == pytest.approx(0.5)


@pytest.mark.parametrize("values", [[5, 10, 20, 50], [1, 2, 4, 8, 16, 32]])
def test_few_values_are_marked_themselves(values):
    axis = x_axis(values)
    assert axis.ticks == values
    steps = [axis.place(b) - axis.place(a) for a, b in zip(values, values[1:])]
    assert all(s > 0.1 for s in steps)


def test_one_value_stands_in_the_middle():
    axis = x_axis([7])
    assert axis.ticks == [7]
    assert axis.place(7) == pytest.approx(0.5)


def test_y_begins_at_zero_and_holds_all():
    for high in (0.003, 0.97, 1.0, 1.4, 7, 99, 12345):
        axis = y_axis([high / 3, high])
        assert not axis.log and axis.low == 0 and axis.ticks[0] == 0
        assert 0 < axis.place(high) < 1
        assert 4 <= len(axis.ticks) <= 8


def test_y_is_logarithmic_when_values_are_far_apart():
    axis = y_axis([0.5, 3000])
    assert axis.log and axis.low <= 0.5 and axis.high >= 3000
    assert axis.ticks == pytest.approx([0.1, 1, 10, 100, 1000, 10_000])


@pytest.mark.parametrize("span, count, step", [(10, 5, 2), (1, 5, 0.2), (7, 5, 2), (100, 5, 20), (2.3, 5, 0.5), (13, 5, 5)])
def test_steps_are_round(span, count, step):
    assert nice_step(span, count) == pytest.approx(step)


@pytest.mark.parametrize("value, name", [(1, "1"), (50, "50"), (1000, "1,000"), (10_000, "10⁴"), (10 ** 12, "10¹²"),
                                         (20_000, "20,000"), (0.25, "0.25"), (0, "0")])
def test_ticks_are_named(value, name):
    assert tick_name(value) == name


@pytest.mark.parametrize("wanted", [[], [5.0], [10, 10, 10], [0, 1, 2, 100], [100, 99, 0], [50, 51, 52, 53, 20], [100] * 6])
def test_names_are_spread(wanted):
    places = spread(wanted, 0, 100, 15)
    assert len(places) == len(wanted)
    assert all(-1e-6 <= p <= 100 + 1e-6 for p in places)
    assert all(b - a >= 15 - 1e-6 for a, b in zip(sorted(places), sorted(places)[1:]))
    for a, b in zip(range(len(wanted)), range(1, len(wanted))):
        if wanted[a] != wanted[b]:
            assert (places[a] < places[b]) == (wanted[a] < wanted[b])


def test_names_with_room_stay_where_they_are():
    assert spread([10, 60, 30], 0, 100, 15) == [10, 60, 30]


def test_more_names_than_fit_come_closer():
    places = spread([5.0] * 21, 0, 100, 15)
    assert sorted(places)[0] == pytest.approx(0) and sorted(places)[-1] == pytest.approx(100)


def test_a_chart_is_well_formed_and_within_its_bounds():
    lines = [Line(f"line {i}", [(10 ** p, (i + 1) * (p + 1)) for p in range(7)]) for i in range(8)]
    lines.append(Line("log", [(1, 1), (10 ** 6, 20)], reference=True))
    text = draw("Title > 1", [panel(lines)] * 4, "note")
    root = ElementTree.fromstring(text)
    width, height = float(root.get("width")), float(root.get("height"))
    assert width == 2 * plot.PANEL_WIDTH
    words = [e.text for e in elements(text, "text")]
    assert words.count("A & B <c>") == 4 and words.count("line 3") == 4 and "Title > 1" in words and "note" in words
    for e in elements(text, "text"):
        assert 0 <= float(e.get("x")) <= width and 0 <= float(e.get("y")) <= height
    for e in elements(text, "polyline"):
        for point in e.get("points").split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= width and 0 <= y <= height
    assert len(elements(text, "circle")) == 4 * 3 * 7  # every third of the lines has round markers


@pytest.mark.parametrize("name", ["x", "a name that has thirty-nine letters, say"])
def test_names_fit_beside_the_axes(name):
    text = draw("t", [panel([Line(name, [(1, 1), (100, 2)])])] * 2)
    for i, e in enumerate(e for e in elements(text, "text") if e.text == name):
        assert float(e.get("x")) + plot.name_width(name) <= (i + 1) * plot.PANEL_WIDTH + 1


def test_a_reference_ends_where_it_leaves_the_range():
    lines = [Line("l", [(1, 1), (100, 2)]), Line("log", [(1, 1), (10, 4), (100, 9)], reference=True)]
    text = draw("t", [panel(lines)])
    top = min(float(e.get("y1")) for e in elements(text, "line"))
    drawn = next(e for e in elements(text, "polyline") if e.get("stroke-dasharray") == "1 4")
    points = [tuple(map(float, p.split(","))) for p in drawn.get("points").split()]
    assert len(points) == 2 and points[-1][1] == pytest.approx(top)
    assert "log" in [e.text for e in elements(text, "text")]


def test_cutting_a_line():
    assert plot.cut_at([(0, 10), (10, 5)], 0) == ([(0, 10), (10, 5)], False)
    assert plot.cut_at([(0, 10), (10, -10), (20, -20)], 0) == ([(0, 10), (5, 0)], True)
    assert plot.cut_at([(0, -1)], 0) == ([], True)


def test_lines_look_different():
    text = draw("t", [panel([Line(f"l{i}", [(1, 1), (10, i + 1)]) for i in range(16)])])
    seen = {(e.get("stroke"), e.get("stroke-dasharray")) for e in elements(text, "polyline") if e.get("stroke-width") == "2"}
    assert len(seen) == 16


def test_points_may_come_in_any_order():
    text = draw("t", [panel([Line("l", [(100, 3), (1, 1), (10, 2)])])])
    drawn = next(e for e in elements(text, "polyline") if e.get("stroke-width") == "2")
    xs = [float(p.split(",")[0]) for p in drawn.get("points").split()]
    assert xs == sorted(xs) and len(xs) == 3


def test_an_empty_panel_says_so():
    assert "not measured" in draw("t", [panel([]), panel([Line("l", [])])])


@pytest.mark.parametrize("point", [(0, 1), (1, 0), (-1, 1), (1, float("nan")), (1, float("inf"))])
def test_what_has_no_logarithm_is_refused(point):
    with pytest.raises(ValueError, match="positive"):
        draw("t", [panel([Line("l", [(1, 1), point])])])
