"""Man pages and completion of Stria's programs, made of what they say of themselves (PROGRAM --describe).

    describe.py OUT-DIR DOCS/SETTINGS.MD PROGRAM..      writes OUT-DIR/man, OUT-DIR/completion/bash, OUT-DIR/completion/zsh
"""

import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import settings  # noqa: E402

SECTIONS = {"stria": 1}  # of the manual; 8 for the others
COMMON = {"--help", "--json", "--meta", "--timeout", "--trust", "--version"}  # told once
SEE_ALSO = ["stria(1)", "stria-meta(8)", "stria-data(8)", "stria-mount(8)", "stria-web(8)"]

# What may stand in the place of an argument or behind an option; files where nothing is said.
NODES, DISKS, ANYTHING = "@nodes", "@disks", "@any"
LEVELS = "debug info warning error off"
ARGUMENTS = {"NODE": NODES, "DISK": DISKS, "ID": f"{NODES} {DISKS}", "SPEC": "raid5:4+1 raid6:4+2 raid1:2 raid1:3", "RATE": "none",
             "INODE": ANYTHING, "NAME": ANYTHING}
OPTIONS = {"--node": NODES, "--nodes": NODES, "--node-name": ANYTHING, "--log-level": LEVELS, "--place": "spread local node:",
           "--data-security": "privacy integrity auth", "--layout": ARGUMENTS["SPEC"], "--wait": "forever", "-o": "ro nosuid nodev noexec timeout= wait=forever node= memory= log_file= "
           "metrics= metrics_file= log_level= async_close sync passthrough trust= data_security="}
# Values that are numbers, addresses or words of one's own.
OPTIONS |= {o: ANYTHING for o in ("--meta", "--timeout", "--memory", "--listen", "--grpc-listen", "--address", "--metrics", "--interval", "--count", "--limit",
                                  "--rate", "--range", "--column", "--tree", "--from", "--restore-from", "--disks", "--port-base", "--options")}
# --nodes of `stria dev up` is a number.
OPTIONS_OF = {("dev up", "--nodes"): ANYTHING, ("dev mount", "--options"): OPTIONS["-o"], ("node add", "--wait"): ANYTHING, ("disk add", "--wait"): ANYTHING,
              ("node add", "NODE"): ANYTHING, ("disk add", "DISK"): ANYTHING, ("node replace", "OLD"): NODES, ("node replace", "NEW"): NODES,
              ("disk replace", "OLD"): DISKS, ("disk replace", "NEW"): DISKS}


def values(path, name):
    own = OPTIONS_OF.get((path, name))
    return own if own is not None else OPTIONS.get(name, ARGUMENTS.get(name, ""))


def choices(option):
    """Of an option that takes one of some words those, as it says itself: TEXT:{client,job}."""
    found = re.search(r"\{(.+)\}", option["type"])
    return found[1].split(",") if found else []


def values_of_option(path, option):
    return " ".join(choices(option)) or next((v for v in (values(path, name) for name in reversed(option["names"])) if v), "")


def tree_of(program):
    return json.loads(subprocess.run([str(program), "--describe"], check=True, capture_output=True, text=True).stdout)


def leaves(verb, path=()):
    """(words, verb) of each that can be run, in order."""
    for v in verb["verbs"]:
        words = (*path, v["name"])
        if v["verbs"]:
            yield from leaves(v, words)
        else:
            yield words, v


def all_verbs(verb, path=()):
    yield path, verb
    for v in verb["verbs"]:
        yield from all_verbs(v, (*path, v["name"]))


# ---- Man pages ----


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.splitlines())


def usage(argument):
    name = argument["name"] + ("..." if argument["many"] else "")
    return name if argument["required"] else f"[{name}]"


def option_lines(options, leave_out=()):
    out = ""
    for o in options:
        if set(o["names"]) & set(leave_out):
            continue
        names = ", ".join(f"\\fB{roff(n)}\\fR" for n in o["names"])
        out += f".TP\n{names}{value_of(o)}\n{roff(o['about'] or '.')}\n"
    return out


def value_of(option):
    return " \\fIVALUE\\fR" if option["takes_value"] else ""


def footer(text):
    return f".PP\n.nf\n{roff(text)}\n.fi\n" if text else ""


def argument_lines(arguments):
    return "".join(f".TP\n\\fI{roff(a['name'])}\\fR\n{roff(a['about'] or '.')}\n" for a in arguments)


def key_lines(program, document):
    out = ""
    for name, (default, words, sentence) in settings.keys_of(document, program).items():
        said = f" Default: {default or words.replace('`', '')}." if default or words else ""
        out += f".TP\n\\fB{roff(name)}\\fR\n{roff(sentence.rstrip('.') + '.' + said)}\n"
    return out


def mount_option_lines(document):
    out = ""
    for name, default, words, sentence in settings.rows(document, "stria-mount", "Options"):
        said = f" Default: {default or words.replace('`', '')}." if default or words else ""
        out += f".TP\n\\fB{roff(name)}\\fR\n{roff(settings.plain(sentence).rstrip('.') + '.' + said).strip()}\n"
    return out


def man(tree, document):
    program = tree["name"]
    section = SECTIONS.get(program, 8)
    version = tree["version"].split(" ")[0]
    out = f'.\\" Made by tools/package/describe.py of {program} \\-\\-describe\n'
    out += f'.TH {program.upper()} {section} "" "Stria {version}" "Stria"\n.SH NAME\n{roff(program)} \\- {roff(tree["about"].rstrip("."))}\n'
    out += ".SH SYNOPSIS\n"
    if tree["verbs"]:
        out += f"\\fB{program}\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n"
    else:
        out += f"\\fB{roff(program)}\\fR [\\fIOPTIONS\\fR] {roff(' '.join(usage(a) for a in tree['arguments']))}\n"
    if tree["verbs"]:
        out += ".SH COMMANDS\n"
        for words, verb in leaves(tree):
            line = " ".join([program, *words])
            out += f".SS \"{roff(line)} {roff(' '.join(usage(a) for a in verb['arguments']))}\"\n{roff(verb['about'] or '.')}.\n"
            out += argument_lines(verb["arguments"]) + option_lines(verb["options"], COMMON | {"-h"})
            out += footer(verb["footer"] if verb["footer"] != tree["footer"] else "")  # CLI11 hands it down
        common = {}
        for _, verb in leaves(tree):
            common |= {o["names"][-1]: o for o in verb["options"] if set(o["names"]) & COMMON}
        out += ".SH OPTIONS\nOf all commands:\n" + option_lines(common.values()) + option_lines(tree["options"], {"--help"})
    else:
        out += ".SH OPTIONS\n" + argument_lines(tree["arguments"]) + option_lines(tree["options"])
    if program == "stria-mount":
        out += ".SH MOUNT OPTIONS\nAfter \\-o, and in /etc/fstab.\n" + mount_option_lines(document)
    if program in ("stria-meta", "stria-data"):
        out += (f".SH SETTINGS\nOf the file of \\-\\-config (TOML); in packages /etc/stria/{program.split('-')[1]}.toml.\n" +
                key_lines(program, document))
        out += (".SH SIGNALS\n.TP\nSIGHUP\nOpens the log anew, and reads the settings again.\n.TP\nSIGTERM, SIGINT\n"
                "Ends it, after what is under way.\n")
    out += footer(tree["footer"])
    others = [s for s in SEE_ALSO if s != f"{program}({section})"]
    return out + ".SH SEE ALSO\n" + roff(", ".join(others)) + "\n.PP\n/usr/share/doc/stria\\-doc/operations.md, settings.md\n"


# ---- Completion: what may come next is in tables, by the words of the verb ----

BASH = """\
# Completion of {program}, made by tools/package/describe.py of {program} --describe

declare -gA _{fn}_next=(
{next})
declare -gA _{fn}_values=(
{values})

{lookup}
_{fn}_complete() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} words=("${{COMP_WORDS[@]}}") cword=$COMP_CWORD
  # bash parts words at ':' and '=', which are in names of disks and in values: here they are as they were typed.
  if declare -F _get_comp_words_by_ref >/dev/null; then
    _get_comp_words_by_ref -n := -w words -i cword -c cur
  fi
  local verb=. word want= arguments=0 kinds kind choices= i
  for ((i = 1; i < cword; ++i)); do
    word=${{words[i]}}
    if [[ $word == -* ]]; then
      if [[ $word != *=* && -n ${{_{fn}_values["$verb $word"]+x}} ]]; then
        i=$((i + 1))
        ((i < cword)) || want=$word
      fi
    elif [[ " ${{_{fn}_next["$verb"]}} " == *" $word "* ]]; then
      [[ $verb == . ]] && verb=$word || verb+=" $word"
    else
      arguments=$((arguments + 1))
    fi
  done
  if [[ -n $want ]]; then
    kinds=${{_{fn}_values["$verb $want"]}}
  elif [[ $cur == -*=* ]]; then
    kinds=${{_{fn}_values["$verb ${{cur%%=*}}"]-@any}} cur=${{cur#*=}}
  elif [[ $cur == -* ]]; then
    kinds=${{_{fn}_next["$verb --"]}}
  elif [[ -n ${{_{fn}_next["$verb"]}} ]]; then
    kinds=${{_{fn}_next["$verb"]}}
  elif [[ -n ${{_{fn}_values["$verb #$arguments"]+x}} ]]; then
    kinds=${{_{fn}_values["$verb #$arguments"]}}
  else
    kinds=${{_{fn}_values["$verb #many"]-@any}}
  fi
  if [[ -z $kinds ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    return
  fi
  for kind in $kinds; do
    case $kind in
      @nodes|@disks) choices+=" $(_{fn}_ask "${{kind#@}}" "${{words[@]}}")" ;;
      @any) ;;
      *) choices+=" $kind" ;;
    esac
  done
  mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$cur")
  [[ ${{COMPREPLY[0]-}} != *[=:] ]] || compopt -o nospace 2>/dev/null
  if declare -F __ltrim_colon_completions >/dev/null; then __ltrim_colon_completions "$cur"; fi
}}
complete -F _{fn}_complete {program}
"""

# Names of nodes and disks have no spaces.
BASH_LOOKUP = """\
_{fn}_ask() {{  # nodes|disks WORDS..: their names, of the cluster that the words, $STRIA_META or the mount tell
  local what=$1 meta=() i
  shift
  for ((i = 2; i <= $#; ++i)); do
    case ${{!i}} in
      --meta) i=$((i + 1)); meta=(--meta "${{!i}}") ;;
      --meta=*) meta=("${{!i}}") ;;
    esac
  done
  stria status --json --timeout 2 "${{meta[@]}}" 2>/dev/null |
    sed -n '/^  "'"$what"'": \\[/,/^  \\]/s/^      "name": "\\([^"]*\\)",*$/\\1/p'
}}
"""

ZSH = """\
#compdef {program}
# Completion of {program}, made by tools/package/describe.py of {program} --describe

typeset -gA _{fn}_next _{fn}_values
_{fn}_next=(
{next})
_{fn}_values=(
{values})

{lookup}
_{fn}() {{
  local verb=. word want= kinds kind cur=$words[CURRENT] key arguments=0 i
  local -a choices
  for ((i = 2; i < CURRENT; ++i)); do
    word=$words[i]
    if [[ $word == -* ]]; then
      key="$verb $word"
      if [[ $word != *=* ]] && ((${{+_{fn}_values[$key]}})); then
        i=$((i + 1))
        ((i < CURRENT)) || want=$word
      fi
    elif [[ " $_{fn}_next[$verb] " == *" $word "* ]]; then
      [[ $verb == . ]] && verb=$word || verb="$verb $word"
    else
      arguments=$((arguments + 1))
    fi
  done
  if [[ -n $want ]]; then
    key="$verb $want" kinds=$_{fn}_values[$key]
  elif [[ $cur == -*=* ]]; then
    key="$verb ${{cur%%=*}}" kinds=${{_{fn}_values[$key]-@any}}
    compset -P '*='
  elif [[ $cur == -* ]]; then
    key="$verb --" kinds=$_{fn}_next[$key]
  elif [[ -n $_{fn}_next[$verb] ]]; then
    kinds=$_{fn}_next[$verb]
  else
    key="$verb #$arguments"
    ((${{+_{fn}_values[$key]}})) || key="$verb #many"
    kinds=${{_{fn}_values[$key]-@any}}
  fi
  if [[ -z $kinds ]]; then
    _files
    return
  fi
  for kind in ${{=kinds}}; do
    case $kind in
      @nodes|@disks) choices+=(${{(f)"$(_{fn}_ask ${{kind#@}} $words)"}}) ;;
      @any) ;;
      *) choices+=($kind) ;;
    esac
  done
  compadd -a choices
}}

_{fn} "$@"
"""

ZSH_LOOKUP = """\
_{fn}_ask() {{
  local what=$1 i
  local -a meta
  shift
  for ((i = 2; i <= $#; ++i)); do
    case $argv[i] in
      --meta) meta=(--meta $argv[i+1]) ;;
      --meta=*) meta=($argv[i]) ;;
    esac
  done
  stria status --json --timeout 2 $meta 2>/dev/null |
    sed -n '/^  "'$what'": \\[/,/^  \\]/s/^      "name": "\\([^"]*\\)",*$/\\1/p'
}}
"""


def tables(tree):
    """What may come next after the words of a verb ("." for none), and the values of options ("VERB OPTION") and arguments ("VERB #N",
    "VERB #many" for all others)."""
    following, kinds = {}, {}
    for words, verb in all_verbs(tree):
        path = " ".join(words) or "."
        following[path] = " ".join(v["name"] for v in verb["verbs"])
        following[path + " --"] = " ".join(n for o in verb["options"] for n in o["names"] if n.startswith("--"))
        for o in verb["options"]:
            for n in o["names"] if o["takes_value"] else []:
                kinds[f"{path} {n}"] = values_of_option(path, o)
        for i, a in enumerate(verb["arguments"]):
            kinds[f"{path} #{'many' if a['many'] else i}"] = values(path, a["name"])
    return following, kinds


def completion(tree, template, lookup, line):
    program = tree["name"]
    fn = program.replace("-", "_")
    following, kinds = tables(tree)
    text = {name: "".join(line(k, v) for k, v in table.items()) for name, table in (("next", following), ("values", kinds))}
    return template.format(program=program, fn=fn, lookup=lookup.format(fn=fn), **text)


def bash(tree):
    return completion(tree, BASH, BASH_LOOKUP, lambda k, v: f"  ['{k}']='{v}'\n")


def zsh(tree):
    return completion(tree, ZSH, ZSH_LOOKUP, lambda k, v: f"  '{k}' '{v}'\n")


def main():
    out, document, *programs = sys.argv[1:]
    out, document = pathlib.Path(out), pathlib.Path(document).read_text()
    for folder in ("man", "completion/bash", "completion/zsh"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    for program in programs:
        tree = tree_of(program)
        name = tree["name"]
        (out / f"man/{name}.{SECTIONS.get(name, 8)}").write_text(man(tree, document))
        (out / f"completion/bash/{name}").write_text(bash(tree))
        (out / f"completion/zsh/_{name}").write_text(zsh(tree))


if __name__ == "__main__":
    main()
