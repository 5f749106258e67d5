"""The parts of the room that need neither root nor a room: units, the plan, the ledger, waits, the load's bytes, packages' needs."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
TOP = next(p for p in pathlib.Path(__file__).resolve().parents if (p / "WORKSPACE").exists())
sys.path.insert(0, str(HERE))

import built  # noqa: E402
import ledger  # noqa: E402
import load  # noqa: E402
import plan  # noqa: E402
import roots  # noqa: E402
import units  # noqa: E402
import waits  # noqa: E402

UNIT = """\
# A comment
[Unit]
ExecStart=/not/this

[Service]
Type=notify
ExecStart=/usr/bin/stria-data --config "/etc/stria/a b.toml" \\
    --more
Restart=on-failure
RestartSec=5s
WatchdogSec=1min 30s
LimitNOFILE=4096
StateDirectory=stria stria/meta
StateDirectoryMode=0750
User=stria
Group=storage
UMask=0027
NoNewPrivileges=yes
CapabilityBoundingSet=CAP_CHOWN
CapabilityBoundingSet=
"""


def op(kind="read", at=0.0, done=None, **more):
    return ledger.Op(kind, at, done=done, **more)


class Units(unittest.TestCase):
    def test_all_that_is_obeyed(self):
        u = units.parse(UNIT)
        self.assertEqual(u.command, ["/usr/bin/stria-data", "--config", "/etc/stria/a b.toml", "--more"])
        self.assertEqual((u.user, u.group, u.umask, u.files), ("stria", "storage", 0o027, 4096))
        self.assertEqual((u.notifies, u.watchdog_s, u.restart_s), (True, 90, 5))
        self.assertEqual(u.directories, [("/var/lib/stria", 0o750), ("/var/lib/stria/meta", 0o750)])
        self.assertEqual(units.command_of(u, 1024)[:6], ["prlimit", "--nofile=1024", "setpriv", "--reuid", "stria", "--regid"])
        words = units.command_of(u, 1 << 20)
        self.assertIn("--nofile=4096", words)
        self.assertIn("--no-new-privs", words)
        self.assertIn("--bounding-set=-all", words)
        self.assertEqual(words[words.index("--") + 1:], u.command)

    def test_a_plain_one(self):
        u = units.parse("[Service]\nExecStart=/bin/true\n")
        self.assertEqual(units.command_of(u, 1024), ["/bin/true"])
        self.assertEqual((u.notifies, u.watchdog_s, u.directories), (False, 0, []))

    def test_capabilities_stay_unless_all_are_taken(self):
        u = units.parse("[Service]\nExecStart=/bin/true\nUser=x\nCapabilityBoundingSet=CAP_CHOWN\n")
        self.assertNotIn("--bounding-set=-all", units.command_of(u, 1024))

    def test_starts_again(self):
        u = units.parse(UNIT)
        self.assertTrue(units.starts_again(u, 1))
        self.assertTrue(units.starts_again(u, -9))
        self.assertFalse(units.starts_again(u, 0))
        self.assertFalse(units.starts_again(u, -15))
        self.assertFalse(units.starts_again(units.parse("[Service]\nExecStart=/bin/true\n"), 1))
        self.assertTrue(units.starts_again(units.parse("[Service]\nExecStart=/bin/true\nRestart=always\n"), 0))

    def test_what_cannot_be_run_is_refused(self):
        for text in ("[Service]\n", "[Service]\nExecStart=/bin/x %i\n", "[Service]\nExecStart=/bin/x $OPTIONS\n", "[Service]\nExecStart=-/bin/x\n",
                     "[Service]\nExecStart=/bin/x\nRestart=sometimes\n", "[Service]\nnonsense\n", "[Service]\nExecStart=/bin/x\nRestartSec=soon\n"):
            with self.assertRaises(units.BadUnit, msg=text):
                units.parse(text)

    def test_times(self):
        for text, s in (("5s", 5), ("100ms", 0.1), ("15min", 900), ("1min 30s", 90), ("90", 90), ("0", 0)):
            self.assertAlmostEqual(units.seconds(text), s)
        for text in ("", "s", "5 parsecs", "5s!"):
            with self.assertRaises(units.BadUnit, msg=text):
                units.seconds(text)

    def test_the_units_of_the_packages(self):
        where = pathlib.Path(__file__).resolve().parents[2] / "tools/package/debian"
        for name in ("stria-meta", "stria-data"):
            u = units.parse((where / f"{name}.service").read_text())
            self.assertEqual(u.command, [f"/usr/bin/{name}", "--config", f"/etc/stria/{name.removeprefix('stria-')}.toml"])
            self.assertEqual((u.user, u.group, u.notifies, u.restart), ("stria", "stria", True, "on-failure"))
            self.assertTrue(u.no_capabilities and u.no_new_privileges and u.watchdog_s > 0 and u.restart_s > 0)
            self.assertIn(("/var/lib/stria", 0o750), u.directories)


class Plans(unittest.TestCase):
    def test_shapes_can_be_carried_out(self):
        for shape in (plan.SHORT, plan.LONG):
            self.assertLessEqual(set(shape.steps), plan.STEPS)
            self.assertGreaterEqual(len(shape.spares), len({"node", "add"} & set(shape.steps)))
            self.assertEqual(len(set(shape.names)), len(shape.names))
            self.assertEqual(len(plan.disk_names(shape)), shape.disks)
        self.assertEqual(set(plan.LONG.steps), plan.STEPS)
        self.assertEqual(len(plan.LONG.servers), 6)

    def test_packages(self):
        self.assertEqual(plan.packages_of(plan.LONG, "pc1"), ["stria-meta", "stria-data", "stria-client"])
        self.assertEqual(plan.packages_of(plan.LONG, "pc2"), ["stria-data", "stria-client"])
        self.assertEqual(plan.packages_of(plan.LONG, plan.CLIENT), ["stria-client"])

    def test_boot_orders(self):
        names = plan.LONG.names
        orders = [plan.boot_order(names, 7, nth) for nth in range(5)]
        self.assertEqual(orders[0], plan.boot_order(names, 7, 0))
        self.assertGreater(len({tuple(name for name, _ in order) for order in orders}), 1)
        for order in orders:
            self.assertEqual(sorted(name for name, _ in order), sorted(names))
            self.assertTrue(all(0 <= s <= plan.MOST_DELAY_S for _, s in order))
            self.assertEqual(order[0][1], 0)

    def test_the_first_is_never_the_victim(self):
        victims = {plan.victim(["pc1", "pc2", "pc3"], seed, "disk") for seed in range(50)}
        self.assertEqual(victims, {"pc2", "pc3"})

    def test_upgrades_go_metadata_data_mounts(self):
        order = plan.upgrade_order(["pc1", "pc2"])
        self.assertEqual(order, [("pc1", "stria-meta"), ("pc1", "stria-data"), ("pc2", "stria-data"), ("pc1", "stria-client"), ("pc2", "stria-client"),
                                 (plan.CLIENT, "stria-client")])


class FirstHour(unittest.TestCase):
    def test_the_documented_commands(self):
        text = (TOP / "docs/operations.md").read_text()
        commands = plan.first_hour(text, plan.FIRST_HOUR)
        names = [*plan.FIRST_HOUR.servers, plan.CLIENT]
        self.assertEqual(len(names), 5)
        self.assertEqual({name for name, _ in commands}, set(names))
        for name in names:
            own = [command for who, command in commands if who == name]
            self.assertTrue(own[0].startswith("apt install ./stria-"), own)
            self.assertLessEqual(len(own) - 1, 3)
        self.assertEqual([command for _, command in commands if plan.copies_by_hand(command)], [])
        self.assertIn(("n2", "stria join - --disk /srv/d1 --disk /srv/d2"), commands)
        self.assertEqual(commands[-1], (plan.CLIENT, "mkdir -p /data && mount -t fuse.stria pc1:/ /data"))
        with self.assertRaises(ValueError):
            plan.first_hour(text.replace("n3#  stria", "n4#  stria"), plan.FIRST_HOUR)

    def test_copies(self):
        for command in ("scp -p pc1:/etc/stria/cluster.key /etc/stria", "stria token make | ssh n3 stria join -", "mkdir -p /x && cp a /x"):
            self.assertTrue(plan.copies_by_hand(command), command)


class Ledgers(unittest.TestCase):
    LOG = "\n".join(json.dumps(line) for line in [
        {"n": 1, "op": "write", "name": "a", "size": 5, "at": 1.0}, {"n": 2, "op": "read", "name": "z", "size": 1, "at": 1.5}, {"n": 1, "done": 2.0},
        {"n": 2, "done": 2.5, "failed": "EIO"}, {"n": 3, "op": "write", "name": "b", "size": 7, "at": 3.0}])

    def test_operations(self):
        a, z, b = ledger.parse_log(self.LOG + "\n")
        self.assertEqual((a.kind, a.name, a.size, a.at, a.done, a.failed), ("write", "a", 5, 1.0, 2.0, ""))
        self.assertEqual((z.done, z.failed), (2.5, "EIO"))
        self.assertIsNone(b.done)

    def test_only_the_last_line_may_be_torn(self):
        self.assertEqual(len(ledger.parse_log(self.LOG + '\n{"n": 3, "do')), 3)
        for bad in ('{"n": 3, "do\n' + self.LOG, self.LOG + '\n{"n": 9, "done": 1.0}\n', self.LOG + '\n{"n": 1, "done": 4.0}\n',
                    self.LOG + '\n{"n": 1, "op": "read", "at": 1.0}\n'):
            with self.assertRaises(ledger.BadLog):
                ledger.parse_log(bad)

    def test_what_is_owed(self):
        book = ledger.Ledger()
        book.learn([op("write", name="a", size=5, done=1), op("write", name="b", size=6, done=1, failed="EIO"), op("write", name="c", size=7),
                    op("save", version=1, done=1), op("save", version=2), op("write", name="d", size=8, done=1), op("write", name="e", size=9, done=1),
                    op("remove", name="d", done=1), op("remove", name="e"), op("read", name="a", done=2)])
        self.assertEqual(book.files, {"a": 5})
        self.assertEqual(book.unsure, {"b": 6, "c": 7})
        self.assertEqual(book.going, {"e": 9})
        self.assertEqual((book.next, book.saved, book.begun), (5, 1, 2))
        book.document_is(2)
        self.assertEqual((book.saved, book.begun), (2, 2))
        self.assertEqual(json.loads(book.as_json())["unsure"], {"b": 6, "c": 7})


class Waits(unittest.TestCase):
    def test_a_quiet_log_has_no_problem(self):
        self.assertEqual(waits.problems([op(at=0, done=19.9), op("write", at=5, done=5.1)], 30, cut=False), [])

    def test_too_long(self):
        found = waits.problems([op(at=0, done=20.5, name="a")], 30, cut=False)
        self.assertEqual(found, ["read of a took 20.5 s, more than 20 s"])

    def test_excused(self):
        slow = [op(at=100, done=150)]
        self.assertEqual(len(waits.problems(slow, 200, False)), 1)
        self.assertEqual(waits.problems(slow, 200, False, [waits.Excused(110, 141, "Mounting")]), [])
        self.assertEqual(len(waits.problems(slow, 200, False, [waits.Excused(110, 120, "x"), waits.Excused(112, 122, "x")])), 1)

    def test_excuses_are_counted_once(self):
        e = waits.Excused
        self.assertEqual(waits.excused_s(10, 20, [e(12, 15, ""), e(11, 14, ""), e(0, 11, ""), e(19, 30, ""), e(40, 50, "")]), 6)
        self.assertEqual(waits.excused_s(10, 20, []), 0)

    def test_errors_are_never_excused(self):
        found = waits.problems([op(at=0, done=1, failed="Input/output error", name="a")], 5, True, [waits.Excused(0, 5, "x")])
        self.assertEqual(found, ["read of a failed: Input/output error"])

    def test_what_has_not_returned(self):
        under_way = [op(at=10, name="a")]
        self.assertEqual(waits.problems(under_way, 15, cut=True), [])
        self.assertEqual(waits.problems(under_way, 15, cut=False), ["read of a has not returned for 5.0 s"])
        self.assertEqual(len(waits.problems(under_way, 40, cut=True)), 1)  # it hung before the cut

    def test_idle(self):
        ops = [op("read", done=1), op("write", done=1, failed="EIO"), op("save")]
        self.assertEqual(waits.idle(ops, ["read", "write", "save"]), ["write", "save"])

    def test_summary(self):
        self.assertEqual(waits.summary([op(at=1, done=2), op(at=2, done=2.5), op("write", at=3)], 5), "read: 2, the longest took 1.0 s; write: 1, the longest took 2.0 s")
        self.assertEqual(waits.summary([], 5), "nothing")


class LoadProgram(unittest.TestCase):
    def test_content(self):
        for size in (0, 1, load.MIB, 3 * load.MIB + 5):
            self.assertEqual(len(load.content("a", size)), size)
        self.assertEqual(load.content("a", 100), load.content("a", 100))
        self.assertNotEqual(load.content("a", 100), load.content("b", 100))

    def test_versions(self):
        self.assertEqual(load.version_of(load.version_bytes(12)), 12)
        for bad in (b"", load.version_bytes(12)[:-1], load.version_bytes(12) + b"x", b"version x\n", b"version 12\n"):
            self.assertEqual(load.version_of(bad), 0)

    def check(self, there, **owed):
        with tempfile.TemporaryDirectory() as d:
            top = pathlib.Path(d)
            for name, data in there.items():
                (top / name).write_bytes(data)
            return load.check(top, {"files": {}, "unsure": {}, "going": {}, "saved": 0, "begun": 0, **owed})["wrong"]

    def test_check_finds_what_is_wrong(self):
        a, document = load.content("a", 5000), load.version_bytes(3)
        self.assertEqual(self.check({"a": a, "document": document}, files={"a": 5000}, saved=2, begun=3), [])
        self.assertEqual(len(self.check({}, files={"a": 5000})), 1)
        self.assertEqual(len(self.check({"a": a[:-1]}, files={"a": 5000})), 1)
        self.assertEqual(len(self.check({"a": b"x" + a[1:]}, files={"a": 5000})), 1)
        self.assertEqual(self.check({"a": a[:77]}, unsure={"a": 5000}), [])
        self.assertEqual(self.check({}, unsure={"a": 5000}), [])
        self.assertEqual(len(self.check({"a": b"x" * 77}, unsure={"a": 5000})), 1)
        self.assertEqual(self.check({}, going={"a": 5000}), [])
        self.assertEqual(len(self.check({"a": a[:77]}, going={"a": 5000})), 1)
        self.assertEqual(len(self.check({"document": document}, saved=4, begun=5)), 1)
        self.assertEqual(len(self.check({"document": document[:-1]}, saved=3, begun=3)), 1)
        self.assertEqual(len(self.check({}, saved=1, begun=1)), 1)
        self.assertEqual(len(self.check({"old": b""})), 1)

    def test_one_failed_operation_is_told(self):
        said = []
        with tempfile.TemporaryDirectory() as d:
            one = load.Load(pathlib.Path(d), {"files": {"gone": 5}, "next": 0, "saved": 0, "begun": 0})
            one.say = lambda **what: said.append(what)
            self.assertFalse(one.tried(lambda: one.read("gone", 5), op="read", name="gone", size=5))
            self.assertTrue(one.tried(lambda: load.write_all(one.top / "new", b"x"), op="write", name="new", size=1))
        self.assertIn("No such file", said[1]["failed"])
        self.assertNotIn("failed", said[3])
        self.assertEqual([op.kind for op in ledger.parse_log("\n".join(map(json.dumps, said)))], ["read", "write"])


class Roots(unittest.TestCase):
    def test_names_needed(self):
        depends = "libc6 (>= 2.34), systemd | systemd-sysusers, python3:any, fuse3, libc6, stria-client (= 1)\n"
        self.assertEqual(roots.names_needed(depends), ["libc6", "systemd", "python3", "fuse3"])
        self.assertEqual(roots.names_needed(""), [])

    def test_find_debs(self):
        with tempfile.TemporaryDirectory() as d:
            top = pathlib.Path(d)
            with self.assertRaises(roots.NotHere):
                roots.find_debs(top)
            for name in plan.PACKAGES:
                (top / f"{name}_1_amd64.deb").touch()
            self.assertEqual(sorted(roots.find_debs(top)), sorted(plan.PACKAGES))


class Built(unittest.TestCase):
    def test_what_packages_have(self):
        self.assertEqual(built.contents("bin/a usr/bin\ngenerated/meta.toml etc/stria\ngenerated/completion/zsh/_a usr/share/zsh\n\n"),
                         [("bin/a", "usr/bin"), ("generated/meta.toml", "etc/stria")])
        self.assertEqual(built.links("usr/bin/a usr/sbin/b\nusr/share/man/man8/a.8 usr/share/man/man8/b.8\n"), [("usr/bin/a", "usr/sbin/b")])

    def test_scripts(self):
        text = "#!/bin/sh\nset -e\n\n#DEBHELPER#\n\nif [ \"$1\" = configure ]; then\n:\nfi\n"
        self.assertIn("\nsystemd-sysusers stria-meta.conf\n", built.script(text, "stria-meta", True))
        self.assertNotIn("sysusers", built.script(text, "stria-meta", False))
        self.assertNotIn("sysusers", built.script(text.replace("configure", "purge"), "stria-meta", True))

    def test_packages_of_the_source_tree(self):
        """With programs that are empty: what dpkg finds in them."""
        top = pathlib.Path(__file__).resolve().parents[2]
        with tempfile.TemporaryDirectory() as d:
            programs, out = pathlib.Path(d) / "bin", pathlib.Path(d) / "out"
            self.assertEqual(len(built.missing(programs)), 4)
            for name, place in built.PLACES.items():
                (programs / place).mkdir(parents=True, exist_ok=True)
                (programs / place / name).touch()
            self.assertEqual(built.missing(programs), [])
            old, new = built.both_versions(top, programs, out)
            self.assertEqual((roots.version_of(old["stria-data"]), roots.version_of(new["stria-data"])), built.VERSIONS)
            there = {package: subprocess.run(["dpkg-deb", "--contents", deb], stdout=subprocess.PIPE, text=True, check=True).stdout
                     for package, deb in new.items()}
        for package, path in (("stria-meta", "./etc/stria/meta.toml"), ("stria-data", "./usr/lib/systemd/system/stria-data.service"),
                              ("stria-data", "./usr/lib/sysusers.d/stria-data.conf"), ("stria-client", "./usr/sbin/mount.fuse.stria -> /usr/bin/stria-mount"),
                              ("stria-client", "./usr/bin/stria\n")):
            self.assertIn(path, there[package])


if __name__ == "__main__":
    unittest.main()
