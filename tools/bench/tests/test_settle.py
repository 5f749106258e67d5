"""A work begins when the one before it has left nothing to be done."""

from work import MIB, activity, settle


def waited(per_second, at_most=30):
    """Seconds that settle() waits if so much is used in each: (processors, bytes)."""
    totals, slept = [(100.0, 5000)], []
    for seconds, moved in per_second:
        totals.append((totals[-1][0] + seconds, totals[-1][1] + moved))
    settle(look=lambda: totals[len(slept)], sleep=slept.append, at_most=at_most)
    return len(slept)


def test_a_quiet_machine_is_looked_at_twice():
    assert waited([(0.01, 0)] * 5) == 2


def test_processors_and_disks_must_rest_at_once_and_for_two_seconds():
    assert waited([(1.5, 0), (0.0, 50 * MIB), (0.0, 0), (0.9, 0), (0.0, 0), (0.1, 4096), (2.0, 0)]) == 6


def test_who_never_rests_is_not_waited_for():
    assert waited([(1.0, 0)] * 50, at_most=7) == 7


def test_activity_grows():
    before = activity()
    sum(range(3_000_000))
    after = activity()
    assert after[0] >= before[0] > 0 and after[1] >= before[1]
