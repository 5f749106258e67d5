"""The rest is scaled by the time that the finished steps took."""

import io

import pytest

from progress import LINES_APART_S, Progress, duration


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def make(out=None):
    clock = Clock()
    return Progress([("a", 10), ("b", 30), ("c", 60)], out or io.StringIO(), clock), clock


@pytest.mark.parametrize("seconds, text", [(0, "0:00"), (59.4, "0:59"), (60, "1:00"), (3725, "62:05"), (-3, "0:00")])
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_before_anything_is_done_the_plan_counts():
    progress, _ = make()
    assert progress.rest() == 100
    progress.begin("a")
    assert progress.rest() == 100


def test_a_slow_machine_needs_longer():
    progress, clock = make()
    progress.begin("a")
    clock.now = 20  # twice as long as planned
    progress.begin("b")
    assert progress.rest() == pytest.approx(180)
    clock.now = 50
    progress.tell(0.5)
    assert progress.rest() == pytest.approx(50 / 25 * 75)


def test_a_part_never_shrinks_and_ends_at_one():
    progress, _ = make()
    progress.begin("b")
    progress.tell(0.5)
    progress.tell(0.2)
    assert progress.part == 0.5
    progress.tell(7)
    assert progress.part == 1


def test_lines_are_few_without_a_terminal():
    progress, clock = make()
    progress.begin("a")
    for i in range(100):
        clock.now = i * 0.5
        progress.tell(i / 100)
    lines = progress.out.getvalue().splitlines()
    assert 2 <= len(lines) <= 2 + 50 / LINES_APART_S
    assert lines[0] == "[0:00] 1/3 a   0%, 1:40 left"


def test_a_terminals_line_is_written_over():
    progress, clock = make(Terminal())
    progress.begin("a")
    clock.now = 1
    progress.begin("b")
    progress.say("b: failed")
    progress.end()
    text = progress.out.getvalue()
    assert text.count("\r") >= 3 and "b: failed\n" in text and text.count("\n") == 1
