"""What docs/operations.md (or another document) has to be typed, as it stands there, and whether what a program printed is what the document shows.
For the test that runs it (test/room/operations.py) and the one that looks whether all of it is run (operations.py)."""

import dataclasses
import re

# A command after a prompt: on a PC by its name, or anywhere ($).
PROMPT = re.compile(r"^(?:(\w+)#|\$) +(.*)$")
# Commands of a block without prompts.
BARE = re.compile(r"^(?:stria|mount|umount|systemctl|echo|apt) ")
COMMENT = re.compile(r"\s+#\s.*$")


@dataclasses.dataclass
class Command:
    where: str  # the PC's name; "" anywhere
    words: str
    shown: list  # lines below it


@dataclasses.dataclass
class Block:
    kind: str  # toml, ..; mostly ""
    lines: list

    @property
    def commands(self):
        found, bare = [], not any(PROMPT.match(line) for line in self.lines)
        for line in self.lines:
            if match := PROMPT.match(line):
                found.append(Command(match[1] or "", COMMENT.sub("", match[2]).strip(), []))
            elif bare and BARE.match(line):
                found.append(Command("", COMMENT.sub("", line).strip(), []))
            elif found and not bare and not line.startswith("#"):
                found[-1].shown.append(line)
        return found


@dataclasses.dataclass
class Section:
    heading: str
    blocks: list
    prose: str


def sections(text):
    """{heading: Section}, of ## and ###. Blocks are counted from 1."""
    found, fence = {"": Section("", [], "")}, False
    now = found[""]
    for line in text.splitlines():
        if line.startswith("```"):
            fence = not fence
            if fence:
                now.blocks.append(Block(line[3:].strip(), []))
        elif fence:
            now.blocks[-1].lines.append(line)
        elif match := re.match(r"#{2,3} (.*)", line):
            now = found.setdefault(match[1], Section(match[1], [], ""))
        else:
            now.prose += line + "\n"
    return found


def inline_commands(prose):
    """In backticks, also over the end of a line."""
    return [" ".join(command.split()) for command in re.findall(r"`((?:stria(?:-\w+)? |systemctl |mount |umount |apt |etcdctl )[^`]+)`", prose)]


# What differs from one run to the next, in the order in which it is looked for.
DIFFERS = [
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", r"[0-9a-f-]{36}"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", r"[\d :-]{19}"),
    (r"(?<!\S)(?:/\w+)*/f\d(?!\S)", r"(?:/\w+)*/f\d+(?!\S)"),  # files of examples
    (r"\[[#-]{20}\]", r"\[[#-]{20}\]"),
    (r"(?<![\w:.])\d[\d.,]* ?(?:d|h|min|s|ms)\b(?: \d+ ?(?:h|min|s)\b)*", r"\d[\d.,]* ?(?:d|h|min|s|ms)\b(?: \d+ ?(?:h|min|s)\b)*"),
    (r"(?<![\w:.+])\d[\d.]* ?(?:[KMGT]i)?B\b", r"\d[\d.]* ?(?:[KMGT]i)?B\b"),
    (r"(?<![\w:.+])\d+\+\d+(?![\w:])", r"\d+\+\d+"),
    (r"(?<![\w:.+])\d[\d.,]*(?: (?:stripes|files|directories|directory|shards|changes|pages|clients|inodes|segments|nodes|disks)'?\b)?",
     r"\d[\d.,]*(?: (?:stripes?|files?|director(?:y|ies)|shards?|changes?|pages?|clients?|inodes?|segments?|nodes?|disks?)'?(?!\w))?"),
]


def pattern_of(line):
    """Of one line of a document, with numbers, sizes, times and the like being any."""
    line = " ".join(line.split())
    out, at = "", 0
    anything = "|".join(f"(?P<d{i}>{what})" for i, (what, _) in enumerate(DIFFERS))
    for match in re.finditer(anything, line):
        kind = int(match.lastgroup[1:])
        out += re.escape(line[at:match.start()]) + DIFFERS[kind][1]
        at = match.end()
    return out + re.escape(line[at:])


def missing(shown, printed):
    """The first line of a document that was not printed; "" if all were. `..` and `...` stand for anything, and so does what is printed between the lines of
    a document; where lines are broken and in which order they come makes no difference."""
    printed = " ".join(printed.split())
    for line in shown:
        for part in re.split(r"(?:^|(?<=\s))\.\.\.?(?=\s|$)|(?<=\w)\.\.(?=$)", line):
            if not part.strip():
                continue
            if re.search(pattern_of(part), printed) is None:
                return line
    return ""


def check_helpers():
    text = "## A\nx `stria node\nls` y\n```\n$ stria a 1   # why\nsays 5 MiB\nn3#  stria b && stria c\n```\n### B c\n```toml\nx = 1\n```\n```\nmount x   # y\nz\n```\n"
    found = sections(text)
    assert list(found) == ["", "A", "B c"] and inline_commands(found["A"].prose) == ["stria node ls"]
    a = found["A"].blocks[0].commands
    assert [(c.where, c.words, c.shown) for c in a] == [("", "stria a 1", ["says 5 MiB"]), ("n3", "stria b && stria c", [])], a
    assert found["B c"].blocks[0].kind == "toml" and found["B c"].blocks[0].commands == [] and found["B c"].blocks[1].commands[0].words == "mount x"
    shown = ["n3:d1  [####################] 100 %  4.0 MiB of 36MiB (drain)", "..", "rebuilt: 100 %, 9 stripes", "layout raid5:4+1 are 3+1"]
    right = "x\nn3:d1 [####----------------] 7 % 12 B of\n 3 GiB (drain)\nother\nrebuilt: 3 %, 1 stripe more\nlayout raid5:4+1 are 2+1\n"
    assert missing(shown, right) == "", missing(shown, right)
    for was, now in (("n3:d1", "n3:d2"), ("rebuilt", "made"), ("raid5:4", "raid5:3"), ("(drain)", "")):
        assert missing(shown, right.replace(was, now)), was
    assert missing(["lost  /f0  0+33554432"], "lost /runs/f3 5+1") == "" and missing(["lost /f0"], "lost /other")
    assert missing(["down (for 1 min 38 s); x"], "down (for 4 s); x") == "" and missing(["ends in 3640 d"], "ends in 5 d") == ""


if __name__ == "__main__":
    check_helpers()
