from results import Measure, Results, quartiles
from stria_bench import in_order, in_turn, passes_in_turn


def test_every_system_is_first_and_last_as_often():
    rounds = [in_turn(["a", "b", "c"], n) for n in range(1, 7)]
    for place in range(3):
        assert sorted(r[place] for r in rounds) == ["a", "a", "b", "b", "c", "c"]
    assert all(sorted(r) == ["a", "b", "c"] for r in rounds)


def test_one_system_or_none():
    assert in_turn(["a"], 4) == ["a"]
    assert in_turn([], 2) == []


def test_a_node_is_killed_after_everything_else():
    assert in_order(["degraded", "columns", "sequential"])[-1] == "degraded"
    assert in_order(["random"]) == ["random"]


def test_passes_side_by_side_take_turns():
    assert passes_in_turn(["a", "b"], 1, 2) == [["a", "b"], ["b", "a"]]
    assert passes_in_turn(["a", "b"], 2, 3) == [["b", "a"], ["a", "b"], ["b", "a"]]


def measured(results, system, value, cpu, work="rename"):
    m = Measure()
    m.seconds, m.cpu = 1.0, cpu
    results.add(work, "/s", system, value, m, "CPU-us/op", 1000)


def test_pairs_are_compared_not_medians():
    results = Results()
    # The machine slows down tenfold; the first system is 10 % faster at any time. The ratio of medians would say 1.1 only by luck.
    for rate, first in ((1000, "new"), (500, "old"), (100, "new")):
        for system in ([first, "old" if first == "new" else "new"]):
            measured(results, system, rate * (1.1 if system == "new" else 1), 2.0 if system == "new" else 4.0)
    row = [line for line in results.pairs(["new", "old"]).splitlines() if line.startswith("| rename")]
    assert row == ["| rename | 3 | 1.10 (1.10 to 1.10) | 0.50 |"]


def test_a_work_that_failed_somewhere_has_no_pairs():
    results = Results()
    measured(results, "new", 10, 1)
    measured(results, "new", 10, 1)
    measured(results, "old", 10, 1)
    measured(results, "new", 10, 1, work="unlink")
    rows = results.pairs(["new", "old"]).splitlines()[2:4]
    assert rows == ["| rename | 0 | | |", "| unlink | 0 | | |"]


def test_quartiles_of_few():
    assert quartiles([2]) == (2, 2, 2)
    assert quartiles([1, 2, 3]) == (1.5, 2, 2.5)
    assert all(q != q for q in quartiles([]))
