"""The picture beside peers: the meaning of its marks, and that all of it is inside."""

import xml.etree.ElementTree as ElementTree

import pytest

import ratios

SVG = "{http://www.w3.org/2000/svg}"
ROWS = {"cold read": {"Stria": [100, 120, 110], "A & B": [50, 40, 55], "C": [220, 200, 230]},
        "create": {"Stria": [10, 10, 10], "C": [1, 1, 1]},
        "only ours": {"Stria": [1]},
        "never worked": {"Stria": [5], "C": [0]}}


def test_ratios_are_of_medians_and_bars_of_rounds():
    found = dict(ratios.ratios(ROWS, "Stria"))
    assert set(found) == {"cold read", "create"}
    assert found["cold read"]["A & B"] == pytest.approx((110 / 50, 2.0, 3.0))
    assert found["cold read"]["C"][0] == pytest.approx(0.5)
    assert found["create"] == {"C": pytest.approx((10, 10, 10))}


def test_the_scale_has_all_and_one():
    assert ratios.scale([0.5, 10]) == (-1, 1)
    assert ratios.scale([2, 30]) == (0, 2)
    assert ratios.scale([0.02]) == (-2, 1)


def test_marks_stand_where_they_belong_and_inside():
    root = ElementTree.fromstring(ratios.draw("Title <1>", "Stria", ROWS))
    width, height = (float(root.get(k)) for k in ("width", "height"))
    texts = {t.text for t in root.iter(SVG + "text")}
    assert {"Title <1>", "A & B", "C", "cold read", "create", "1", "10"} <= texts and "only ours" not in texts
    for t in root.iter(SVG + "text"):
        assert 0 <= float(t.get("x")) <= width and 0 <= float(t.get("y")) <= height
    one = next(float(t.get("x")) for t in root.iter(SVG + "text") if t.text == "1")
    # Of A & B the key and one mark, of C, whose marks are squares, the key and two: behind the peer at 0.5, ahead at 10.
    circles = [float(c.get("cx")) for c in root.iter(SVG + "circle")]
    assert len(circles) == 2 and circles[1] > one
    squares = [float(p.get("points").split(",")[0]) + 4 for p in root.iter(SVG + "polygon")]
    assert len(squares) == 3 and squares[1] < one < squares[2]


def test_nothing_to_show_is_said():
    with pytest.raises(ValueError, match="nothing was measured"):
        ratios.draw("", "Stria", {"x": {"C": [1]}})
