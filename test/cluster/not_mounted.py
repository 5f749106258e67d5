"""A disk is not mounted when its node starts: its empty directory is left empty and named by `stria status`, the other disks
serve, and it is used as soon as it is there. Then a new disk comes in the place of one that an admin gives up, and a node is
set up anew, with none of its disks, under its old name."""

from stria_cluster import MIB, Cluster, main, say, wait_for

FILES = 30


def in_use(c, name):
    d = c.disk(name)
    return d.get("state") == "up" and d.get("health") == "ok" and not d.get("problem")


def take_out(directory):
    """What is seen where a disk is not mounted, or another machine or a new disk is."""
    away = directory.with_name(f"{directory.name}-away")
    directory.rename(away)
    directory.mkdir()
    return away


def await_refused(c, name, directory):
    wait_for(f"{name} is missed", lambda: "is empty, but the cluster knows" in c.disk(name).get("problem", ""), 60)
    problem = c.disk(name)["problem"]
    assert f"{directory} is empty" in problem and f"`stria disk out {name}`" in problem, problem
    status = c.stria("status", check=False)
    assert status.returncode == 1 and f"Disk {name} is absent" in status.stdout, status.stdout
    assert not list(directory.iterdir()), f"{directory} was written to: {list(directory.iterdir())}"
    return problem


def put_new(c, name):
    """The admin says that it is new."""
    c.stria("disk", "out", name)
    wait_for("the new disk is in use", lambda: in_use(c, f"{name}-2"), 60)
    wait_for(f"{name} is empty", lambda: c.stria("disk", "remove", name, "--dry-run", check=False).returncode == 0, 180, 0.5)
    c.stria("disk", "remove", name)


def check(c):
    c.wait_whole()
    c.fresh_mount()
    c.verify()
    c.fsck()


def scenario():
    with Cluster(nodes=5, disks=2, layout="raid5:3+1") as c:
        for i in range(FILES):
            c.write(f"f/{i}", 3 * MIB + 13 * i)
        d2 = c.cluster / "n4" / "d2"
        uuid = c.disk("n4:d2")["uuid"]
        c.kill("n4")
        away = take_out(d2)
        c.start("n4")
        say(await_refused(c, "n4:d2", d2))
        assert in_use(c, "n4:d1"), "the other disk went with it"
        c.fresh_mount()
        c.verify()
        d2.rmdir()
        away.rename(d2)
        wait_for("n4:d2 is used again", lambda: in_use(c, "n4:d2"), 60)
        assert c.disk("n4:d2")["uuid"] == uuid, c.disk("n4:d2")
        check(c)
        say("the disk was mounted late, and nothing was made anew")

        c.kill("n4")
        take_out(d2)
        c.start("n4")
        await_refused(c, "n4:d2", d2)
        put_new(c, "n4:d2")
        check(c)
        say("a new disk is in the place of n4:d2")

        c.kill("n5")
        places = [c.cluster / "n5" / d for d in ("d1", "d2")]
        for place in places:
            take_out(place)
        c.start("n5")  # up again when the former n5 has been silent for long enough
        assert c.node("n5")["state"] == "up", c.node("n5")
        for place in places:
            await_refused(c, f"n5:{place.name}", place)
        for place in places:
            put_new(c, f"n5:{place.name}")
        check(c)
        say("n5 was set up anew, with new disks")


main(scenario)
