"""Packages of what bazel has built, made by dpkg-deb alone, for the short form where debhelper is not: the programs, units, users, settings, scripts and
mount helpers that tools/package/debian names. They lack manuals, completion and Python's module. What debhelper makes of the same files is test/package's."""

import pathlib
import shutil
import subprocess
import sys

from plan import PACKAGES

VERSIONS = ("0.9.0~room1", "0.9.0~room2")
PLACES = {"stria-meta": "meta", "stria-data": "server", "stria": "tools", "stria-mount": "client/fuse", "stria-smart": "tools/package"}
DEPENDS = {"stria-client": "fuse3"}  # libraries are on the machine that they were built on
SCRIPTS = ("postinst", "prerm", "postrm")


def contents(install_text):
    """Of debhelper's NAME.install the pairs (what, directory) of programs and of files in /etc."""
    pairs = [line.split() for line in install_text.splitlines() if line.strip() and not line.startswith("#")]
    return [(what, where) for what, where in pairs if where.startswith(("usr/bin", "usr/lib/stria", "etc/stria"))]


def links(links_text):
    """Of NAME.links the pairs (target, link) of programs."""
    pairs = [line.split() for line in links_text.splitlines() if line.strip() and not line.startswith("#")]
    return [(target, link) for target, link in pairs if target.startswith("usr/bin/")]


def control(package, version):
    depends = f"Depends: {DEPENDS[package]}\n" if package in DEPENDS else ""
    return (f"Package: {package}\nVersion: {version}\nArchitecture: amd64\nMaintainer: Stria developers <packages@stria.invalid>\n{depends}"
            "Description: Stria, for its own tests\n")


def script(text, package, has_users):
    """A maintainer script with what debhelper puts into it that counts without systemd: users."""
    return text.replace("#DEBHELPER#", f"systemd-sysusers {package}.conf" if has_users and "configure" in text else "")


def text_of(path):
    return path.read_text() if path.exists() else ""


def make(package, version, top, built, directory):
    """Gives the file. `top`: the source tree; `built`: where bazel has put the programs."""
    debian = top / "tools/package/debian"
    tree = directory / f"{package}-{version}"
    (tree / "DEBIAN").mkdir(parents=True)
    conffiles = []
    for what, where in contents((debian / f"{package}.install").read_text()):
        name = pathlib.Path(what).name
        (tree / where).mkdir(parents=True, exist_ok=True)
        if what.startswith("generated/"):
            sys.path.insert(0, str(top / "tools/package"))
            import settings
            (tree / where / name).write_text(settings.settings_file((top / "docs/settings.md").read_text(), package))
            conffiles.append(f"/{where}/{name}\n")
        else:
            source = top if PLACES[name] == "tools/package" else built
            shutil.copy(source / PLACES[name] / name, tree / where / name)
            (tree / where / name).chmod(0o755)
    for target, link in links(text_of(debian / f"{package}.links")):
        (tree / link).parent.mkdir(parents=True, exist_ok=True)
        (tree / link).symlink_to(f"/{target}")
    for kind, where, suffix in (("service", "usr/lib/systemd/system", ".service"), ("sysusers", "usr/lib/sysusers.d", ".conf")):
        if (debian / f"{package}.{kind}").exists():
            (tree / where).mkdir(parents=True)
            shutil.copy(debian / f"{package}.{kind}", tree / where / f"{package}{suffix}")
    for name in SCRIPTS:
        if text := text_of(debian / f"{package}.{name}"):
            (tree / "DEBIAN" / name).write_text(script(text, package, (debian / f"{package}.sysusers").exists()))
            (tree / "DEBIAN" / name).chmod(0o755)
    (tree / "DEBIAN/conffiles").write_text("".join(conffiles))
    (tree / "DEBIAN/control").write_text(control(package, version))
    deb = directory / f"{package}_{version}_amd64.deb"
    done = subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", tree, deb], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout
    shutil.rmtree(tree)
    return deb


def both_versions(top, built, directory):
    """{package: file} of an older and a newer version of the same programs."""
    directory.mkdir()
    return [{package: make(package, version, top, built, directory) for package in PACKAGES} for version in VERSIONS]


def missing(built):
    return [f"{place}/{name}" for name, place in PLACES.items() if place != "tools/package" and not (built / place / name).exists()]
