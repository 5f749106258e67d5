"""The part of install.py that starts and stops whole machines: the installed root as a container with systemd in it."""

import re
import subprocess
import time

PROBE = "stria-probe"
MACHINE_S = 420  # one that has not stopped by then hangs

UNIT = """\
[Unit]
Description=Looks, and powers off
Wants=network-online.target
After=remote-fs.target network-online.target

[Service]
Type=oneshot
StandardOutput=file:/probe.out
StandardError=file:/probe.out
ExecStart=/bin/bash /probe
ExecStopPost=/bin/systemctl --no-block poweroff

[Install]
WantedBy=multi-user.target
"""
# Its last bytes are written when it is told to end, at the machine's shutdown.
WRITER = """\
[Unit]
Description=Has a file open until the end
After=remote-fs.target stria-mount@srv-data.service
ConditionPathIsMountPoint=/srv/data

[Service]
ExecStart=/bin/bash -c 'exec 3>/srv/data/late; printf begun >&3; trap "printf ended >&3; exit 0" TERM; while :; do sleep 1 & wait; done'

[Install]
WantedBy=multi-user.target
"""
HELP = """\
await() {  # SECONDS WHAT..: until it is true
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || { echo "not true: $*"; systemctl status --no-pager 'stria-*'; exit 1; }
    sleep 0.5
  done
}
all_disks() { [[ $(stria disk ls --meta pc1 --json | grep -c '"state": "up"') == 3 ]]; }
echo "up after $(cut -d. -f1 /proc/uptime)"; BEGAN=$SECONDS
"""
FIRST = HELP + """
await 120 systemctl is-active stria-meta stria-data
await 120 mountpoint /srv/data
await 120 all_disks
head -c 8000000 /dev/urandom >/srv/data/booted
sha256sum </srv/data/booted >/booted.sum
for s in stria-meta stria-data stria-mount@srv-data; do
  systemctl show -p StatusText --value $s
  [[ $(systemctl show -p User --value $s) == $([[ $s == *mount* ]] || echo stria) ]] || { echo "$s has another user"; exit 1; }
  systemctl reload $s
  await 30 systemctl is-active $s
done
# One that stands still is ended and started again.
pid=$(systemctl show -p MainPID --value stria-data)
kill -STOP "$pid"
restarted() { [[ $(systemctl show -p NRestarts --value stria-data) -gt 0 ]] && systemctl is-active stria-data; }
await 120 restarted
await 120 all_disks
cmp <(sha256sum </srv/data/booted) /booted.sum || { echo "the file is another"; exit 1; }
await 60 systemctl is-active stria-writer
journalctl -q --no-pager -b -p warning -o cat -u stria-meta -u 'stria-mount@*'
echo fine
"""
SECOND = HELP + """
await 120 mountpoint /srv/data
await 120 all_disks
cmp <(sha256sum </srv/data/booted) /booted.sum || { echo "the file is another"; exit 1; }
[[ $(cat /srv/data/late.kept) == begunended ]] || { echo "of what was written at the end there is '$(cat /srv/data/late.kept)'"; exit 1; }
echo fine
"""
# No metadata server: nobody waits for the mount for long.
WITHOUT = HELP + """
mountpoint /srv/data && { echo "it is mounted"; exit 1; }
await 60 systemctl is-active stria-data
systemctl is-active stria-meta && { echo "the metadata server runs"; exit 1; }
echo fine
"""


def write_units(root):
    system = root / "etc/systemd/system"
    (system / f"{PROBE}.service").write_text(UNIT)
    # The former file, before the writer makes it anew.
    keep = "ExecStartPre=-/bin/cp /srv/data/late /srv/data/late.kept\n"
    (system / "stria-writer.service").write_text(WRITER.replace("ExecStart=", keep + "ExecStart="))
    watchdog = system / "stria-data.service.d/watchdog.conf"
    watchdog.parent.mkdir(exist_ok=True)
    watchdog.write_text("[Service]\nWatchdogSec=10s\n")
    (root / "etc/stria/mounts").mkdir(exist_ok=True)
    (root / "etc/stria/mounts/srv-data.conf").write_text("SOURCE=pc1:/\nOPTIONS=-o nosuid,nodev,timeout=30s\n")


def boot(root, name, probe, say, expect):
    """Starts the machine, looks as `probe` does, stops it. Gives the seconds from the start to the look, and all of them."""
    (root / "probe").write_text(probe)
    (root / "probe.out").unlink(missing_ok=True)
    began = time.monotonic()
    command = ["systemd-nspawn", "--quiet", "--directory", str(root.path), "--machine", "stria-package-test", "--register=no", "--keep-unit",
               "--private-network", "--resolv-conf=off", "--bind=/dev/fuse", "--boot"]
    try:
        console = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MACHINE_S, check=False).stdout
    except subprocess.TimeoutExpired as e:
        console = (e.stdout or b"").decode(errors="replace")
        raise AssertionError(f"{name}: it did not stop within {MACHINE_S} s; the end of its console:\n{console[-3000:]}") from e
    took = time.monotonic() - began
    said = (root / "probe.out").read_text(errors="replace") if (root / "probe.out").exists() else "nothing\n" + console[-3000:]
    print("\n".join("    " + line for line in said.splitlines()))
    expect(said.rstrip().endswith("fine"), f"{name}: not as it should be")
    for line in console.splitlines():
        if re.search(r"Failed|timed out|Timed out", line) and "stria" in line.lower():
            print("    " + line)
    say(f"{name}: {took:.0f} s in all")
    return took


def boots(root, say, expect):
    write_units(root)
    for unit in ("stria-meta", "stria-data", "stria-mount@srv-data", PROBE, "stria-writer"):
        root.chroot("systemctl", "enable", unit)
    boot(root, "a start with everything", FIRST, say, expect)
    boot(root, "the next start", SECOND, say, expect)
    root.chroot("systemctl", "mask", "stria-meta")
    boot(root, "a start without the metadata server", WITHOUT, say, expect)
    root.chroot("systemctl", "unmask", "stria-meta")
    for unit in ("stria-mount@srv-data", PROBE, "stria-writer"):
        root.chroot("systemctl", "disable", unit)
    for path in (f"etc/systemd/system/{PROBE}.service", "etc/systemd/system/stria-writer.service",
                 "etc/systemd/system/stria-data.service.d/watchdog.conf", "etc/stria/mounts/srv-data.conf"):
        (root / path).unlink()
    (root / "etc/systemd/system/stria-data.service.d").rmdir()
