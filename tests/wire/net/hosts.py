# SPDX-License-Identifier: MIT
"""Hosts: network namespaces that a test makes, joined by a cable or by the relay. Everything ends
with the processes that hold the namespaces."""
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "clients"))

# The GID indices of the addresses below, as the port's table has them.
GID = {"v4": "3", "link-local": "1", "v6": "5"}
QUIET = ["net.ipv6.conf.all.accept_dad=0", "net.ipv6.conf.default.accept_dad=0",
         "net.ipv6.conf.all.router_solicitations=0"]

SETTLED = 60  # seconds


def sh(*argv):
    subprocess.run(argv, check=True)


class Host:
    """One network namespace, held by a process that waits for its input to end."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo ready; read end"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        self.pid = str(self.holder.pid)
        self.enter = ["nsenter", "-t", self.pid, "-n"]
        sh(*self.enter, "ip", "link", "set", "lo", "up")
        for setting in QUIET:
            subprocess.run([*self.enter, "sysctl", "-qw", setting], check=False,
                           stderr=subprocess.DEVNULL)

    def ip(self, *argv):
        sh(*self.enter, "ip", *argv)

    def address(self, dev, number, mtu):
        self.ip("addr", "add", f"10.9.0.{number}/24", "dev", dev)
        self.ip("addr", "add", f"fd09::{number}/64", "dev", dev, "nodad")
        self.ip("link", "set", dev, "mtu", str(mtu), "up")

    def _ipv6(self, table):
        text = Path(f"/proc/{self.pid}/net/{table}").read_text()
        return [line.split() for line in text.splitlines()]

    def settle(self, dev):
        """Waits until the kernel's worker has done with @dev: it has a link-local address, which it
        gets once its cable is known to be plugged in, and its addresses are routed to."""
        deadline = time.monotonic() + SETTLED
        while time.monotonic() < deadline:
            own = {words[0] for words in self._ipv6("if_inet6") if words[-1] == dev}
            if {words[0] for words in self._ipv6("ipv6_route") if words[1] == "80"} >= own and \
                    any(address.startswith("fe80") for address in own):
                return
            time.sleep(0.005)
        raise RuntimeError(f"{dev} is not ready: {own}")

    def mac(self, dev):
        shown = subprocess.run([*self.enter, "ip", "-br", "link", "show", dev], check=True,
                               capture_output=True, text=True).stdout
        return shown.split()[2]

    def end(self):
        self.holder.stdin.close()
        self.holder.wait()


def cable(one, other, names, mtu):
    """A veth pair between two hosts."""
    one.ip("link", "add", names[0], "type", "veth", "peer", "name", names[1], "netns", other.pid)
    for host, name in ((one, names[0]), (other, names[1])):
        host.ip("link", "set", name, "mtu", str(mtu), "up")


def acquaint(one, other):
    """Linux sends what waited for a neighbour's answer behind what came later, and UC counts that
    as lost: nobody has to ask."""
    for host, number, peer in ((one, 2, other), (other, 1, one)):
        for address in (f"10.9.0.{number}", f"fd09::{number}"):
            host.ip("neigh", "replace", address, "lladdr", peer.mac("eth0"), "dev", "eth0")


class Pair:
    """Two hosts, 10.9.0.1 and 10.9.0.2: with Pair(mtu) as (one, other)."""

    def __init__(self, mtu=1500):
        self.mtu = mtu
        self.hosts = []

    def __enter__(self):
        self.hosts = [Host(), Host()]
        cable(*self.hosts, ("eth0", "eth0"), self.mtu)
        for number, host in enumerate(self.hosts, 1):
            host.address("eth0", number, self.mtu)
        acquaint(*self.hosts)
        for host in self.hosts:
            host.settle("eth0")
        return self.hosts

    def __exit__(self, *_):
        for host in self.hosts:
            host.end()


class Relayed(Pair):
    """The same with the relay between them; @faults are its arguments."""

    def __init__(self, program, faults, mtu=1500):
        super().__init__(mtu)
        self.argv = [str(program), *faults, "one", "other"]
        self.relay = None

    def __enter__(self):
        self.hosts = [Host(), Host(), Host()]
        middle = self.hosts[2]
        for number, (host, name) in enumerate(zip(self.hosts, ("one", "other")), 1):
            cable(host, middle, ("eth0", name), self.mtu)
            host.address("eth0", number, self.mtu)
            host.ip("link", "set", "eth0", "gso_max_segs", "1")  # the relay's dice are for packets
        acquaint(*self.hosts[:2])
        for host in self.hosts[:2]:
            host.settle("eth0")
        self.relay = subprocess.Popen([*middle.enter, *self.argv], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
        self.relay.stdout.readline()
        return self.hosts[:2]

    def __exit__(self, *_):
        self.relay.stdin.close()
        self.report = self.relay.stdout.read().strip()
        self.relay.wait()
        super().__exit__()
