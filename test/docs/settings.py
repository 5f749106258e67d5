"""Reads every key, flag and option out of the code and every one out of docs/settings.md: each must have the other. What other documents
name must exist, too; so must the ports and the version of the protocol that they tell. The ports of Stria stand in one file of the code, and the
options of a mount in /etc/fstab are the same wherever they are told."""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve()
TOP = next(p for p in HERE.parents if (p / "WORKSPACE").exists())
KEY_CALL = re.compile(r'\b\w+\.(?:String|RequiredString|OneOf|Bool|Int|Number|Size|Duration|Strings|Tables|Renamed)\(\s*"([\w.]+)"')
FLAG_CALL = re.compile(r'add_(?:option|flag)\w*\(\s*"(-[^"]+)"[^;]*;')
OPTION_TEST = re.compile(r'\b(?:key|option) == "(\w+)"')
PROGRAMS = {"stria-meta": "meta", "stria-data": "server", "stria-mount": "client", "stria": "tools", "stria-web": "tools/web"}
# What users and admins can run into: the constant, where it is, the document, and what that says ({} is the value).
BOUNDS = [
    ("kMaxXattrsPerInode", "meta/model/records.h", "posix", "{} attributes per file"),
    ("kMaxXattrsBytes", "api/types.h", "posix", "{} and 1,024 attributes per file"),
    ("kMaxXattrValueBytes", "api/types.h", "posix", "values up to {},"),
    ("kMaxXattrNameBytes", "api/types.h", "posix", "names up to {} bytes"),
    ("kMaxNameBytes", "api/types.h", "posix", "of 1 to {} bytes"),
    ("kMaxSymlinkBytes", "api/types.h", "posix", "Symlinks up to {} bytes"),
    ("kMaxLinks", "meta/model/records.h", "posix", "up to {} of a file"),
    ("kMaxLocksPerSession", "meta/session/lock_table.h", "posix", "may hold {} locked ranges"),
    ("kMaxLockWaitsPerSession", "meta/session/lock_table.h", "posix", "wait for {} more; beyond that a lock gives ENOLCK"),
    ("kMaxDirLinks", "meta/model/records.h", "operations", "| subdirectories of a directory | {} |"),
    ("kMaxDirDepth", "meta/ops/ops.h", "operations", "| depth of directories, to move one into another | {} |"),
    ("kMaxNodes", "meta/cluster/cluster_state.h", "operations", "| nodes of a cluster | {} |"),
    ("kMaxTargets", "meta/cluster/cluster_state.h", "operations", "| disks of a cluster | {} |"),
    ("kMaxDisksPerNode", "meta/cluster/cluster_state.h", "operations", "| disks of a node | {} |"),
    ("kMaxNodeNameBytes", "meta/cluster/cluster_state.h", "operations", "| characters of a node's name | {} |"),
    ("kMaxDiskLabelBytes", "common/disk_label.h", "operations", "| characters of a disk's label, and of a channel's | {} |"),
    ("kMaxMetaMembers", "meta/replica/register.h", "operations", "| metadata servers of a cluster | {} |"),
    ("kMaxEtcdMembers", "meta/ha_config.h", "operations", "| members of etcd in `[ha]` | {} |"),
    ("kMaxClusterKeys", "common/token.h", "operations", "| cluster keys in a file | {} |"),
    ("kMaxSessions", "meta/session/session_table.h", "operations", "| mounts of a cluster | {} |"),
    ("kMaxSessionsOfOwner", "meta/session/session_owner.h", "operations", "| mounts with one certificate | {} |"),
    ("kMaxLapsedSessions", "meta/session/session_table.h", "operations", "| mounts that are cut off and may come back | {} |"),
    ("kMaxExports", "meta/exports/export_room.h", "operations", "| exports | {} |"),
    ("kMaxExportClients", "trust/exports.h", "operations", "| patterns and networks in an export's `clients` | {} |"),
    ("kMaxExportRanges", "trust/exports.h", "operations", "| ranges in each of an export's `uids` and `gids` | {} |"),
    ("kMaxGrants", "meta/enrolment/enrolment_room.h", "operations", "| tokens that are not used up or over | {} |"),
    ("kMaxJoinUses", "trust/join_token.h", "operations", "| machines that one token is for | {} |"),
    ("kMaxTokenTtlS", "api/trust_api.h", "operations", "| the time of a token | {} days |"),
    ("kMaxGivenCertificates", "meta/enrolment/given_certificates.h", "operations", "| certificates in force | {} |"),
    ("kMaxInForceOfIdentity", "meta/enrolment/enrolment_room.h", "operations", "| certificates in force of one name and role | {} |"),
    ("kMax", "trust/authority.h", "operations", "| certificates that are revoked and not over | {} |"),
    ("kMaxAuthorities", "trust/certificate.h", "operations", "| authorities at a time | {} |"),
    ("kMaxDataColumns", "stripe/types.h", "operations", "| data columns of a group of a layout | {} |"),
    ("kMaxParity", "stripe/types.h", "operations", "| parity columns of a group | {} |"),
    ("kMaxColumns", "stripe/types.h", "operations", "| columns of a stripe, of all its groups | {} |"),
    ("kMaxStripeBytes", "stripe/types.h", "operations", "| bytes of a stripe, with `unit=` and `stripe=` | {} |"),
    ("kMaxFiles", "tools/cli/split_verb.cc", "operations", "| files below a directory that `stria split` is given | {} |"),
    ("kMaxWalkedEntries", "client/vfs/residence.cc", "operations", "| entries that `user.stria.rbytes` and `rfiles` of a directory count | {} |"),
    ("kMaxFsckProblems", "meta/ops/fsck.h", "operations", "| problems that one `fsck` names | {} |"),
    ("kMaxJobs", "client/jobs/job_table.h", "operations", "| jobs that a mount counts apart | {} |"),
]
DAY_S = 24 * 3600
# Of others, and of the examples of metrics.
OTHER_PORTS = {"2379", "2380", "9100", "9424", "9425", "9426"}
# Lines of code that show a port to people.
EXAMPLES = {"client/fuse/mount_config.cc": re.compile(r'^    "  stria-mount pc1:')}
CODE = (".cc", ".h", ".py", ".sh", ".yml", ".service", ".conf", ".toml")
MOUNTS = ("client/fuse/mount_config.cc", "tools/cli/join_verb.cc", "deploy/ansible/roles/stria/defaults/main.yml", "docs/operations.md",
          "test/cluster/citizen.py")
problems = []


def code(folder):
    within = [TOP / f for f in PROGRAMS.values() if f.startswith(folder + "/")]  # other programs' folders
    return [p for p in (TOP / folder).rglob("*.cc") if not re.search(r"_test\.cc$|/test", str(p)) and not set(within) & set(p.parents)]


def keys_of(folder):
    found = set()
    for path in code(folder):
        text = path.read_text()
        if "Config" not in text:
            continue
        for call in KEY_CALL.finditer(text):
            within = "disk." if call.group(0).startswith("table.") else ""
            found.add(within + call.group(1))
    return found


def flags_of(folder):
    found = set()
    for path in code(folder):
        for call in FLAG_CALL.finditer(path.read_text()):
            if '->group("")' not in call.group(0):
                found.update(call.group(1).split(","))
    return found


def options_of_mounts():
    return set(OPTION_TEST.findall((TOP / "client/fuse/mount_config.cc").read_text())) | {"rw"}


def variables():
    text = "".join(p.read_text() for folder in ("tools", "tools/web", "client", "meta", "server", "common") for p in code(folder))
    return set(re.findall(r'(?:getenv|setenv)\("(STRIA_\w+)"', text))


def sections(text):
    """{"program/heading": text}"""
    found, program, heading = {}, "", ""
    for line in text.splitlines():
        if line.startswith("## "):
            program, heading = line[3:], ""
        elif line.startswith("### "):
            heading = line[4:]
        key = f"{program}/{heading}"
        found[key] = found.get(key, "") + line + "\n"
    return found


def table_names(text, columns=1):
    """What stands in backticks in the first columns of the tables."""
    names = set()
    for line in text.splitlines():
        cells = line.split(" | ")
        if line.startswith("|"):
            names.update(re.findall(r"`([^`]+)`", " ".join(cells[:columns])))
    return names


def compare(what, in_code, in_docs):
    for name in sorted(in_code - in_docs):
        problems.append(f"{what} `{name}` is in the code, and not in docs/settings.md")
    for name in sorted(in_docs - in_code):
        problems.append(f"{what} `{name}` is in docs/settings.md, and not in the code")


def former(text):
    return set(re.findall(r"formerly `([^`]+)`", text))


def same_names(program, flags, keys, own):
    """A flag that sets what a key sets is called the same."""
    for flag in sorted(f for f in flags if f.startswith("--")):
        if flag not in own and flag[2:].replace("-", "_") not in keys:
            problems.append(f"{program} has the flag {flag}, and no key or option of that name")


def documents():
    yield from sorted(TOP.glob("*.md"))
    for folder in ("docs", "tools", "test", "client", "meta", "server", "common", "proto", "locality", "deploy", "trust", "peers", "api", "stripe"):
        yield from sorted((TOP / folder).rglob("*.md"))


def ports_told(text):
    return {a or b for a, b in re.findall(r"\b(?:pc|n|host)\d*:(\d{4,5})\b|\b(?:[Pp]ort|TCP) (\d{4,5})\b", text)}


def check_ports(where, text, ports):
    for port in sorted(ports_told(text) - ports - OTHER_PORTS):
        problems.append(f"{where}: port {port} is not one of {', '.join(sorted(ports))}")


def without_comment(line, suffix):
    if suffix in (".cc", ".h"):
        return re.sub(r"(?:^|\s)//.*", "", line)
    return re.sub(r"(?:^|\s)#.*", "", line)


def is_test(path):
    return path.parts[0] == "test" or "tests" in path.parts or "fuzz" in path.parts or re.search(r"_test(ing)?\.\w+$", path.name) is not None


def code_files():
    for folder in sorted(p for p in TOP.iterdir() if p.is_dir() and not p.name.startswith((".", "bazel-")) and p.name != "third_party"):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and (path.suffix in CODE or path.name in ("quickstart", "install")):
                yield path


def check_ports_of_code(ports):
    """A default port that stands anywhere but in common/address.h is wrong for a server on another one, and when the default changes."""
    literal = re.compile(rf"(?<![\w.])(?:{'|'.join(sorted(ports))})(?![\w.])")
    looked_at = 0
    for path in code_files():
        where = path.relative_to(TOP)
        if is_test(where) or str(where) == "common/address.h":
            continue
        looked_at += 1
        text = path.read_text()
        if path.suffix not in (".cc", ".h", ".py"):
            check_ports(where, text, ports)
        for number, line in enumerate(text.splitlines(), 1):
            if str(where) in EXAMPLES and EXAMPLES[str(where)].match(line):
                check_ports(where, line, ports)
            elif literal.search(without_comment(line, path.suffix)):
                problems.append(f"{where}:{number}: the port is that of common/address.h, or of an address: {line.strip()[:100]}")
    if looked_at < 500:
        sys.exit(f"settings.py looks at {looked_at} files of code only")


def check_helpers():
    assert ports_told("n1:7424, Port 80, port 9999, TCP 7425") == {"7424", "9999", "7425"}
    assert without_comment('x = "a://b:1";  // 7424', ".cc").strip() == 'x = "a://b:1";' and without_comment("a: b  # 7424", ".yml") == "a: b "
    assert is_test(pathlib.Path("a/b_test.cc")) and is_test(pathlib.Path("a/b_testing.h")) and not is_test(pathlib.Path("a/b_tests.h"))


def check_mount_options():
    """Who copies the line of /etc/fstab from anywhere has the same mount."""
    told = {}
    for where in MOUNTS:
        found = set(re.findall(r"_netdev,[\w,=.-]*wait=forever[\w,=.-]*", (TOP / where).read_text()))
        if len(found) != 1:
            problems.append(f"{where}: it should have one line of options for /etc/fstab that wait for ever, and has {len(found)}")
        told.update(dict.fromkeys(found, where))
    if len(told) > 1:
        problems.append("the options of a mount in /etc/fstab differ: " + "; ".join(f"{o} ({w})" for o, w in told.items()))


def default_ports():
    return set(re.findall(r"kDefault\w+Port = (\d+)", (TOP / "common/address.h").read_text()))


def check_mentions(keys, flags):
    """Of all documents: flags in commands, keys in examples and sentences, ports."""
    last_parts = {k.rsplit(".", 1)[-1] for names in keys.values() for k in names}
    ports = default_ports()
    for path in documents():
        text, where = path.read_text(), path.relative_to(TOP)
        for command in re.findall(r"(?:^|[`\s])(stria(?:-\w+)? [^`\n|;#]*)", text, re.M):
            program = command.split(" ", 1)[0]
            given = command.split(" -- ")[0]
            for flag in re.findall(r"(?<=[\s\[])--[a-z][a-z-]*", given) if program in flags else []:
                if flag not in flags[program] | {"--help", "--version"}:
                    problems.append(f"{where}: {program} has no flag {flag}: {given.strip()[:80]}")
        for key, program in re.findall(r"`([a-z_.]+)(?: = [^`]+)?`\)? (?:of|in the settings of) `(stria-\w+)`", text):
            if key not in keys.get(program, set()):
                problems.append(f"{where}: {program} has no key {key}")
        for table, key in re.findall(r"`\[(\w+)\] (\w+)(?: = [^`]+)?`", text):
            if f"{table}.{key}" not in keys["stria-meta"]:
                problems.append(f"{where}: no program has the key [{table}] {key}")
        for block in re.findall(r"```toml\n(.*?)```", text, re.S):
            for key in re.findall(r"^(?:# )?(\w+) = ", block, re.M):
                if key not in last_parts:
                    problems.append(f"{where}: no program has the key {key}")
        check_ports(where, text, ports)


def told_value(constant, text):
    """As documents write it: 1,024, 64 KiB, 30 (days); None if it is not declared so."""
    declared = re.search(rf"constexpr [\w:]+ {constant} = ([\d' *]+?)(?: \* k([KMGT])iB| \* (kDay)S)?;", text)
    if declared is None:
        return None
    value = 1
    for factor in declared[1].replace("'", "").split("*"):
        value *= int(factor)
    if declared[2]:
        return f"{value:,} {declared[2]}iB"
    return f"{value // DAY_S if constant.endswith('TtlS') else value:,}"


def check_bounds():
    assert told_value("kA", "constexpr size_t kA = 64 * 1024;") == "65,536" and told_value("kA", "constexpr int kAB = 1;") is None
    assert told_value("kA", "constexpr uint32_t kA = 1'000;  // b") == "1,000" and told_value("kA", "constexpr size_t kA = 64 * kKiB;") == "64 KiB"
    texts = {name: " ".join((TOP / f"docs/{name}.md").read_text().split()) for name in ("posix", "operations")}
    for constant, place, name, sentence in BOUNDS:
        value = told_value(constant, (TOP / place).read_text())
        if value is None:
            problems.append(f"{place} has no {constant} any more that settings.py understands")
        elif sentence.format(value) not in texts[name]:
            problems.append(f"docs/{name}.md does not say of {constant} ({place}): {sentence.format(value)}")
    listed = len(re.findall(r"^\| (?!What )", (TOP / "docs/operations.md").read_text().split("\n## Bounds\n", 1)[-1], re.M))
    checked = sum(name == "operations" for _, _, name, _ in BOUNDS)
    if listed != checked:
        problems.append(f"docs/operations.md, Bounds, has {listed} lines, of which settings.py checks {checked}")


def check_wire():
    version = re.search(r"kProtocolVersion = (\d+)", (TOP / "api/protocol.h").read_text()).group(1)
    told = re.search(r"`header\.protocol`, now (\d+)", (TOP / "docs/wire.md").read_text()).group(1)
    if told != version:
        problems.append(f"docs/wire.md: the protocol is {version}, not {told}")


def main():
    check_helpers()
    settings = (TOP / "docs/settings.md").read_text()
    docs = sections(settings)
    keys = {program: keys_of(folder) for program, folder in PROGRAMS.items() if program in ("stria-meta", "stria-data")}
    flags = {program: flags_of(folder) for program, folder in PROGRAMS.items()}
    options = options_of_mounts()
    if min(map(len, [*keys.values(), *flags.values(), options])) < 6:
        sys.exit("settings.py finds too few keys, flags or options in the code: it has to be taught how they are declared now")
    for program in keys:
        told = docs[f"{program}/Keys"]
        compare(f"{program}: key", keys[program], table_names(told) | former(told))
        compare(f"{program}: flag", flags[program], table_names(docs[f"{program}/Flags"]))
    same_names("stria-meta", flags["stria-meta"], keys["stria-meta"], {"--config", "--format", "--format-only", "--make-trust", "--restore-from", "--dry-run", "--unproven", "--insecure",
                                                                  "--ha-init", "--adopt", "--join", "--cluster", "--ha-leave"})
    same_names("stria-data", flags["stria-data"], keys["stria-data"], {"--config", "--reindex", "--insecure"})
    compare("stria-mount: flag", flags["stria-mount"], table_names(docs["stria-mount/Flags"]))
    compare("stria-mount: option", options, table_names(docs["stria-mount/Options"]) | former(docs["stria-mount/Options"]))
    same_names("stria-mount", flags["stria-mount"], options, {"--foreground", "--lazy", "--force", "--insecure"})
    compare("stria-web: flag", flags["stria-web"], table_names(docs["stria-web/Flags"]))
    verbs = set(re.findall(r"`(-[^`]+)`", docs["stria/"]))
    compare("stria: flag", flags["stria"], verbs)
    compare("variable", variables(), table_names(docs["Environment/"]))
    for program in ("stria-meta", "stria-data"):
        keys[program] |= {key.split(".")[0] for key in keys[program]}
    check_mentions(keys, flags)
    check_wire()
    check_bounds()
    check_ports_of_code(default_ports())
    check_mount_options()
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(1)
    print(f"{sum(map(len, keys.values()))} keys, {sum(map(len, flags.values()))} flags and {len(options)} options are as documented")


main()
