"""deploy/ansible: its files are YAML, tasks have names and whole module names, what they include is there, variables are defined, and every
command and flag is one that `stria` has. Ansible itself is not needed. Run by bazel, or by hand after tools/build."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import yaml

HERE = pathlib.Path(__file__)
TOP = next(p for p in HERE.resolve().parents if (p / "WORKSPACE").exists())
STRIA = HERE.absolute().parents[2] / "tools/stria"  # what bazel gives the test
if not STRIA.exists():
    STRIA = TOP / "bazel-bin/tools/stria"
ROOT = TOP / "deploy/ansible"
ROLE = ROOT / "roles/stria"
MODULES = {f"ansible.builtin.{m}" for m in ("apt", "assert", "command", "copy", "file", "find", "import_role", "include_tasks", "lineinfile", "service", "slurp", "stat")}
MODULES |= {"ansible.posix.mount"} | {f"community.crypto.{m}" for m in ("openssl_csr_pipe", "openssl_privatekey", "x509_certificate", "x509_certificate_pipe")}
# Of a task besides its module.
WORDS = {"async", "become", "changed_when", "delegate_to", "failed_when", "loop", "loop_control", "name", "no_log", "poll", "register", "retries", "delay", "until", "vars", "when"}
OTHERS = {"etcdctl"}  # commands that are not stria's
LISTED = re.compile(r"\[([^\[\]]*)\]")
WORD = re.compile(r"'([^']*)'")
VARIABLE = re.compile(r"\bstria_\w+")
GROUPS = {"stria_etcd", "stria_meta", "stria_data", "stria_clients"}
problems = []


def expect(right, what):
    if not right:
        problems.append(what)


def load(path):
    text = path.read_text()
    expect(text.startswith("---\n") and text.endswith("\n"), f"{path.name}: it does not begin with --- and end with a newline")
    expect(all(len(line) <= 160 for line in text.splitlines()), f"{path.name}: a line is longer than 160 characters")
    return yaml.safe_load(text)


def verb_of(tree, words):
    """(path, verb, words that are left) of a command of `stria`, as far as its words name verbs."""
    verb, path = tree, []
    while words and (deeper := next((v for v in verb["verbs"] if v["name"] == words[0]), None)):
        verb, path, words = deeper, [*path, words[0]], words[1:]
    return path, verb, words


def check_command(where, task, tree):
    argv = task["ansible.builtin.command"]["argv"]
    expect(isinstance(argv, str) and argv.strip().startswith("{{"), f"{where}: argv is no expression")
    lists = [WORD.findall(part) for part in LISTED.findall(argv)]
    expect("changed_when" in task, f"{where}: a command without changed_when counts as a change each time")
    if lists and lists[0][:1] and lists[0][0] in OTHERS:
        return None
    expect(lists and lists[0][0] == "stria", f"{where}: the command is not stria's")
    path, verb, _ = verb_of(tree, lists[0][1:])
    expect(path and not verb["verbs"], f"{where}: there is no command {' '.join(lists[0])}")
    flags = {n for o in verb["options"] for n in o["names"]}
    for word in (w for words in lists for w in words if w.startswith("--")):
        expect(word in flags, f"{where}: stria {' '.join(path)} has no flag {word}")
    return " ".join(path)


def check_tasks(path, tree):
    """The commands that its tasks run."""
    commands = set()
    for task in load(path):
        where = f"{path.name}: {task.get('name', 'a task without a name')}"
        expect(re.match(r"[A-Z]", task.get("name", "")), f"{where}: names begin with a capital")
        modules = set(task) - WORDS
        expect(len(modules) == 1 and modules <= MODULES, f"{where}: {sorted(modules)} is no module that is known here")
        if "ansible.builtin.include_tasks" in task:
            expect((ROLE / "tasks" / task["ansible.builtin.include_tasks"]).exists(), f"{where}: what it includes is not there")
        if "ansible.builtin.command" in task:
            commands.add(check_command(where, task, tree))
        for module in ("copy", "file"):
            if (args := task.get(f"ansible.builtin.{module}")) is not None:
                expect("mode" in args, f"{where}: no mode is said")
        if "stdin" in str(task) or "token" in str(task.get("ansible.builtin.command", "")):
            expect(task.get("no_log") is True, f"{where}: a token would be in logs")
    return commands


def check_variables(files):
    defaults = load(ROLE / "defaults/main.yml")
    expect(all(name.startswith("stria_") for name in defaults), "a default is not called stria_..")
    known = set(defaults) | GROUPS
    text = {f: f.read_text() for f in files}
    for content in text.values():
        known |= set(re.findall(r"register: (\w+)", content)) | set(re.findall(r"^    (stria_\w+):", content, re.M))
    for path, content in text.items():
        for name in set(VARIABLE.findall(content)) - known:
            problems.append(f"{path.name}: {name} is not defined anywhere")
    everything = "".join(text.values()) + (ROLE / "defaults/main.yml").read_text()
    for name in defaults:
        expect(len(re.findall(rf"\b{name}\b", everything)) > 1, f"{name} is a default that nothing uses")


def check_etcd():
    """Its settings and what metadata servers are told name the same files, and etcd knows what is said."""
    tasks = {t["name"]: t for t in load(ROLE / "tasks/etcd.yml")}
    lines = tasks["Say who its members are"]["ansible.builtin.copy"]["content"].splitlines()
    said = dict(line.split("=", 1) for line in lines if line.startswith("ETCD_"))
    flags = {"--" + name.removeprefix("ETCD_").lower().replace("_", "-") for name in said}
    if shutil.which("etcd"):
        known = subprocess.run(["etcd", "--help"], check=False, capture_output=True, text=True)
        known = set(re.findall(r"--[a-z][a-z-]*", known.stdout + known.stderr))
        expect(flags <= known, f"etcd.yml: etcd has no {sorted(flags - known)}")
    expect(said["ETCD_DATA_DIR"] != "/var/lib/etcd/default", "etcd.yml: the package's own etcd, which is alone, has that directory")
    made = (ROLE / "tasks/etcd_certificate.yml").read_text()
    text = "".join(f.read_text() for f in (ROLE / "tasks").glob("*.yml"))
    for name in {n.rsplit("/", 1)[1] for n in re.findall(r"stria_etcd_(?:server|client)_directory(?: }}| \+ ')/[a-z]+\.[a-z]+", text)}:
        expect(name in made, f"{name} is shown to or by etcd, and made nowhere")


def check_inventory():
    inventory = load(ROOT / "inventory.example.yml")
    expect(set(inventory["all"]["children"]) == GROUPS, "the inventory has other groups than the role")
    defaults = set(load(ROLE / "defaults/main.yml"))
    etcd = inventory["all"]["children"]["stria_etcd"]["hosts"]
    expect(list(etcd) == ["pc[1:3]"], "the inventory shows another number of members of etcd than three")
    given = set(inventory["all"]["vars"]) | {v for g in inventory["all"]["children"].values() for v in g.get("vars", {})}
    expect(given <= defaults, f"the inventory sets what the role does not know: {sorted(given - defaults)}")


def main():
    tree = json.loads(subprocess.run([str(STRIA), "--describe"], check=True, capture_output=True, text=True).stdout)
    files = sorted((ROLE / "tasks").glob("*.yml"))
    commands = set().union(*(check_tasks(f, tree) for f in files))
    commands.discard(None)
    expect(commands == {"cluster init", "token make", "join"}, f"the role runs {sorted(commands)}")
    check_variables(files)
    check_inventory()
    check_etcd()
    for play in load(ROOT / "site.yml"):
        expect(play["hosts"] in GROUPS, f"site.yml: {play['hosts']} is no group of the inventory")
        for task in play["tasks"]:
            tasks_from = task["ansible.builtin.import_role"]["tasks_from"]
            expect((ROLE / "tasks" / tasks_from).exists(), f"site.yml: the role has no {tasks_from}")
    load(ROLE / "meta/main.yml")
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(1)
    print(f"{len(files)} files of tasks are YAML, and run commands that there are")


main()
