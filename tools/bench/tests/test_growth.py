"""The arithmetic of growth, and its tables."""

import pytest

from growth import Row, number, of_a_logarithm, per_decade, ratio, size_name, table, verdict

SIZES = (10, 100, 1000, 10_000)


def row(cost, **more):
    return Row("x", "us", {s: cost(s) for s in SIZES}, **more)


def test_ratios_are_to_the_smallest_size():
    r = row(lambda s: 3.0 * s)
    assert [ratio(r, s) for s in SIZES] == pytest.approx([1, 10, 100, 1000])
    assert ratio(r, 55) is None


def test_of_rates_it_is_the_cost_that_grows():
    r = Row("x", "MB/s", {5: 800.0, 10: 400.0}, more_is_better=True)
    assert ratio(r, 10) == pytest.approx(2)
    assert per_decade(r) == pytest.approx(2 ** (1 / 0.30103), rel=1e-4)


@pytest.mark.parametrize("cost, decade", [(lambda s: 7.0, 1), (lambda s: s / 4, 10), (lambda s: s * s, 100),
                                          (lambda s: 5 / s, 0.1), (lambda s: s ** 0.5, 10 ** 0.5)])
def test_the_factor_per_decade_is_that_of_the_power(cost, decade):
    assert per_decade(row(cost)) == pytest.approx(decade)


def test_one_value_says_nothing_of_growth():
    r = Row("x", "us", {10: 4.0, 100: None, 1000: 0.0})
    assert per_decade(r) is None
    assert verdict(r) == ""
    assert ratio(r, 10) == 1
    assert ratio(r, 100) is None and ratio(r, 1000) is None


@pytest.mark.parametrize("cost, what", [
    (lambda s: 10.0, "flat"), (lambda s: 10.0 if s < 10_000 else 12.9, "flat"), (lambda s: 1 / s, "flat"),
    (lambda s: of_a_logarithm(10, s), "log"), (lambda s: s ** 0.5, "more"), (lambda s: s, "more")])
def test_growth_is_compared_with_the_logarithm(cost, what):
    assert verdict(row(cost)) == what
    assert verdict(row(cost, judged=False)) == ""


def test_the_logarithm_begins_at_one():
    assert of_a_logarithm(1, 1) == 1
    assert of_a_logarithm(1, 10 ** 6) == pytest.approx(19.93, abs=0.01)
    assert of_a_logarithm(10 ** 4, 10 ** 6) == pytest.approx(1.5, abs=0.01)


@pytest.mark.parametrize("value, name", [(0, "0"), (0.01234, "0.012"), (1.2345, "1.23"), (12.345, "12.3"), (123.45, "123"),
                                         (1234.5, "1,230"), (999.7, "1,000"), (0.5, "0.500"), (1_234_567, "1,230,000")])
def test_numbers_have_three_digits(value, name):
    assert number(value) == name


def test_sizes_are_named_shortly():
    assert [size_name(s) for s in (1, 50, 1000, 10_000, 10 ** 6, 20_000)] == ["1", "50", "1,000", "10^4", "10^6", "20,000"]


def test_a_table_has_a_column_for_each_size_and_gaps():
    rows = [Row("lookup", "us", {10_000: 5.0, 100_000: 6.0}), Row("memory", "MiB", {100_000: 30.0}, judged=False),
            Row("rate", "/s", {10_000: 100.0, 100_000: 10.0}, more_is_better=True)]
    lines = table(rows, "inodes").splitlines()
    assert lines == [
        "| inodes | 10^4 | 10^5 | ×/decade | growth |",
        "|---|---|---|---|---|",
        "| lookup, us | 5.00 | 6.00 (1.20) | 1.20 | flat |",
        "| memory, MiB |  | 30.0 |  |  |",
        "| rate, /s | 100 | 10.0 (10.00) | 10.00 | more |",
    ]
