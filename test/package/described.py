"""Man pages, completion and settings files are made of what the programs and docs/settings.md say: each verb, option and key must be in
them, and what shells complete must be right. Run by bazel, or by hand after tools/build."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

HERE = pathlib.Path(__file__)
TOP = next(p for p in HERE.resolve().parents if (p / "WORKSPACE").exists())
BUILT = HERE.absolute().parents[2]  # what bazel gives the test
if not (BUILT / "meta/stria-meta").exists():
    BUILT = TOP / "bazel-bin"
PROGRAMS = [BUILT / p for p in ("tools/stria", "meta/stria-meta", "server/stria-data", "client/fuse/stria-mount", "tools/web/stria-web")]
sys.path.insert(0, str(TOP / "tools/package"))
import describe  # noqa: E402
import settings  # noqa: E402

DOCUMENT = (TOP / "docs/settings.md").read_text()
STATUS = {"state": "healthy", "note": {"name": "nobody"}, "nodes": [{"name": "n1", "id": 1}, {"name": "n2", "id": 2}],
          "disks": [{"name": f"n{n}:d{d}", "id": d, "node": f"n{n}"} for n in (1, 2) for d in (1, 2)], "clients": [{"name": "mount"}]}
FILES = {"folder", "a file"}
COMPLETED = {
    "stria st": {"status", "stats"},
    "stria node drain ": {"n1", "n2"},
    "stria node drain --meta pc1 ": {"n1", "n2"},
    "stria disk drain ": {"n1:d1", "n1:d2", "n2:d1", "n2:d2"},
    "stria disk replace n1:d1 n2": {"n2:d1", "n2:d2"},
    "stria disk replace --dry-run n1:d1 n2:d1": {"n2:d1"},
    "stria node replace n1 ": {"n1", "n2"},
    "stria disk can-remove n1:d1 n2": {"n2", "n2:d1", "n2:d2"},
    "stria disk add ": set(),
    "stria where ": FILES,
    "stria where fol": {"folder"},
    "stria layout set folder raid5": {"raid5:4+1"},
    "stria layout set --place lo": {"local"},
    "stria gather a folder f": {"folder"},
    "stria status --timeout ": set(),
    "stria dev mount --node ": {"n1", "n2"},
    "stria split --nodes=n1": {"n1"},
    "stria split --format ": {"json", "slurm", "condor", "dask", "parallel"},
    "stria token make --role ": {"data", "client", "admin", "monitor", "meta"},
    "stria top --by ": {"client", "job"},
    "stria stats --by=": {"job"},
    "stria-meta --log-level w": {"warning"},
    "stria-meta --data f": {"folder"},
    "stria-web --replay f": {"folder"},
    "stria-mount pc1:/ fo": {"folder"},
    "stria-mount --node n": {"n1", "n2"},
    "stria $(touch made)x node ": {"ls", "add", "replace", "drain", "undrain", "out", "remove"},
    "stria node a[$(touch made)] ": {"ls", "add", "replace", "drain", "undrain", "out", "remove"},
}
COMPLETED_BY_ZSH = {
    "stria st": {"status", "stats"},
    "stria node drain ": {"n1", "n2"},
    "stria disk replace n1:d1 ": {"n1:d1", "n1:d2", "n2:d1", "n2:d2"},
    "stria layout set --place ": {"spread", "local", "node:"},
    "stria where ": {"FILES"},
    "stria-data --log-level ": set(describe.LEVELS.split()),
}
problems = []
skipped = set()


def is_here(checker):
    if shutil.which(checker) is None:
        skipped.add(checker)
    return checker not in skipped


def expect(right, what):
    if not right:
        problems.append(what)


def run(*command, **more):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, **more)


def check_versions(trees):
    version = (TOP / "VERSION").read_text().strip()
    for program, tree in zip(PROGRAMS, trees):
        said = run(program, "--version")
        expect(said.returncode == 0 and said.stdout == f"{tree['name']} {version} (commit unknown)\n",
               f"{program.name} --version says {said.stdout!r}, not version {version} and that nobody knows the commit")
    told = tomllib.loads((TOP / "tools/python/pyproject.toml").read_text())["project"]["version"]
    expect(told == version, f"tools/python/pyproject.toml has version {told}, VERSION has {version}")
    newest = re.search(r"^## (\S+?)(?:, .*)?$", (TOP / "CHANGELOG.md").read_text(), re.M)[1]
    expect(newest == version, f"CHANGELOG.md begins with {newest}, VERSION has {version}")


def check_stamp(out):
    program = shutil.copy(PROGRAMS[0], out)
    stamped = run(TOP / "tools/stamp", program, "--commit", "0123456789ab")
    expect(stamped.returncode == 0, f"tools/stamp fails: {stamped.stderr}")
    said = run(program, "--version").stdout
    expect("(commit 0123456789ab)" in said, f"a stamped program says {said!r}")
    expect(run(TOP / "tools/stamp", program, "--commit", "0").returncode != 0, "tools/stamp stamps twice")


def plain(text):
    return text.replace("\\-", "-").replace("\\e", "\\").replace("\\&", "")


def check_man(tree, path):
    name = tree["name"]
    text = plain(path.read_text())
    for words, _ in describe.leaves(tree):
        line = " ".join([name, *words])
        expect(f'.SS "{line} ' in text, f"the man page of {name} does not have '{line}'")
    for _, verb in describe.all_verbs(tree):
        for option in verb["options"]:
            for n in option["names"]:
                expect(n == "-h" or f"\\fB{n}\\fR" in text, f"the man page of {name} does not have the option {n}")
    if name in ("stria-meta", "stria-data"):
        for key in settings.keys_of(DOCUMENT, name):
            expect(f"\\fB{key}\\fR" in text, f"the man page of {name} does not have the key {key}")
    if is_here("groff"):
        said = run("groff", "-man", "-Tutf8", "-ww", "-z", path).stderr.strip()
        expect(not said, f"groff complains of {path.name}: {said[:300]}")


class Shell:
    """Completes, where `stria` knows a cluster of two nodes, and without the library of bash-completion."""

    def __init__(self, out):
        self.out = out
        self.asked = out / "asked"
        self.bin = out / "bin"
        self.bin.mkdir()
        (self.bin / "stria").write_text(f"#!/bin/sh\necho \"$@\" >{self.asked}\ncat <<'END'\n{json.dumps(STATUS, indent=2)}\nEND\n")
        (self.bin / "stria").chmod(0o755)
        self.files = out / "files"
        (self.files / "folder").mkdir(parents=True)
        (self.files / "a file").touch()
        self.environment = {"PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(out)}

    def bash(self, line):
        words = line.split(" ")
        script = ('set -u; source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); compopt() { :; }; '
                  f'_{words[0].replace("-", "_")}_complete; printf "%s\\n" "${{COMPREPLY[@]}}"')
        done = run("bash", "--norc", "-c", script, "x", self.out / f"completion/bash/{words[0]}", *words, cwd=self.files,
                   env=self.environment)
        expect(not done.stderr, f"bash says {done.stderr.strip()!r} completing '{line}'")
        return set(done.stdout.split("\n")) - {""}

    # What it would offer: the line editor's own words are functions here that print.
    def zsh(self, line):
        words = line.split(" ")
        script = ('compadd() { print -l -- "${(@P)2}"; }; _files() { print FILES; }; compset() { :; }; file=$1; shift; words=("$@"); '
                  "CURRENT=$#; source $file")
        done = run("zsh", "-f", "-c", script, "x", self.out / f"completion/zsh/_{words[0]}", *words, env=self.environment)
        expect(not done.stderr, f"zsh says {done.stderr.strip()!r} completing '{line}'")
        return {w for w in done.stdout.split("\n") if w.startswith("FILES" if "FILES" in done.stdout else words[-1])} - {""}


def options_with_choices(trees):
    """(line, words that may come next) for each option that says itself which values it takes."""
    found = [(f"{' '.join([tree['name'], *words])} {name} ", set(choices[1].split(",")))
             for tree in trees for words, verb in describe.all_verbs(tree) for o in verb["options"] for name in o["names"]
             if (choices := re.fullmatch(r"[A-Z]+:\{(.*)\}", o["type"]))]
    assert len(found) > 8, "options do not say any more which values they take: described.py has to be taught how they do now"
    return found


def check_bash(trees, shell):
    def completes(line, right):
        got = shell.bash(line)
        expect(got == right, f"'{line}' is completed with {sorted(got)}, not {sorted(right)}")

    for tree in trees:
        for words, verb in describe.all_verbs(tree):
            line = " ".join([tree["name"], *words])
            if verb["verbs"]:
                completes(line + " ", {v["name"] for v in verb["verbs"]})
            completes(line + " --", {n for o in verb["options"] for n in o["names"] if n.startswith("--")})
    for line, right in [*COMPLETED.items(), *options_with_choices(trees)]:
        completes(line, right)
    expect(not (shell.files / "made").exists(), "what is typed is run")
    shell.bash("stria node drain --meta pc9:7424 ")
    asked = shell.asked.read_text()
    expect("--meta pc9:7424" in asked and "status --json" in asked, f"completing nodes of --meta asks {asked!r}")


def check_zsh(trees, out, shell):
    if not is_here("zsh"):
        return
    for path in sorted((out / "completion/zsh").iterdir()):
        said = run("zsh", "-f", "-n", path)
        expect(said.returncode == 0 and not said.stderr, f"zsh complains of {path.name}: {said.stderr}")
    for line, right in COMPLETED_BY_ZSH.items():
        got = shell.zsh(line)
        expect(got == right, f"zsh offers {sorted(got)} for '{line}', not {sorted(right)}")
    for line, right in options_with_choices(trees):
        got = shell.zsh(line)
        expect(got == right, f"zsh offers {sorted(got)} for '{line}', not {sorted(right)}")


def flat(table, within=""):
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, key + ".")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield from flat(value[0], key + ".")
        else:
            yield within + key, value


def check_settings(out):
    for program, name in ((PROGRAMS[1], "stria-meta"), (PROGRAMS[2], "stria-data")):
        text = settings.settings_file(DOCUMENT, name)
        expect(not list(flat(tomllib.loads(text))), f"the settings file of {name} sets something")
        everything = re.sub(r"^#(?=[\[\w])", "", text, flags=re.M)
        keys = settings.keys_of(DOCUMENT, name)
        there = dict(flat(tomllib.loads(everything)))
        missing = set(there) ^ (set(keys) - {"disk"})
        expect(not missing, f"the settings file of {name} differs from docs/settings.md in {sorted(missing)}")
        for key, value in there.items():
            default = keys[key][0]
            expect(not default or tomllib.loads(f"x = {default}")["x"] == value, f"{name}: {key} is {value}, not {default}")
        # The program takes it as it is, and with everything in it: it gets as far as the cluster key, which is not there.
        for which, content in {"as it is": text, "with everything": everything}.items():
            path = out / "settings.toml"
            path.write_text(content)
            more = [] if name == "stria-meta" else ["--meta", "pc1", "--disk", "/srv/d1"]
            said = run(program, "--config", path, "--cluster-key", out / "no-key", *more)
            expect("cannot read the cluster key" in said.stderr, f"{name} does not take its settings file {which}: {said.stderr.strip()}")


def main():
    with tempfile.TemporaryDirectory() as where:
        out = pathlib.Path(where)
        made = run(sys.executable, TOP / "tools/package/describe.py", out, TOP / "docs/settings.md", *PROGRAMS)
        if made.returncode != 0:
            sys.exit(made.stderr)
        trees = [describe.tree_of(p) for p in PROGRAMS]
        expect(len(list(describe.leaves(trees[0]))) > 30, "stria describes few verbs")
        check_versions(trees)
        check_stamp(out)
        for tree in trees:
            check_man(tree, out / f"man/{tree['name']}.{describe.SECTIONS.get(tree['name'], 8)}")
        shell = Shell(out)
        check_bash(trees, shell)
        check_zsh(trees, out, shell)
        check_settings(out)
    for checker in sorted(skipped):
        print(f"SKIPPED: {checker} is not installed (package {checker})")
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(1)
    print("verbs, options and keys are all in man pages, completion and settings files")


main()
