"""A daemon's settings file, made of docs/settings.md: every key with its default and a sentence, all commented out."""

import pathlib
import re
import sys

# What a key without a default of its own shows.
EXAMPLES = {
    "cluster_key": '"/etc/stria/cluster.key"',
    "backup_encrypted": "true",
    "trust": '"/srv/stria-meta/trust"',
    "admin_socket": '"/run/stria/meta.sock"',
    "node_name": '"n3"',
    "address": '"pc3"',
    "stria-meta.address": '"pc1"',
    "meta": '["pc1"]',
    "disk.path": '"/srv/d1"',
    "disk.label": '"d1"',
    "disk.channel": '"sata0"',
    "ha.member": '"pc1"',
    "ha.address": '"pc1"',
    "ha.etcd": '["pc1", "pc2", "pc3"]',
    "ha.ca": '"/etc/stria/etcd-ca.pem"',
    "ha.cert": '"/etc/stria/etcd.pem"',
    "ha.key": '"/etc/stria/etcd-key.pem"',
}
HEAD = """\
# Settings of {program}. What stands here without a # before it counts; what is commented out is the default, or, where it says so, an
# example. Sizes are "64MiB" or bytes, times "15s", "10min". An address may do without its port. A key that is not known is an error.
# After a change: systemctl restart {program}; where it says "read again at SIGHUP", systemctl reload {program} is enough.
"""
WIDTH = 130
# Tables that change what the program does by being there: their first line is a comment, too.
SWITCHES = {
    "disk": "# A table for each disk. Examples:\n#[[disk]]\n",
    "ha": "# Only for one of several metadata servers, which stria cluster init --etcd and stria join make; without it the server is alone.\n"
          "# By hand: take the # away from [ha], member, address and etcd, and start it once with --ha-init or --join (operations.md,\n"
          "# \"Several metadata servers\").\n#[ha]\n",
}


def section(text, program, heading):
    part = re.search(rf"^## {program}$(.*?)(?=^## |\Z)", text, re.M | re.S).group(1)
    return re.search(rf"^### {heading}$(.*?)(?=^##|\Z)", part, re.M | re.S).group(1)


def rows(text, program, heading="Keys"):
    """(name, default in TOML or "", sentence) of each key; keys that share a row share its sentence."""
    found = []
    for line in section(text, program, heading).splitlines():
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line.strip()[1:-1])]
        names = re.findall(r"`([^`]+)`", cells[0])
        if not line.startswith("|") or not names:
            continue
        cells += [""] * (3 - len(cells))
        defaults = re.findall(r"`([^`]+)`", cells[1])
        own_words = "" if defaults or not cells[1] else cells[1]
        for i, name in enumerate(names):
            default = defaults[min(i, len(defaults) - 1)] if defaults and not re.sub(r"`[^`]+`|[,\s]", "", cells[1]) else ""
            found.append((name, default, own_words or ("" if default else cells[1]), cells[2]))
    return found


def plain(sentence):
    """Without Markdown, from a capital unless it begins with a word of the code's."""
    text = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", sentence).replace("`", "").replace("\\", "")
    return text if sentence.startswith("`") else text[:1].upper() + text[1:]


def keys_of(text, program):
    """{key: (default in TOML, or an example; words for the default; sentence)}"""
    other = {name: row for name, *row in rows(text, "stria-meta")} if program != "stria-meta" else {}
    found = {}
    for name, default, words, sentence in rows(text, program):
        if sentence == "as those of stria-meta":
            default, words, sentence = other[name]
        found[name] = (default, words, plain(sentence))
    return found


def wrapped(sentence):
    line, lines = "#", []
    for word in sentence.split():
        if len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line = "#"
        line += " " + word
    return "\n".join([*lines, line])


def settings_file(text, program):
    out, table, said = HEAD.format(program=program), "", None
    for name, (default, words, sentence) in keys_of(text, program).items():
        parent, _, key = name.rpartition(".")
        if name == "disk":
            continue  # the table itself
        if parent != table:
            table = parent
            out += "\n" + SWITCHES.get(table, f"[{table}]\n")
        about = sentence
        if not default:
            about += f" (default: {words.replace('`', '')}; an example)" if words else " (no default; an example)"
        if said != about:
            out += ("\n" if parent == "" else "") + wrapped(about + ("" if about.endswith(".") else ".")) + "\n"
        said = about
        value = default or EXAMPLES.get(f"{program}.{name}") or EXAMPLES[name]
        out += f"#{key} = {value}\n"
    return out


def main():
    program, document = sys.argv[1:]
    sys.stdout.write(settings_file(pathlib.Path(document).read_text(), program))


if __name__ == "__main__":
    main()
