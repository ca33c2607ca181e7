# SPDX-License-Identifier: MIT
"""A virtual machine with Debian's kernel and its rdma_rxe, by emulation alone: 10.9.0.1 and fd09::1
on a tap device of this network namespace, which is 10.9.0.2 and fd09::2."""
import base64
import itertools
import re
import socket
import subprocess
import threading
import time
from pathlib import Path

PORTS = 4
BOOT_SECONDS = 180


class Died(Exception):
    """The guest ended or does not answer: not a failure of ours."""


class Guest:
    """with Guest(image, folder, mtu) as guest: guest.run(command) gives (status, output)"""

    def __init__(self, image, folder, mtu):
        self.image, self.folder, self.mtu = Path(image), Path(folder), mtu
        self.nonce = itertools.count(1)
        self.free = [threading.Lock() for _ in range(PORTS)]

    def __enter__(self):
        for argv in (["tuntap", "add", "dev", "tap0", "mode", "tap"],
                     ["addr", "add", "10.9.0.2/24", "dev", "tap0"],
                     ["link", "set", "tap0", "mtu", str(self.mtu), "up"],
                     ["addr", "add", "fd09::2/64", "dev", "tap0", "nodad"]):
            subprocess.run(["ip", *argv], check=True)
        with open(self.folder / "qemu.log", "wb") as log:
            self.qemu = subprocess.Popen(self._argv(), stdin=subprocess.DEVNULL, stdout=log,
                                         stderr=subprocess.STDOUT)
        self._wait_ready()
        return self

    def __exit__(self, *_):
        self.qemu.kill()
        self.qemu.wait()
        subprocess.run(["ip", "link", "del", "tap0"], check=False)

    def _argv(self):
        argv = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "qemu64", "-m", "512M", "-machine",
                "q35", "-nodefaults", "-no-user-config", "-nographic", "-no-reboot",
                "-netdev", "tap,id=n0,ifname=tap0,script=no,downscript=no,vhost=off",
                "-device", "virtio-net-pci,netdev=n0,mac=52:54:00:09:00:01,csum=off,"
                "guest_csum=off,gso=off,host_mtu=9000,romfile=", "-device", "virtio-serial-pci"]
        for number in range(PORTS):
            argv += ["-chardev", f"socket,id=c{number},path={self.folder}/port{number},server=on,"
                     "wait=off", "-device", f"virtserialport,chardev=c{number}"]
        return [*argv, "-serial", f"file:{self.folder}/serial.log",
                "-kernel", str(self.image / "vmlinux"),
                "-initrd", str(self.image / "initramfs.gz"),
                "-append", "console=ttyS0 loglevel=5 panic=-1 net.ifnames=0 mitigations=off "
                f"random.trust_cpu=on guest.mtu={self.mtu}"]

    def _wait_ready(self):
        serial = self.folder / "serial.log"
        deadline = time.monotonic() + BOOT_SECONDS
        while not (serial.exists() and b"GUEST-READY" in serial.read_bytes()):
            if self.qemu.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise Died((self.folder / "qemu.log").read_text()[-500:])
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
