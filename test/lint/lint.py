"""Shell scripts, units, rules and the Ansible role, by the checkers that are installed: shellcheck, systemd-analyze, promtool, ansible-lint. One that is
not here is named as SKIPPED; its package has to be one of tools/packages.txt. Each has to find a seeded fault first, so that a checker that looks at nothing
is noticed. Run by bazel, or by hand."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOP = next(p for p in pathlib.Path(__file__).resolve().parents if (p / "WORKSPACE").exists())
DEBIAN = TOP / "tools/package/debian"
EXAMPLES = TOP / "tools/package/examples"
MONITORING = TOP / "docs/monitoring"
ANSIBLE = TOP / "deploy/ansible"
PACKAGES = TOP / "tools/packages.txt"
SERVERS = ("stria-meta", "stria-data", "stria-web")
EXPOSED_AT_MOST = 3.0
SHELL = re.compile(rb"#!\s*(?:/usr/bin/env\s+|/(?:usr/)?bin/)(?:sh|bash|dash)\b")
# debhelper names unit files PACKAGE.service, or PACKAGE.UNIT.service where a package has several.
UNIT_FILE = re.compile(r"(?:stria-[a-z]+\.)?(stria-[a-z]+(?:-[a-z]+)?@?\.(?:service|timer))")
problems = []


def run(*command, cwd=None, **environment):
    done = subprocess.run([str(c) for c in command], cwd=cwd, env={**os.environ, "LC_ALL": "C.UTF-8", **environment}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout.strip()


def expect(right, what):
    if not right:
        problems.append(what)


def scripts():
    """Files of the tree that sh or bash runs."""
    found = []
    for directory, below, files in os.walk(TOP):
        at = pathlib.Path(directory)
        below[:] = [d for d in below if d not in (".git", "__pycache__") and not (at == TOP and d.startswith("bazel-"))]
        for name in files:
            with open(at / name, "rb") as f:
                if SHELL.match(f.read(64)):
                    found.append(at / name)
    return sorted(found)


def shell(directory):
    files = scripts()
    assert len(files) > 20, "lint.py finds too few shell scripts"
    check = ("shellcheck", "--external-sources", "--source-path=SCRIPTDIR", "--format=gcc")
    bad = directory / "bad.sh"
    bad.write_text("#!/bin/sh\ncd $1\nrm *\n")
    code, said = run(*check, bad)
    expect(code != 0 and "SC2086" in said, f"shellcheck does not find a fault: {said}")
    code, said = run(*check, *files)
    expect(code == 0, f"shellcheck:\n{said}")
    return f"{len(files)} scripts"


def unit_root(directory):
    """A root with the units as packages install them, and with what they run; its directory of units."""
    units = directory / "usr/lib/systemd/system"
    units.mkdir(parents=True)
    for path in sorted(DEBIAN.iterdir()):
        if path.suffix in (".service", ".timer"):
            match = UNIT_FILE.fullmatch(path.name)
            assert match, f"lint.py does not know which unit {path.name} is"
            shutil.copy(path, units / match[1])
    for path in EXAMPLES.iterdir():
        if path.suffix in (".mount", ".automount"):
            shutil.copy(path, units / path.name)
    for program in set(re.findall(r"^Exec\w+=[-+!@:]*(/\S+)", "\n".join(p.read_text() for p in units.iterdir()), re.M)):
        path = directory / program[1:]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    return units


def units(directory):
    root = directory / "root"
    where = unit_root(root)
    verify = ("systemd-analyze", "verify", f"--root={root}", "--man=no", "--recursive-errors=no")
    good = (where / "stria-data.service").read_text()
    for right, wrong, word in (("LockPersonality=", "LockPersonalty=", "LockPersonalty"), ("ExecStart=/usr/bin/", "ExecStart=/usr/none/", "/usr/none/")):
        assert right in good, "lint.py does not know stria-data.service any more"
        (where / "stria-data.service").write_text(good.replace(right, wrong))
        code, said = run(*verify, where / "stria-data.service")
        expect(word in said, f"systemd-analyze verify does not find a fault: {said}")
    (where / "stria-data.service").write_text(good)
    files = sorted(where.iterdir())
    code, said = run(*verify, *files)
    expect(code == 0 and not said, f"systemd-analyze verify:\n{said}")
    told = []
    for server in SERVERS:
        code, said = run("systemd-analyze", "security", "--offline=true", f"--root={root}", "--no-pager", where / f"{server}.service")
        level = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
        if level is None:
            problems.append(f"systemd-analyze security {server}: {said}")
            continue
        expect(float(level[1]) <= EXPOSED_AT_MOST, f"{server} is exposed by {level[1]}, more than {EXPOSED_AT_MOST}:\n{said}")
        told.append(f"{server} {level[1]}")
    return f"{len(files)} units; exposed: {', '.join(told)}"


def rules(directory):
    bad = directory / "bad.yml"
    bad.write_text("groups:\n  - name: g\n    rules:\n      - alert: A\n        expr: sum(\n")
    code, said = run("promtool", "check", "rules", bad)
    expect(code != 0, f"promtool does not find a fault: {said}")
    for what, file in (("check", "alerts.yml"), ("test", "alerts_test.yml")):
        code, said = run("promtool", what, "rules", MONITORING / file)
        expect(code == 0, f"promtool {what} rules {file}:\n{said}")
    return "alerts.yml and their tests"


def ansible(directory):
    for module in ("ansible.posix.mount", "community.crypto.openssl_csr_pipe"):
        if run("ansible-doc", "-t", "module", module)[0] != 0:
            return f"SKIPPED: the collection {module.rsplit('.', 1)[0]} is not installed (Debian's package ansible has it)"
    copy = directory / "ansible"  # it leaves files in its project
    shutil.copytree(ANSIBLE, copy)
    check = ("ansible-lint", "--offline", "--nocolor", "--profile", "production")
    caches = {"ANSIBLE_HOME": str(directory / "home"), "XDG_CACHE_HOME": str(directory / "cache")}
    code, said = run(*check, cwd=copy, **caches)
    expect(code == 0, f"ansible-lint:\n{said}")
    bad = copy / "roles/stria/tasks/main.yml"
    bad.write_text(bad.read_text() + "\n- ansible.builtin.command: echo\n")
    code, said = run(*check, cwd=copy, **caches)
    expect(code != 0, f"ansible-lint does not find a fault: {said}")
    return "deploy/ansible"


CHECKS = (("shellcheck", ("shellcheck",), shell), ("systemd-analyze", ("systemd",), units), ("promtool", ("prometheus",), rules),
          ("ansible-lint", ("ansible-lint", "ansible"), ansible))


def main():
    installed = set(PACKAGES.read_text().splitlines())
    for program, packages, check in CHECKS:
        for package in packages:
            expect(package in installed, f"{program} needs {package}, which is not in tools/packages.txt: so it is skipped where nobody installed it by hand")
        if shutil.which(program) is None:
            print(f"{program}: SKIPPED: it is not installed (./tools/install-packages does it)")
            continue
        with tempfile.TemporaryDirectory(prefix="stria-lint-") as directory:
            print(f"{program}: {check(pathlib.Path(directory))}", flush=True)
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(1)


if __name__ == "__main__":
    main()
