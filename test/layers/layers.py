"""Includes against `deps`, and names of classes. Reads every BUILD.bazel and every C++ file of the source tree:
 - a file includes a header of the project only if its own target has it, or one that the target names in its `deps`. Bazel alone
   lets a file include the headers of targets further down, too: a room would see more than its `deps` say;
 - no two headers define a class of the same name in the same namespace. Two of them in one program are one class to the linker."""

import ast
import collections
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve()
TOP = next(p for p in HERE.parents if (p / "WORKSPACE").exists())
FOLDERS = sorted(p.name for p in TOP.iterdir() if p.is_dir() and not p.name.startswith((".", "bazel-")))
CODE = (".h", ".cc")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
NAMESPACE = re.compile(r"(inline )?namespace\s*([\w:]*)\s*\{")
CLASS = re.compile(r"(?:template <.*> )?(?:class|struct|union|enum class)(?: alignas\(.*?\))? (\w+)(?: final)?(?: : [^;]*)?(?: \{|$)")

problems = []


class Target:
    """A rule of a BUILD.bazel: its own files and those that it offers, as paths from the top; what it depends on, as labels."""

    def __init__(self, package, rule, args):
        names = [label(package, s) for s in listed(args, "srcs")]
        offers = [label(package, s) for s in listed(args, "hdrs") + listed(args, "textual_hdrs")]
        self.label = label(package, ":" + args["name"])
        self.own = {path_of(s) for s in names + offers}
        self.offers = {path_of(s) for s in offers}
        if rule == "protoc_library":  # proto/protoc.bzl
            self.offers = {s.replace(".proto", ".pb.h") for s in self.own}
        self.deps = [label(package, d) for d in listed(args, "deps")]


def listed(args, key):
    value = args.get(key) or []
    return [s for s in value if isinstance(s, str)]


def label(package, name):
    """Of a name as a BUILD.bazel has it: //folder:name."""
    if not name.startswith("//"):
        return f"//{package}:{name.removeprefix(':')}"
    return name if ":" in name else f"{name}:{name.rsplit('/', 1)[-1]}"


def path_of(full):
    return full.removeprefix("//").replace(":", "/").removeprefix("/")


def targets_of(path):
    """A BUILD.bazel is Python as far as ours go: every function that it calls is one that notes what it is called with."""
    package = "" if path.parent == TOP else path.parent.relative_to(TOP).as_posix()
    found = []

    def noter(rule):
        def note(*_, **args):
            if "name" in args:
                found.append(Target(package, rule, args))
            return []  # of glob and select: no C++ file of ours comes by these

        return note

    tree = ast.parse(path.read_text(), str(path))
    called = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    exec(compile(tree, str(path), "exec"), {name: noter(name) for name in called})  # our own files
    return found


def files(suffixes):
    for folder in FOLDERS:
        for path in sorted((TOP / folder).rglob("*")):
            if path.suffix in suffixes:
                yield path


def check_includes():
    """Returns how many includes it has looked at."""
    targets = {}
    for build in [TOP / "BUILD.bazel", *(p for folder in FOLDERS for p in sorted((TOP / folder).rglob("BUILD.bazel")))]:
        targets.update({t.label: t for t in targets_of(build)})
    having = collections.defaultdict(list)  # the targets of each file
    offering = collections.defaultdict(list)  # those that offer a header
    for t in targets.values():
        for path in t.own:
            having[path].append(t)
        for path in t.offers:
            offering[path].append(t.label)
    seen = 0
    for path in files(CODE):
        where = path.relative_to(TOP).as_posix()
        if not having[where]:
            problems.append(f"{where}: no BUILD.bazel names it, so nothing says what it may include; add it to a target")
        for included in INCLUDE.findall(path.read_text()):
            if not offering[included] and not (TOP / included).exists():
                continue  # a header of the system
            for t in having[where]:
                seen += 1
                if included not in t.own and not any(included in targets[d].offers for d in t.deps if d in targets):
                    by = " or ".join(sorted(offering[included]))
                    cure = f"add {by} to its deps, if it may see that" if by else "no target has that in its hdrs"
                    problems.append(f"{where} of {t.label} includes {included}: {cure}")
    return seen


def classes_of(text):
    """{"namespace::name"} of the classes that are defined, not those within others: these are indented."""
    found, inside = set(), []
    for line in text.splitlines():
        if opened := NAMESPACE.match(line):
            inside.append(opened.group(2))
        elif line.startswith("}  // namespace"):
            inside.pop()
        elif (defined := CLASS.match(line)) and not line.rstrip().endswith(";"):
            found.add("::".join([*inside, defined.group(1)]))
    return found


def check_doubles():
    """Returns how many classes it has looked at."""
    where = collections.defaultdict(list)
    for path in files((".h",)):
        for name in classes_of(path.read_text()):
            where[name].append(path.relative_to(TOP).as_posix())
    for name, headers in sorted(where.items()):
        if len(headers) > 1:
            problems.append(f"{name} is defined in {' and in '.join(headers)}: give one of them another name")
    return len(where)


def main():
    includes, classes = check_includes(), check_doubles()
    if includes < 2000 or classes < 500:
        sys.exit(f"layers.py finds only {includes} includes and {classes} classes: it has to be taught how they are declared now")
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(1)
    print(f"{includes} includes are of what targets name, {classes} classes have names of their own")


main()
