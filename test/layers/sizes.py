"""How big a thing may be, and who may look into it. Reads the source tree without a compiler:
 - a source has 600 lines at most, a header 300. Headers of tests are sources;
 - a class has 40 public methods at most: each overload counts, constructors, destructors and operators do not. A class that
   implements one of the RPC interfaces has the methods of that besides. What a macro declares is not seen;
 - a class is a friend of classes in its own folder only.
It judges a tree that is made up before it judges this one: what it looks for, it finds."""

import collections
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve()
TOP = next(p for p in HERE.parents if (p / "WORKSPACE").exists())
METHODS, HEADER_LINES, SOURCE_LINES = 40, 300, 600
# The two RPC interfaces of the metadata server: a method for each RPC.
INTERFACES = {"MetaService", "AdminService"}
# Headers that are none of a room: as long as a source.
LONG_HEADERS = {
    "api/meta_api.h",  # the RPC interfaces and their messages
    "common/exec/task.h",  # coroutines: templates
    "proto/wire_fields.h",  # how all messages are written: templates
}
OF_TESTS = re.compile(r"(^|/)test/|_(testing|conformance)\.h$|/random_messages\.h$")
SUFFIXES = {".h", ".cc", ".c", ".proto", ".py", ".sh", ".js"}

Class = collections.namedtuple("Class", "name bases methods friends line")

# ---- C++ as far as declarations go

# Comments, what is in quotes, directives. A ' between digits is none.
NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^\s()\\]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])'
    r"'(?:\\.|[^'\\\n])*'"
    r'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.']*|::|->|<=>|\S")
OPENS, CLOSES = set("([{"), set(")]}")
# What has brackets behind it and is no method.
NO_NAME = {"alignas", "decltype", "explicit", "noexcept", "requires", "sizeof", "__attribute__"}
NO_MEMBER = {"using", "typedef", "static_assert", "enum", "friend"}
CLASS_KEYS = {"class", "struct", "union"}


def tokens_of(text):
    """[(token, line)] without comments, directives and what is in quotes."""
    plain = NOISE.sub(lambda m: ("\"\"" if m.group()[0] in "\"'R" else " ") + "\n" * m.group().count("\n"), text)
    out, line, at = [], 1, 0
    for m in TOKEN.finditer(plain):
        line += plain.count("\n", at, m.start())
        at = m.start()
        out.append((m.group(), line))
    return out


def behind_brackets(tokens, at):
    """The place behind the bracket that closes the one at `at`."""
    depth = 0
    while at < len(tokens):
        if tokens[at] in OPENS:
            depth += 1
        elif tokens[at] in CLOSES:
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return at


def behind_angles(tokens, at):
    """The same for <...>, as far as types and template parameters go."""
    depth = 0
    while at < len(tokens):
        t = tokens[at]
        if t in OPENS:
            at = behind_brackets(tokens, at)
            continue
        depth += (t == "<") - (t == ">")
        at += 1
        if depth == 0:
            return at
    return at


def head_of(tokens, at):
    """(name, bases, place of the body) of the class whose key is at `at`; None: it is not defined there."""
    at += 1
    while at < len(tokens) and tokens[at] in ("alignas", "__attribute__", "["):
        at = behind_brackets(tokens, at + (tokens[at] != "["))
    name = ""
    while at < len(tokens) and (tokens[at] == "::" or tokens[at].isidentifier()):
        if tokens[at] not in ("final", "::"):
            name = tokens[at]
        at += 1
        if at < len(tokens) and tokens[at] == "<":  # a specialization
            at = behind_angles(tokens, at)
    bases = set()
    if at < len(tokens) and tokens[at] == ":":
        while at < len(tokens) and tokens[at] not in ("{", ";", ")"):
            if tokens[at].isidentifier() and tokens[at] not in ("public", "private", "protected", "virtual"):
                bases.add(tokens[at])
            at = behind_angles(tokens, at) if tokens[at] == "<" else at + 1
    return (name, bases, at) if at < len(tokens) and tokens[at] == "{" else None


def member_at(tokens, at, class_name):
    """(the name of the method that is declared there or None, the place behind the declaration)."""
    while tokens[at] == "template":
        at = behind_angles(tokens, at + 1)
    other = tokens[at] in NO_MEMBER or (tokens[at] in CLASS_KEYS and head_of(tokens, at) is not None)
    name = None
    called = False  # its parameters have been passed
    value = False  # what follows is a value
    initializers = False  # of a constructor: braces in them are not its body
    before = ""
    while at < len(tokens):
        t = tokens[at]
        if t == ";":
            return name, at + 1
        if t == "operator" and not called and not value:
            at += 3 if tokens[at + 1 : at + 3] == ["(", ")"] else 2
            at = behind_brackets(tokens, tokens.index("(", at))
            called, before = True, ")"
            continue
        other |= t == "(" and tokens[at + 1] == "*"  # a pointer to a function
        if t == "(" and not (called or value or before in NO_NAME):
            called = True
            name = None if other or before == class_name else before
        if t == "~" and not called:
            class_name = tokens[at + 1]
        if t == "{" and called and not (initializers and (before.isidentifier() or before == ">")):
            return name, behind_brackets(tokens, at)
        value |= t == "="
        initializers |= t == ":" and called
        if t in OPENS:
            at = behind_brackets(tokens, at)
        elif t == "<" and not called and not value:
            at, t = behind_angles(tokens, at), ">"
        else:
            at += 1
        before = t
    return None, at


def class_of(key, name, bases, tokens, at, line):
    """Of the class whose body starts at `at`."""
    end = behind_brackets(tokens, at) - 1
    access, methods, friends = "private" if key == "class" else "public", [], []
    at += 1
    while at < end:
        t = tokens[at]
        if t in ("public", "private", "protected") and tokens[at + 1] == ":":
            access, at = t, at + 2
            continue
        if t == "friend" and "(" not in (words := tokens[at : tokens.index(";", at)]):  # no function
            friends.append([w for w in words[: words.index("<") if "<" in words else None] if w.isidentifier()][-1])
        method, at = member_at(tokens, at, name)
        if method and access == "public":
            methods.append(method)
    return Class(name, bases, methods, friends, line)


def classes_of(text):
    """All that are defined in a file, also those within others and within functions."""
    lined = tokens_of(text)
    tokens = [t for t, _ in lined]
    out = []
    for at, t in enumerate(tokens):
        if t not in CLASS_KEYS or (at and tokens[at - 1] in ("enum", "friend", "<", ",")):
            continue
        if head := head_of(tokens, at):
            out.append(class_of(t, head[0], head[1], tokens, head[2], lined[at][1]))
    return out


# ---- The rules


def judge_lines(path, text):
    lines = text.count("\n")
    short = path.endswith(".h") and not OF_TESTS.search(path)
    if path in LONG_HEADERS and lines <= HEADER_LINES:
        yield f"{path} has {lines} lines: sizes.py need not name it any more"
    most = HEADER_LINES if short and path not in LONG_HEADERS else SOURCE_LINES
    if lines > most:
        yield f"{path} has {lines} lines, {most} are allowed: divide it by what it is about"


def judge(files):
    """[problem] of {path: text}, and [(path, class)]."""
    problems = [p for path, text in sorted(files.items()) for p in judge_lines(path, text)]
    classes = [(path, c) for path, text in sorted(files.items()) if path.endswith((".h", ".cc")) for c in classes_of(text)]
    calls = {m for _, c in classes if c.name in INTERFACES for m in c.methods}
    serving = set(INTERFACES)
    while more := {c.name for _, c in classes if c.bases & serving} - serving:
        serving |= more
    folders = collections.defaultdict(set)  # of the classes of a name
    for path, c in classes:
        folders[c.name].add(path.rpartition("/")[0])
    for path, c in classes:
        counted = [m for m in c.methods if c.name not in serving or m not in calls]
        if len(counted) > METHODS:
            problems.append(f"{path}:{c.line}: {c.name} has {len(counted)} public methods, {METHODS} are allowed: "
                            "make what is a thing of its own a class of its own")
        for friend in c.friends:
            if path.rpartition("/")[0] not in folders[friend]:
                problems.append(f"{path}:{c.line}: {c.name} has {friend} of another folder as a friend: "
                                "offer what that needs as methods")
    return problems, classes


# ---- A tree that is made up

ALL_KINDS = """
// class InAComment { public: void F(); };
template <class T, class U = std::vector<T>>
class alignas(64) Kinds final : public Base<T>, private Other {
 public:
  Kinds() = default;
  explicit Kinds(int a) : a_(a), b_{1, 2}, c_(a) { Start(); }
  ~Kinds() override { End(); }
  Kinds& operator=(const Kinds&) = delete;
  bool operator()(int) const { return true; }
  explicit operator bool() const { return a_ != 0; }
  bool operator<(const Kinds& o) const;
  struct Within {
    void Inner();
    int x = 0;
  };
  enum class Way { kIn, kOut };
  using Told = std::function<void(int)>;
  friend class Near;
  friend bool Same(const Kinds&, const Kinds&);
  std::function<void()> told = [] { Call(); };
  int (*pointer)(int) = nullptr;
  int counted{Count(3)};
  alignas(8) int aligned = Count(4);
  static constexpr char kText[] = "void F(); } {";
  template <class H> friend H Hash(H h, const Kinds&) { return h; }
  METHODS
 protected:
  void Protected();
 private:
  void Private();
  int a_ = 0, b_[2], c_;
};
"""
METHODS_OF_ALL_KINDS = [
    "void Plain();",
    "int Inline() const { return a_ > 2 ? 1'000 : '}'; }",
    "int Inline(int) const;",
    "[[nodiscard]] static bool Static();",
    "virtual Task<Result<void>> Pure(std::function<void(int)> f) = 0;",
    "template <class V> V Made(V v) { return V{v}; }",
    "Within Look();",
    "struct Within* Named();",
    "void Over() noexcept override;",
    "auto Trailing() -> std::map<int, int> { return {}; }",
    "const std::vector<std::pair<int, int>>& Row() const;",
    "void Defaults(int a = Count(1), Told t = [] { return; });",
    "std::function<void(int)> Gives();",
]


def big_class(name, methods, base=""):
    body = "".join(f"  void M{i}();\n" for i in range(methods))
    return f"class {name}{base} {{\n public:\n{body} private:\n  int a_;\n}};\n"


def prove():
    """Ends the program if one of the rules cannot fail, or fails where it must not."""
    all_kinds = ALL_KINDS.replace("METHODS", "\n".join(METHODS_OF_ALL_KINDS))
    for c in classes_of(all_kinds):
        methods = {"Kinds": len(METHODS_OF_ALL_KINDS), "Within": 1}
        if len(c.methods) != methods.pop(c.name):
            sys.exit(f"sizes.py sees {c.methods} in {c.name}: it cannot read declarations")
    good = {
        "api/calls.h": big_class("MetaService", 90),
        "meta/far/far.h": big_class("Far", METHODS) + "// \n" * (HEADER_LINES - METHODS - 5),
        "meta/near/kinds.h": all_kinds,
        "meta/near/near.h": "class Near {};\n" + big_class("Serves", 90 + METHODS, " final : public Other, public MetaService"),
        "meta/near/near.cc": "// \n" * SOURCE_LINES,
        "test/long.h": "// \n" * SOURCE_LINES,
    }
    bad = {
        "meta/near/far.h": ("class Sees {\n  friend class Far;\n};\n", "Sees has Far"),
        "meta/near/far2.h": ("struct Sees {\n  int a;\n  friend stria::Far;\n};\n", "Sees has Far"),
        "meta/near/big.h": (big_class("Big", METHODS + 1), f"Big has {METHODS + 1}"),
        "meta/near/served.h": (big_class("Served", 131, " : public MetaService"), f"Served has {METHODS + 1}"),
        "meta/near/local.cc": (f"void F() {{\n  {big_class('Local', 50)}}}\n", "Local has 50"),
        "meta/near/long.h": ("// \n" * (HEADER_LINES + 1), f"long.h has {HEADER_LINES + 1}"),
        "meta/near/long.cc": ("// \n" * (SOURCE_LINES + 1), f"long.cc has {SOURCE_LINES + 1}"),
        "common/exec/task.h": ("// \n", "need not name it"),
    }
    if judge(good)[0]:
        sys.exit("sizes.py refuses what is allowed: " + "; ".join(judge(good)[0]))
    for path, (text, problem) in bad.items():
        found = judge({**good, path: text})[0]
        if len(found) != 1 or problem not in found[0]:
            sys.exit(f"sizes.py finds {found} in {path}, which has one problem: {problem}")


def sources():
    """{path: text}"""
    folders = sorted(p for p in TOP.iterdir() if p.is_dir() and not p.name.startswith((".", "bazel-")))
    paths = [p for folder in folders for p in sorted(folder.rglob("*")) if p.is_file()]
    return {p.relative_to(TOP).as_posix(): p.read_text() for p in paths
            if p.suffix in SUFFIXES or (p.suffix == "" and p.read_bytes().startswith(b"#!"))}


def main():
    prove()
    files = sources()
    problems, classes = judge(files)
    if missing := (INTERFACES | LONG_HEADERS) - {c.name for _, c in classes} - set(files):
        problems.append(f"{', '.join(sorted(missing))}: sizes.py names it, and it is not there")
    methods = sum(len(c.methods) for _, c in classes)
    if len(classes) < 1500 or methods < 3500:
        sys.exit(f"sizes.py finds only {len(classes)} classes with {methods} public methods: teach it how they are declared now")
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(1)
    print(f"{len(files)} files, {len(classes)} classes, {methods} public methods: nothing is too big, no friends between folders")


if __name__ == "__main__":
    main()
