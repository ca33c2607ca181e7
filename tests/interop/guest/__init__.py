# SPDX-License-Identifier: MIT
"""A virtual machine with Debian's kernel and its rdma_rxe, by emulation alone: 10.9.0.1 and fd09::1
on a tap device of this network namespace, which is 10.9.0.2 and fd09::2."""
import base64
import itertools
import re
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

PORTS = 4
BOOT_SECONDS = 180
ETC = Path(__file__).resolve().parent / "etc"  # the names that a machine knows


class Died(Exception):
    """The guest ended or does not answer: not a failure of ours."""


def missing(image):
    """Why no guest can be had, or ''. Makes tap0, the cable to one."""
    if not shutil.which("qemu-system-x86_64"):
        return "there is no qemu-system-x86_64"
    if not (image / "initramfs.gz").exists():
        return "Debian's kernel could not be fetched"
    made = subprocess.run(["ip", "tuntap", "add", "dev", "tap0", "mode", "tap"],
                          capture_output=True, text=True, check=False)
    return f"no tap device: {made.stderr.strip()}" if made.returncode else ""


class Guest:
    """with Guest(image, folder, mtu, programs) as guest: guest.run(command) gives (status, output);
    @programs are put into its /bin. missing() has said ''."""

    def __init__(self, image, folder, mtu, programs):
        self.image, self.folder, self.mtu = Path(image), Path(folder), mtu
        self.programs = programs
        self.nonce = itertools.count(1)
        self.free = [threading.Lock() for _ in range(PORTS)]

    def __enter__(self):
        for argv in (["addr", "replace", "10.9.0.2/24", "dev", "tap0"],
                     ["link", "set", "tap0", "mtu", str(self.mtu), "up"],
                     ["addr", "replace", "fd09::2/64", "dev", "tap0", "nodad"]):
            subprocess.run(["ip", *argv], check=True)
        self._complete()
        with open(self.folder / "qemu.log", "wb") as log:
            self.qemu = subprocess.Popen(self._argv(), stdin=subprocess.DEVNULL, stdout=log,
                                         stderr=subprocess.STDOUT)
        self._wait_ready()
        return self

    def __exit__(self, *_):
        self.qemu.kill()
        self.qemu.wait()

    def _complete(self):
        """The image's archive and one of what this folder and the caller add: the kernel unpacks
        one after the other, a plain one where four bytes are aligned."""
        here, tree = Path(__file__).resolve().parent, self.folder / "tree"
        (tree / "bin").mkdir(parents=True)
        shutil.copytree(ETC, tree / "etc")
        for origin, name in ((here / "init.in", "init"), (here / "agent.in", "bin/agent"),
                             *((path, f"bin/{path.name}") for path in map(Path, self.programs))):
            shutil.copyfile(origin, tree / name)
            (tree / name).chmod(0o755)
        names = "\n".join(str(path.relative_to(tree)) for path in tree.rglob("*"))
        more = subprocess.run(["cpio", "-o", "-H", "newc", "--quiet", "-R", "0:0"], cwd=tree,
                              input=names.encode(), capture_output=True, check=True).stdout
        first = (self.image / "initramfs.gz").read_bytes()
        (self.folder / "initrd").write_bytes(first + bytes(-len(first) % 4) + more)

    def _argv(self):
        # without ctrl_rx the device passes all groups; else the kernel tells it later which to pass
        argv = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "qemu64", "-m", "512M", "-machine",
                "q35", "-nodefaults", "-no-user-config", "-nographic", "-no-reboot",
                "-netdev", "tap,id=n0,ifname=tap0,script=no,downscript=no,vhost=off",
                "-device", "virtio-net-pci,netdev=n0,mac=52:54:00:09:00:01,csum=off,"
                "guest_csum=off,gso=off,ctrl_rx=off,ctrl_rx_extra=off,host_mtu=9000,romfile=",
                "-device", "virtio-serial-pci"]
        for number in range(PORTS):
            argv += ["-chardev", f"socket,id=c{number},path={self.folder}/port{number},server=on,"
                     "wait=off", "-device", f"virtserialport,chardev=c{number}"]
        return [*argv, "-serial", f"file:{self.folder}/serial.log",
                "-kernel", str(self.image / "vmlinux"),
                "-initrd", str(self.folder / "initrd"),
                "-append", "console=ttyS0 loglevel=5 panic=-1 net.ifnames=0 mitigations=off "
                f"random.trust_cpu=on guest.mtu={self.mtu}"]

    def last_words(self):
        """The ends of what qemu and the guest's kernel have said, as one line."""
        said = [path.read_text(errors="replace")[-800:] if path.exists() else ""
                for path in (self.folder / "qemu.log", self.folder / "serial.log")]
        return " | ".join("\n".join(said).split("\n"))

    def _wait_ready(self):
        serial = self.folder / "serial.log"
        deadline = time.monotonic() + BOOT_SECONDS
        while not (serial.exists() and b"GUEST-READY" in serial.read_bytes()):
            if self.qemu.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise Died(self.last_words())
            time.sleep(0.1)

    def run(self, command, seconds=40):
        """The exit status and the output of a shell command."""
        number = next(n for n in itertools.cycle(range(PORTS))
                      if self.free[n].acquire(timeout=0.05))
        try:
            return self._ask(number, command, seconds)
        finally:
            self.free[number].release()

    def _ask(self, number, command, seconds):
        nonce = f"{next(self.nonce)}"
        text = base64.b64encode(command.encode()).decode()
        found, got = None, b""
        with socket.socket(socket.AF_UNIX) as port:
            port.settimeout(seconds + 30)
            port.connect(str(self.folder / f"port{number}"))
            port.sendall(f"{nonce} {seconds} {text}\n".encode())
            while not found:
                try:
                    more = port.recv(65536)
                except TimeoutError:
                    more = b""
                if not more:
                    raise Died(f"no answer to: {command}")
                got += more
                found = re.search(rf"BEGIN-{nonce}\r?\n(.*)END-{nonce} (\d+)".encode(), got, re.S)
        return int(found[2]), found[1].decode(errors="replace")
