"""Every test that docs/field-faults.md names is in the file that it names, and runs: a test of C++ that is not disabled; a function of Python that
something there calls or lists; a scenario of test/cluster, and cases of the conformance suite, that bazel has."""

import pathlib
import re
import sys

TOP = next(p for p in pathlib.Path(__file__).resolve().parents if (p / "WORKSPACE").exists())
TABLE = TOP / "docs/field-faults.md"
ENTRY = re.compile(r"\[[\w-]+\]\(([^)#]+\.(?:cc|py))\): ((?:`\w+`(?:, )?)+)")


def has(text, name, path):
    """That it is there, and that it runs."""
    if not path.endswith(".py"):
        return re.search(rf"^TEST(?:_F|_P)?\((?!DISABLED_)\w+,\s*{name}\)", text, re.M) is not None
    without_comments = re.sub(r"(?:^|\s)#.*$", "", text, flags=re.M)
    uses = re.findall(rf"(?<!def )(?<![\w.\"'`]){name}(?![\w\"'`])", without_comments)
    return re.search(rf"^def {name}\(", text, re.M) is not None and len(uses) > 0


def is_run(path):
    """By bazel: what test/cluster has is one of its scenarios, any other file of Python is named by the BUILD.bazel above it."""
    if path.suffix != ".py":
        return True
    if path.parent == TOP / "test/cluster":
        scenarios = re.search(r"^SCENARIOS = \{(.*?)^\}", (path.parent / "BUILD.bazel").read_text(), re.M | re.S)[1]
        return f'"{path.stem}":' in re.sub(r"#.*", "", scenarios)
    build = next(p / "BUILD.bazel" for p in path.parents if (p / "BUILD.bazel").exists())
    text = re.sub(r"#.*", "", build.read_text())
    return f'"{path.name}"' in text or re.search(r'glob\(\["[^"]*\*\.py"', text) is not None


def check_helpers():
    assert has("TEST_F(A, B) {", "B", "a.cc") and not has("// B\nTEST(A, BB) {", "B", "a.cc")
    assert not has("TEST(A, DISABLED_B) {", "B", "a.cc") and not has("TEST(DISABLED_A, B) {", "B", "a.cc") and not has("// TEST(A, B) {", "B", "a.cc")
    assert has("def b(c):\nb(1)", "b", "a.py") and has("def b(c):\nCASES = [a, b]", "b", "a.py") and not has("    def b(c):\ndef bb(c):\nb(1)", "b", "a.py")
    for nowhere in ("", "# b(1)", "def bb():\n  bb(1)", "x.b(1)", "say('b')"):
        assert not has("def b(c):\n" + nowhere, "b", "a.py"), nowhere
    assert is_run(TOP / "test/cluster/names.py") and not is_run(TOP / "test/cluster/stria_cluster.py")
    assert ENTRY.findall("| [a_test](../a/a_test.cc): `B`, `C`; [d](../d.py): `e` (f) |") == [("../a/a_test.cc", "`B`, `C`"), ("../d.py", "`e`")]


def main():
    check_helpers()
    text = TABLE.read_text()
    problems, names = [], 0
    for file, listed in ENTRY.findall(text):
        path = (TABLE.parent / file).resolve()
        there = path.read_text() if path.exists() else ""
        if there and not is_run(path):
            problems.append(f"docs/field-faults.md: no test of bazel runs {file}")
        for name in re.findall(r"`(\w+)`", listed):
            names += 1
            if not has(there, name, file):
                problems.append(f"docs/field-faults.md: {file} has no test {name}")
    for number in range(1, 27):
        row = re.search(rf"^\| {number} \|.*$", text, re.M)
        if row is None or not ENTRY.search(row[0]):
            problems.append(f"docs/field-faults.md: line {number} names no test")
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(1)
    assert names > 80, f"field_faults.py finds only {names} names"
    print(f"{names} tests are where docs/field-faults.md has them")


if __name__ == "__main__":
    main()
