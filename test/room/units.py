"""What a systemd unit says of how its program is run, as far as a machine without systemd can do it."""

import dataclasses
import re
import shlex

TIMES_S = {"us": 1e-6, "ms": 1e-3, "s": 1, "sec": 1, "min": 60, "m": 60, "h": 3600, "hr": 3600, "d": 86400, "": 1}
# A program that one of these has ended has ended well (systemd.service(5), Restart=).
CLEAN_SIGNALS = {-1, -2, -13, -15}


class BadUnit(Exception):
    """It cannot be run here as it says."""


@dataclasses.dataclass
class Unit:
    command: list
    user: str
    group: str
    umask: int
    files: int  # LimitNOFILE; 0: as it is
    notifies: bool
    watchdog_s: float  # 0: none
    restart: str
    restart_s: float
    no_new_privileges: bool
    no_capabilities: bool
    directories: list  # (path, mode), made for its user before it starts


def seconds(text):
    """systemd.time(7): "5s", "1min 30s", "90"."""
    parts = re.findall(r"([\d.]+)\s*([a-z]*)", text)
    if not parts or "".join(number + name for number, name in parts) != re.sub(r"\s", "", text) or any(name not in TIMES_S for _, name in parts):
        raise BadUnit(f"'{text}' is no time")
    return sum(float(number) * TIMES_S[name] for number, name in parts)


def settings_of(text, section):
    """Key to its last value. An empty value takes back those before it, as in systemd."""
    found, now = {}, None
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("["):
            now = line.strip("[]")
        elif now == section:
            key, equals, value = line.partition("=")
            if not equals:
                raise BadUnit(f"'{line}' is no setting")
            found[key.strip()] = value.strip()
    return found


def parse(text):
    s = settings_of(text, "Service")
    words = shlex.split(s.get("ExecStart", ""))
    if not words:
        raise BadUnit("there is no ExecStart")
    if any("%" in word or "$" in word for word in words):
        raise BadUnit(f"ExecStart has what only systemd knows: {s['ExecStart']}")
    if not words[0].startswith("/"):
        raise BadUnit(f"ExecStart is no plain command: {s['ExecStart']}")
    restart = s.get("Restart", "no")
    if restart not in ("no", "on-failure", "always"):
        raise BadUnit(f"Restart={restart} is not known here")
    directories = []
    for kind, top in (("State", "/var/lib"), ("Runtime", "/run"), ("Logs", "/var/log")):
        mode = int(s.get(f"{kind}DirectoryMode", "0755"), 8)
        directories += [(f"{top}/{name}", mode) for name in s.get(f"{kind}Directory", "").split()]
    user = s.get("User", "root")
    return Unit(command=words, user=user, group=s.get("Group", user), umask=int(s.get("UMask", "0022"), 8),
                files=int(s.get("LimitNOFILE", "0").split(":")[0]), notifies=s.get("Type", "simple") == "notify",
                watchdog_s=seconds(s.get("WatchdogSec", "0")), restart=restart, restart_s=seconds(s.get("RestartSec", "100ms")),
                no_new_privileges=s.get("NoNewPrivileges", "no") in ("yes", "true", "1", "on"),
                no_capabilities=s.get("CapabilityBoundingSet") == "", directories=directories)


def command_of(unit, most_files):
    """The words that run it: as its user, with its limits and without what it gives up."""
    words = []
    if unit.files:
        words += ["prlimit", f"--nofile={min(unit.files, most_files)}"]
    if unit.user != "root" or unit.no_capabilities or unit.no_new_privileges:
        words += ["setpriv", "--reuid", unit.user, "--regid", unit.group, "--clear-groups"]
        words += ["--no-new-privs"] if unit.no_new_privileges else []
        words += ["--bounding-set=-all", "--inh-caps=-all"] if unit.no_capabilities else []
        words.append("--")
    return [*words, *unit.command]


def starts_again(unit, code):
    """Whether it is started again after it has ended by itself with this exit code (-N: by signal N)."""
    if unit.restart == "always":
        return True
    return unit.restart == "on-failure" and code != 0 and code not in CLEAN_SIGNALS
