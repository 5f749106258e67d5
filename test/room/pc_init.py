"""The first process of a PC, in namespaces of its own: mounts its disks and its root, goes there, and reaps what ends. Killing it is pulling the
plug: the kernel kills everything else in its process namespace, and its mounts, addresses and loop devices go.

    pc_init.py JSON       pc.py has what is in it; prints a line of JSON when the PC is on"""

import ctypes
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "fuse")
MNT_DETACH = 2
# Not this machine's: a man page more would have all of its pages read again; what is in there belongs to its users.
HIDDEN = ("tmp", "var/tmp")
NO_MAN_PAGES = "var/lib/man-db/auto-update"


def run(*command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stdout.strip()}")


def write(path, text):
    path.unlink(missing_ok=True)  # not through a symbolic link
    path.write_text(text)


def make_devices(root):
    run("mount", "-t", "tmpfs", "-o", "mode=755", "dev", root / "dev")
    for name in DEVICES:
        st = os.stat(f"/dev/{name}")
        os.mknod(root / "dev" / name, st.st_mode, st.st_rdev)
        os.chmod(root / "dev" / name, 0o666)
    (root / "dev/shm").mkdir(mode=0o1777)
    for name, target in {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}.items():
        (root / "dev" / name).symlink_to(target)


def make_root(pc):
    """Gives the root, and a descriptor of the filesystem that keeps what is written into it."""
    top = pathlib.Path(pc["dir"])
    system, root = top / "system", top / "root"
    run("mount", "-o", "loop", pc["system"], system)
    is_new = not (system / "upper").exists()
    for name in ("upper", "work"):
        (system / name).mkdir(exist_ok=True)
    run("mount", "-t", "overlay", "-o", f"lowerdir={pc['lower']},upperdir={system}/upper,workdir={system}/work", "overlay", root)
    run("mount", "-t", "proc", "proc", root / "proc")
    run("mount", "-t", "sysfs", "sysfs", root / "sys")
    run("mount", "-t", "tmpfs", "-o", "mode=755", "run", root / "run")
    for name in HIDDEN:
        run("mount", "-t", "tmpfs", "-o", "mode=1777", "tmp", root / name)
    make_devices(root)
    for name, image in pc["disks"].items():
        (root / "srv" / name).mkdir(parents=True, exist_ok=True)
        run("mount", "-o", "loop", image, root / "srv" / name)
    write(root / "etc/hostname", pc["name"] + "\n")
    write(root / "etc/hosts", "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in pc["hosts"].items()))
    write(root / "etc/machine-id", pc["machine_id"] + "\n")
    write(root / "etc/resolv.conf", "")
    (root / NO_MAN_PAGES).unlink(missing_ok=True)
    if is_new:  # nor what somebody has tried on this machine
        for log in (root / "var/log").glob("stria*.log*"):
            log.unlink()
    return root, os.open(system, os.O_RDONLY | os.O_DIRECTORY)


def go_there(root):
    """Nothing of the machine's own mounts, nor of other PCs' disks, is held any more."""
    libc = ctypes.CDLL(None, use_errno=True)
    os.chdir(root)
    run("pivot_root", ".", "mnt")
    os.chdir("/")
    if libc.umount2(b"/mnt", MNT_DETACH) != 0:
        sys.exit(f"the former root cannot be left: {os.strerror(ctypes.get_errno())}")


def main():
    pc = json.loads(sys.argv[1])
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    socket.sethostname(pc["name"])
    root, system = make_root(pc)
    go_there(root)
    print(json.dumps({"system_fd": system}), flush=True)
    while True:
        signal.sigwait({signal.SIGCHLD})
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            continue


if __name__ == "__main__":
    main()
