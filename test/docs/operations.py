"""Everything in docs/operations.md is run as it is written, or by a test that is named here: each section has tests, each block of commands is typed by
test/room/operations.py or has its commands in one of these, so has each command in the text, and each other block has a line of its own in a test.
What the text only mentions may be in any of them. A new section, block or command without a test fails."""

import importlib.util
import pathlib
import re
import sys

TOP = next(p for p in pathlib.Path(__file__).resolve().parents if (p / "WORKSPACE").exists())
sys.path.insert(0, str(TOP / "test/docs"))
import typed  # noqa: E402

DOCUMENT = TOP / "docs/operations.md"
TYPED = "test/room/operations.py"

# Section: what runs it. Paths without a folder are scenarios of test/cluster.
TESTS = {
    "Programs": ["service.py", "trust.py", "tools/cli/dev/dev_test.cc", "test/docs/settings.py", "test/package/described.py", TYPED],
    "Installing": [TYPED, "test/room/room.py", "test/room/first_hour.py", "test/package/install.py", "test/package/boots.py"],
    "Versions": ["test/room/room.py", "test/room/plan.py", "test/package/described.py", TYPED],
    "Logs and settings": ["service.py", "test/package/install.py"],
    "Mounting": [TYPED, "citizen.py", "service.py", "no_hang.py", "gap.py", "test/package/boots.py"],
    "Names and addresses": ["names.py"],
    "Reading past the mount": ["passthrough.py"],
    "Processors that sleep": ["common/quick_wake_test.cc"],
    "Is everything all right?": [TYPED],
    "Procedures": [TYPED, "ha_join.py", "ha_ca.py", "node_returns.py"],
    "Certificates and exports": [TYPED, "trust.py"],
    "Who reads and writes": [TYPED, "jobs.py"],
    "Being told": [TYPED, "events.py"],
    "Disks that predict their failure": [TYPED],
    "A node died": [TYPED, "replace.py", "node_returns.py", "not_mounted.py"],
    "A disk died, or is about to": [TYPED, "disk_errors.py", "replace.py", "not_mounted.py"],
    "A disk cannot be opened, or its index is lost": [TYPED, "disk_index.py", "not_mounted.py", "rooms.py"],
    "A disk was put into another machine": [TYPED, "disk_moved.py"],
    "A disk or node is slow": ["slow.py", "silent.py"],
    "A controller died": [TYPED, "channel_loss.py"],
    "No spare node left": [TYPED, "grow.py"],
    "Fewer nodes than the layout has columns": [TYPED, "few_left.py"],
    "More died than the layout stands": [TYPED, "too_many_losses.py"],
    "Taking a node or disk out": [TYPED, "grow.py", "rooms.py"],
    "A node was added": [TYPED, "grow.py", "test/room/room.py"],
    "Bits that rot": [TYPED, "bit_rot.py"],
    "Less or no rebuilding for now": [TYPED, "rebuild_interrupted.py"],
    "Files that lie on one node take twice their size": ["fold.py"],
    "The metadata's disk gets full": ["meta_full.py"],
    "The metadata's disk is lost": [TYPED, "meta_lost.py", "meta_rot.py"],
    "Several metadata servers": ["ha_join.py", "ha_ca.py", "ha_kill.py", "etcd_members.py"],
    "Consistency": [TYPED],
    "Bounds": ["test/docs/settings.py"],
}

# Settings and sentences of blocks that have no commands: (section, number): (what has them, what stands there and in the block).
OTHER_BLOCKS = {
    ("Installing", 2): (TYPED, 'self.document["Installing"].blocks[1]'),
    ("Mounting", 2): (TYPED, 'self.document["Mounting"].blocks[1]'),
    ("Names and addresses", 1): ("names.py", "cannot reach it at"),
    ("A disk died, or is about to", 1): ("disk_errors.py", "too many errors"),
    ("A disk or node is slow", 1): ("slow.py", "is slow"),
    ("A controller died", 1): ("tools/cli/render_test.cc", "would lose data: it holds"),
    ("Files that lie on one node take twice their size", 1): ("fold.py", "[fold]"),
    ("The metadata's disk gets full", 1): ("meta_full.py", "is full"),
    ("Several metadata servers", 1): ("ha_join.py", "# /etc/default/etcd"),
    ("Several metadata servers", 3): ("ha_join.py", "[ha]"),
}

# Tests that bazel does not run: where it is said how they are run by hand.
BY_HAND = {"test/package/install.py": "test/package/README.md", "test/package/boots.py": "test/package/README.md", "test/room/first_hour.py": "test/room/README.md"}


def path_of(test):
    return TOP / (test if "/" in test else f"test/cluster/{test}")


def room_types(text):
    """Of test/room/operations.py: {(section, block)} that it types, and [(section, command)] of a text."""
    blocks, inline = set(), []
    for function in re.split(r"^    def ", text, flags=re.M):
        own = re.search(r'^        heading = "([^"]+)"$', function, re.M)
        for given, number in re.findall(r'self\.(?:follow|backup_line)\(("[^"]+"|heading), ?(\d+)?', function):
            heading = own[1] if given == "heading" else given.strip('"')
            blocks.add((heading, int(number or 1)))
        for given, command in re.findall(r'self\.inline\(("[^"]+"|heading), "([^"]+)"', function):
            inline.append((own[1] if given == "heading" else given.strip('"'), command))
    return blocks, inline


def parts_of(command):
    """(verbs, long flags) of a command of Stria's; None of another."""
    words = re.sub(r"\s(?:&&|\||#).*|\[[^]]*\]", "", command).split()
    if words[:4] == ["runuser", "-u", "stria", "--"]:
        words = words[4:]
    if not re.match(r"stria(-\w+)?$", words[0]) or len(words) < 2:
        return None
    verbs = [words[0]] if words[0] != "stria" else []
    for word in words[1:]:
        if not re.fullmatch(r"[a-z][a-z-]*", word):
            break
        verbs.append(word)
    return verbs[:2], [w.split("=")[0] for w in words if re.match(r"--[a-z]", w)]


def has(text, verbs, flags):
    """A test has the command: its verbs after each other, as words or strings, and its flags anywhere."""
    return re.search(r"[\"', \[\]()]+".join(map(re.escape, verbs)), text) is not None and all(flag in text for flag in flags)


def check_helpers():
    typed.check_helpers()
    blocks, inline = room_types('    def a(self):\n        heading = "A b"\n        self.follow(heading, 2)\n        self.inline(heading, "stria x")\n'
                                '    def b(self):\n        self.follow("C", 1, x)\n')
    assert blocks == {("A b", 2), ("C", 1)} and inline == [("A b", "stria x")], (blocks, inline)
    assert parts_of("runuser -u stria -- stria-meta --config /x --ha-init") == (["stria-meta"], ["--config", "--ha-init"])
    assert parts_of("stria disk out n3:d1 && stria disk x") == (["disk", "out"], []) and parts_of("systemctl stop x") is None
    assert has('c.stria("disk", "out", n)', ["disk", "out"], []) and not has('c.stria("disk", "add")', ["disk", "out"], [])
    assert has("stria node out n5 --force", ["node", "out"], ["--force"]) and not has("stria node out", ["node", "out"], ["--force"])


def is_run(path):
    """By bazel, or by hand as a README says."""
    name = str(path.relative_to(TOP))
    if name in BY_HAND:
        return path.name in (TOP / BY_HAND[name]).read_text() or "first-hour" in (TOP / BY_HAND[name]).read_text()
    spec = importlib.util.spec_from_file_location("field_faults", TOP / "test/docs/field_faults.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.is_run(path) or f'args = ["{path.stem}"]' in (path.parent / "BUILD.bazel").read_text()


def main():
    check_helpers()
    problems = []
    document = typed.sections(DOCUMENT.read_text())
    headings = [h for h in document if h]
    problems += [f'docs/operations.md has a section "{h}", and nothing here runs it' for h in headings if h not in TESTS]
    problems += [f'docs/operations.md has no section "{h}" any more' for h in TESTS if h not in document]
    texts = {}
    for test in {t for tests in TESTS.values() for t in tests} | {t for t, _ in OTHER_BLOCKS.values()}:
        path = path_of(test)
        texts[test] = path.read_text() if path.exists() else ""
        if not path.exists():
            problems.append(f"there is no {test}")
        elif not is_run(path):
            problems.append(f"no test of bazel runs {test}")
    blocks, inline = room_types(texts[TYPED])
    everywhere = [*texts.values(), *(c.words for h, n in blocks for c in document[h].blocks[n - 1].commands), *(c for _, c in inline)]
    commands = 0
    for heading in (h for h in headings if h in TESTS):
        section, own = document[heading], [texts[t] for t in TESTS[heading]]
        typed_there = [c.words for h, n in blocks if h == heading for c in section.blocks[n - 1].commands] + [c for h, c in inline if h == heading]
        own.append("\n".join(typed_there))
        def no_test(command, among):
            parts = parts_of(command)
            return parts is not None and not any(has(text, *parts) for text in among)
        for number, block in enumerate(section.blocks, 1):
            commands += len(block.commands)
            if not block.commands:
                test, words = OTHER_BLOCKS.get((heading, number), ("", ""))
                if not test:
                    problems.append(f'docs/operations.md, "{heading}": no test has block {number}')
                elif words not in texts[test] or words not in "\n".join(block.lines) and not words.startswith("self."):
                    problems.append(f'docs/operations.md, "{heading}", block {number}: {test} does not have {words}, or the block has not')
            elif (heading, number) not in blocks:
                problems += [f'docs/operations.md, "{heading}", block {number}: none of {", ".join(TESTS[heading])} types  {c.words}' for c in block.commands
                             if no_test(c.words, own)]
        for command in typed.inline_commands(section.prose):
            commands += 1
            if no_test(command, everywhere):
                problems.append(f'docs/operations.md, "{heading}": no test that is named here types  {command}')
    problems += [f'docs/operations.md, "{h}", has block {n} with nothing to type' for h, n in OTHER_BLOCKS if h in document and
                 (n > len(document[h].blocks) or document[h].blocks[n - 1].commands)]
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(1)
    assert commands > 200 and len(blocks) > 25, f"operations.py finds only {commands} commands, and {len(blocks)} blocks that are typed"
    print(f"{len(headings)} sections of docs/operations.md are run: {commands} commands, {len(blocks)} blocks as they stand there")


if __name__ == "__main__":
    main()
