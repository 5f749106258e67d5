"""A directory of very many entries, which programs list while others make, rename and remove names in it.

While two listers (one per mount) go through it again and again, three others make new names, remove some, and
rename some from one to another. Every name that stays is in every listing exactly once, and what comes and goes is
nothing but what was made. At the end each lookup agrees with the listing, and the directory becomes empty and can
be removed."""

import ctypes
import errno
import multiprocessing
import os
import random
import time

from stria_cluster import say

HELP = "a directory of a million entries: stable listings on each mount while names come, go and move"
SAID_EACH_S = 10
MAKERS = 4       # processes that fill it
LOOKED_UP = 2000
LIMIT_S = 4 * 3600


def add_options(parser):
    parser.add_argument("--entries", type=int, default=1_000_000, help="that stay (1000000)")
    parser.add_argument("--listings", type=int, default=3, help="of each lister (3)")
    parser.add_argument("--moving", type=int, default=5000, help="names of each of three who make, rename, remove (5000)")


def kept(number):
    return f"stays-{number:08}-" + "x" * (number % 40)


def parallel(count, do, *args):
    """do(index, *args) in `count` processes; an error of one is ours."""
    with multiprocessing.get_context("fork").Pool(count) as pool:
        waiting = [pool.apply_async(do, (i, *args)) for i in range(count)]
        results = [w.get(LIMIT_S) for w in waiting]
        pool.close()
        pool.join()
        return results


def fill(index, path, entries):
    began = said = time.monotonic()
    for n in range(index, entries, MAKERS):
        os.close(os.open(path / kept(n), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        if index == 0 and time.monotonic() - said > SAID_EACH_S:
            said = time.monotonic()
            left = (entries - n) * (said - began) / (n + 1)
            say(f"{n:,} of {entries:,} names, {n / (said - began):,.0f}/s, {left:.0f} s left")


def empty(index, path, entries):
    for n in range(index, entries, MAKERS):
        os.unlink(path / kept(n))


def move(index, path, names, seed, stop):
    """Makes, renames and removes names of its own until told to stop."""
    rng = random.Random(seed * 10 + index)
    there = set()
    while not stop.is_set():
        name = f"moves-{index}-{rng.randrange(names)}"
        if name not in there:
            os.close(os.open(path / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            there.add(name)
        elif rng.random() < 0.5:
            os.unlink(path / name)
            there.remove(name)
        else:
            to = f"moves-{index}-{rng.randrange(names)}"
            os.rename(path / name, path / to)
            there.remove(name)
            there.add(to)
    return there


def names_in(path):
    """In the order and as often as they are given."""
    with os.scandir(path) as listing:
        return [e.name for e in listing]


def check(path, names, entries):
    stay = [n for n in names if n.startswith("stays-")]
    assert len(stay) == entries, f"{path}: {len(stay):,} of {entries:,} names that stay are in a listing"
    assert set(stay) == {kept(n) for n in range(entries)}, f"{path}: a name is twice in a listing, another missing"
    # A file that moves may be there under its old name and its new one (two moments), and so may a name that is
    # removed and made again; but there is nothing else.
    moving = [n for n in names if not n.startswith("stays-")]
    strange = [n for n in moving if not n.startswith("moves-")]
    assert not strange, f"{path}: {strange[:5]} was never made"
    return len(moving)


def list_often(index, dirs, entries, listings):
    path = dirs[index]
    for k in range(listings):
        began = time.monotonic()
        moving = check(path, names_in(path), entries)
        took = time.monotonic() - began
        say(f"{path.parent.name}: listing {k + 1}: {entries + moving:,} names in {took:.1f} s")


def rewinds(path):
    """telldir and seekdir: what follows a position is the same each time."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
    libc.telldir.restype = ctypes.c_long
    libc.readdir.argtypes = libc.telldir.argtypes = libc.closedir.argtypes = [ctypes.c_void_p]
    libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
    d = libc.opendir(os.fsencode(path))
    assert d, os.strerror(ctypes.get_errno())

    def name():
        entry = libc.readdir(d)
        return entry and ctypes.string_at(entry + 19)  # d_name of struct dirent on 64-bit Linux

    try:
        for _ in range(3000):
            name()
        at = libc.telldir(d)
        after = [name() for _ in range(50)]
        for _ in range(2000):
            name()
        libc.seekdir(d, at)
        assert [name() for _ in range(50)] == after, f"{path}: seekdir to where it was gives other names"
    finally:
        libc.closedir(d)


def run(args, place):
    name = "many"
    dirs = [d / name for d in place.dirs]
    dirs[0].mkdir()
    began = time.monotonic()
    parallel(MAKERS, fill, dirs[0], args.entries)
    say(f"{args.entries:,} names made in {time.monotonic() - began:.0f} s")
    rewinds(dirs[-1])

    context = multiprocessing.get_context("fork")
    stop = context.Event()
    there = context.Queue()
    movers = [context.Process(target=lambda i=i: there.put(move(i, dirs[i % len(dirs)], args.moving, args.seed, stop)))
              for i in range(3)]
    for m in movers:
        m.start()
    try:
        parallel(len(dirs), list_often, dirs, args.entries, args.listings)
    finally:
        stop.set()
    left = set().union(*(there.get(timeout=600) for _ in movers))
    for m in movers:
        m.join(60)
        assert m.exitcode == 0, "one of those who moved names failed"

    expected = left | {kept(n) for n in range(args.entries)}
    for d in dirs:
        names = names_in(d)
        assert len(names) == len(expected) and set(names) == expected, f"{d}: the listing at the end is not what is there"
        for looked_up in random.Random(args.seed).sample(sorted(expected), min(LOOKED_UP, len(expected))):
            os.stat(d / looked_up)
    try:
        os.rmdir(dirs[0])
        raise AssertionError("a directory with entries was removed")
    except OSError as e:
        assert e.errno == errno.ENOTEMPTY, e
    began = time.monotonic()
    for gone in left:
        os.unlink(dirs[0] / gone)
    parallel(MAKERS, empty, dirs[-1], args.entries)
    say(f"all removed in {time.monotonic() - began:.0f} s")
    for d in dirs:
        assert names_in(d) == [], f"{d}: names are left"
    os.rmdir(dirs[0])

