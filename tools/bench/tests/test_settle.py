"""A work begins when the one before it has left nothing to be done."""

from systems import Plain, garbage_shards
from work import MIB, activity, settle


def waited(per_second, at_most=30, left=lambda: 0):
    """Seconds that settle() waits if so much is used in each: (processors, bytes)."""
    totals, slept = [(100.0, 5000)], []
    for seconds, moved in per_second:
        totals.append((totals[-1][0] + seconds, totals[-1][1] + moved))
    settle(left=left, look=lambda: totals[len(slept)], sleep=slept.append, at_most=at_most)
    return len(slept)


def test_a_quiet_machine_is_looked_at_twice():
    assert waited([(0.01, 0)] * 5) == 2


def test_processors_and_disks_must_rest_at_once_and_for_two_seconds():
    assert waited([(1.5, 0), (0.0, 50 * MIB), (0.0, 0), (0.9, 0), (0.0, 0), (0.1, 4096), (2.0, 0)]) == 6


def test_who_never_rests_is_not_waited_for():
    assert waited([(1.0, 0)] * 50, at_most=7) == 7


def test_what_is_to_be_deleted_later_is_waited_for():
    answers = [160, 160, 32, 0]
    assert waited([(0.01, 0)] * 9, left=lambda: answers.pop(0)) == 5
    assert answers == []


def test_nobody_is_asked_who_is_busy():
    answers = [1, 0]
    assert waited([(0.01, 0), (0.01, 0), (1.5, 0), (0.01, 0), (0.01, 0)], left=lambda: answers.pop(0)) == 5
    assert answers == []


def test_what_is_never_done_is_not_waited_for():
    assert waited([(0.01, 0)] * 50, at_most=7, left=lambda: 3) == 7


def test_what_status_says_of_garbage():
    assert garbage_shards('{"garbage_shards": 12, "files": 1}') == 12
    assert garbage_shards("{}") == garbage_shards("stria: no server answers") == garbage_shards("[]") == 0
    assert Plain(None).left_to_do() == 0


def test_activity_grows():
    before = activity()
    sum(range(3_000_000))
    after = activity()
    assert after[0] >= before[0] > 0 and after[1] >= before[1]
