"""Every test that docs/field-faults.md names is in the file that it names, and is a test or a function there."""

import pathlib
import re
import sys

TOP = next(p for p in pathlib.Path(__file__).resolve().parents if (p / "WORKSPACE").exists())
TABLE = TOP / "docs/field-faults.md"
ENTRY = re.compile(r"\[[\w-]+\]\(([^)#]+\.(?:cc|py))\): ((?:`\w+`(?:, )?)+)")


def has(text, name, path):
    pattern = rf"^def {name}\(" if path.endswith(".py") else rf"^TEST(?:_F|_P)?\(\w+,\s*{name}\)"
    return re.search(pattern, text, re.M) is not None


def check_helpers():
    assert has("TEST_F(A, B) {", "B", "a.cc") and not has("// B\nTEST(A, BB) {", "B", "a.cc")
    assert has("def b(c):", "b", "a.py") and not has("    def b(c):\ndef bb(c):", "b", "a.py")
    assert ENTRY.findall("| [a_test](../a/a_test.cc): `B`, `C`; [d](../d.py): `e` (f) |") == [("../a/a_test.cc", "`B`, `C`"), ("../d.py", "`e`")]


def main():
    check_helpers()
    text = TABLE.read_text()
    problems, names = [], 0
    for file, listed in ENTRY.findall(text):
        path = (TABLE.parent / file).resolve()
        there = path.read_text() if path.exists() else ""
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
