from stria_bench import in_order, in_turn


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
