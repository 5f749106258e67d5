"""Every command of Stria's programs that the documents name, in the text or in a block to be typed: its verbs, flags and number of arguments are those
that the programs have. Run by bazel, or by hand after tools/build."""

import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__)
TOP = next(p for p in HERE.resolve().parents if (p / "WORKSPACE").exists())
BUILT = HERE.absolute().parents[2]  # what bazel gives the test
if not (BUILT / "tools/stria").exists():
    BUILT = TOP / "bazel-bin"
PROGRAMS = {"stria": "tools", "stria-meta": "meta", "stria-data": "server", "stria-mount": "client/fuse", "stria-web": "tools/web"}
DOCUMENTS = ["README.md", "ARCHITECTURE.md", "docs/*.md", "docs/*/*.md", "tools/*.md", "tools/*/*.md", "deploy/*.md", "deploy/*/*.md"]
# Where a command begins: after a prompt, another command, a colon of an action, a quote; at the beginning of a line.
BEGIN = r"(?:^\s*|[$#] |&& |\|\| |; |:  |, |\$\(|-- )"
COMMAND = re.compile(rf"{BEGIN}((?:[A-Z_]+=\S+ )*(stria|stria-(?:meta|data|mount|web)(?= [-[])) (?=[-a-z[\"<]).*)", re.M)
END = re.compile(r"\s+#\s|\s*(?:&&|\|\||;)|\s+[|>]|\s+2?>|\s{3,}|,\s+(?=stria)|\)\"|\)$|\s+\\$")
INLINE = re.compile(r"`(stria(?:-meta|-data|-mount|-web)? [^`]+)`")
OPTION = re.compile(r"--?[a-zA-Z][\w-]*")


def commands_of(text):
    """[(program, words, whether all its words are there)] of a document."""
    found, prose = [], []
    for number, part in enumerate(re.split(r"^```.*$", text, flags=re.M)):
        if number % 2 == 0:
            prose.append(part)
            continue
        for line in part.replace("\\\n", " ").splitlines():
            at = 0
            while match := COMMAND.search(line, at):
                words = END.split(match[1])[0].split()
                found.append((match[2], words[words.index(match[2]) + 1:], bool(re.match(r"\s*\S*[$#] ", line))))
                at = match.end(2)
    for match in INLINE.finditer("\n".join(prose)):
        program, *words = END.split(" ".join(match[1].split()))[0].split()
        found.append((program, words, False))
    return found


def alternatives(words):
    """`node|disk ls|add` are four commands."""
    found = [[]]
    for word in words:
        found = [so_far + [choice] for so_far in found for choice in (word.split("|") if re.fullmatch(r"[a-z|-]+", word) else [word])]
    return found


def fault(tree, words, whole):
    """What is wrong with a command; "" if nothing is."""
    verb, path = tree, [tree["name"]]
    while words and (deeper := next((v for v in verb["verbs"] if v["name"] == words[0]), None)):
        verb, path, words = deeper, [*path, words[0]], words[1:]
    name = " ".join(path)
    if verb["verbs"] and words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
        return f"there is no {name} {words[0]}"
    options = {n: o for o in verb["options"] for n in o["names"]}
    given, skip = 0, False
    for word in words:
        if word == "--":
            return ""  # another program's words
        bare = word.strip("[]().,\"'")
        if skip:
            skip = False
        elif OPTION.fullmatch(bare.split("=")[0]):
            if bare.split("=")[0] not in options:
                return f"{name} has no {bare}"
            skip = options[bare.split("=")[0]]["takes_value"] and "=" not in bare
        elif bare not in ("", "..", "...") and not word.startswith("["):
            given += 1
    arguments = verb["arguments"]
    if not any(a["many"] for a in arguments) and given > len(arguments) and not verb["verbs"]:
        return f"{name} takes {len(arguments)} arguments, and {given} are given"
    if whole and given < sum(a["required"] for a in arguments):
        return f"{name} needs {sum(a['required'] for a in arguments)} arguments, and {given} are given"
    return ""


def check_helpers(trees):
    """What is wrong is found, what is right is not."""
    said = commands_of("a `stria disk\nout n1:d1`\n```\n$ stria status && stria rebuild watch   # comment\n  action: Do it:  stria node out n3\n"
                       "n3# systemctl start stria-data\nstria is fine\n```\n`stria-data`")
    assert said == [("stria", ["status"], True), ("stria", ["rebuild", "watch"], True), ("stria", ["node", "out", "n3"], False),
                    ("stria", ["is", "fine"], False), ("stria", ["disk", "out", "n1:d1"], False)], said
    for right in ("disk out n1:d1 --force", "node ls", "rebuild watch --limit 30", "run --near f -- make -j4", "disk can-remove n1 n2:d1"):
        assert fault(trees["stria"], right.split(), True) == "", right
    for wrong in ("disk outt n1:d1", "disk out n1:d1 --nonsense", "disk out", "node replace n3", "disk out n1:d1 n1:d2", "fine"):
        assert fault(trees["stria"], wrong.split(), True), wrong
    assert alternatives(["node|disk", "ls"]) == [["node", "ls"], ["disk", "ls"]]


def main():
    trees = {program: json.loads(subprocess.run([BUILT / place / program, "--describe"], check=True, capture_output=True, text=True).stdout)
             for program, place in PROGRAMS.items()}
    check_helpers(trees)
    problems, seen = [], 0
    for path in sorted({p for pattern in DOCUMENTS for p in TOP.glob(pattern)}):
        for program, words, whole in commands_of(path.read_text()):
            for one in alternatives(words):
                seen += 1
                if said := fault(trees[program], one, whole):
                    problems.append(f"{path.relative_to(TOP)}: {program} {' '.join(one)}: {said}")
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(1)
    assert seen > 200, f"commands.py finds only {seen} commands: it has to be taught how they are written now"
    print(f"{seen} commands of the documents are commands of the programs")


if __name__ == "__main__":
    main()
