"""What the checks share."""

import ctypes
import errno
import multiprocessing
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).absolute().parents[1] / "cluster"))

CHECK_S = 300
PAGE = 4096
libc = ctypes.CDLL(None, use_errno=True)
_BEGAN = time.monotonic()


def say(text):
    print(f"   [{time.monotonic() - _BEGAN:6.1f} s] {text}", flush=True)


def expect(what, got, want):
    assert got == want, f"{what}: {got!r}, not {want!r}"


def expect_error(number, call, *args):
    try:
        call(*args)
    except OSError as e:
        assert e.errno == number, f"{call.__name__}{args} gave {e}, not {errno.errorcode[number]}"
    else:
        raise AssertionError(f"{call.__name__}{args} succeeded, and was to give {errno.errorcode[number]}")


def in_child(work, *args):
    """A mapping that is looked at while its mount is killed or slow holds up whoever looks."""
    child = multiprocessing.get_context("fork").Process(target=work, args=args)
    child.start()
    child.join(CHECK_S / 2)
    if child.is_alive():
        child.kill()
        raise AssertionError(f"{work.__name__} does not end")
    expect(f"exit code of {work.__name__}", child.exitcode, 0)


def in_threads(work, items):
    wrong = []

    def guarded(item):
        try:
            work(item)
        except Exception as e:
            wrong.append(f"{item}: {type(e).__name__}: {e}")

    threads = [threading.Thread(target=guarded, args=(item,)) for item in items]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, "; ".join(wrong[:3])
