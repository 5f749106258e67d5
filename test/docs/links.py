"""Every link from one document of the tree to another, or to a file, leads to something that is there; so does its anchor."""

import pathlib
import re
import sys

TOP = next(p for p in pathlib.Path(__file__).resolve().parents if (p / "WORKSPACE").exists())
LINK = re.compile(r"\[[^\]\[]*\]\(([^)\s]+)\)")


def documents():
    return sorted(p for p in TOP.rglob("*.md") if not any(part.startswith((".", "bazel-")) for part in p.relative_to(TOP).parts))


def without_code(text):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^ *```.*?^ *```", "", text, flags=re.S | re.M))


def anchors(text):
    """Of headings, as GitHub makes them."""
    found = {}
    for heading in re.findall(r"^#+ +(.*?) *#*$", re.sub(r"^ *```.*?^ *```", "", text, flags=re.S | re.M), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = found.get(slug, 0)
        found[slug] = number + 1
        if number:
            found[f"{slug}-{number}"] = 1
    return set(found)


def faults(path, text):
    """Sentences about the links of one document."""
    found = []
    for target in LINK.findall(without_code(text)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        if file and not there.exists():
            found.append(f"there is no {target}")
        elif anchor and (there.suffix != ".md" or anchor not in anchors(there.read_text() if file else text)):
            found.append(f"{target} has no such heading")
    return found


def check_helpers(path):
    assert anchors("# A `b` c's, d\n## [X](y)\n## X\n```\n# no\n```\n") == {"a-b-cs-d", "x", "x-1"}
    assert faults(path, "# Here\n[a](#here) [b](README.md#test) `[no](link)` [c](https://example.org/x)\n") == []
    for wrong in ("[a](nowhere.md)", "[a](#there)", "[a](README.md#nothing)"):
        assert len(faults(path, f"# Here\n{wrong}\n")) == 1, wrong


def main():
    check_helpers(TOP / "test/none.md")
    problems, links = [], 0
    for path in documents():
        text = path.read_text()
        links += len(LINK.findall(without_code(text)))
        problems += [f"{path.relative_to(TOP)}: {fault}" for fault in faults(path, text)]
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(1)
    assert links > 100, f"links.py finds only {links} links"
    print(f"{links} links lead to something")


if __name__ == "__main__":
    main()
