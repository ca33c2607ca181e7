# SPDX-License-Identifier: MIT
"""What passes the cable between the guest and us."""
import collections
import socket
import threading

UD_SEND_ONLY, GSI, CM_CLASS, RC_END = 0x64, 1, b"\7", 0x20
BTH, MAD, ATTRIBUTE = 8, 28, 16  # from the UDP header on, and from the MAD's on
MESSAGES = {0x10: "REQ", 0x12: "REJ", 0x13: "REP", 0x14: "RTU", 0x15: "DREQ", 0x16: "DREP",
            0x17: "SIDR_REQ", 0x18: "SIDR_REP"}


def _name(udp):
    """Of a packet from its UDP header on: the message of connection management, "data", or ''."""
    if udp[BTH] == UD_SEND_ONLY and int.from_bytes(udp[BTH + 5:BTH + 8], "big") == GSI:
        number = int.from_bytes(udp[MAD + ATTRIBUTE:MAD + ATTRIBUTE + 2], "big")
        return MESSAGES.get(number, "") if udp[MAD + 1:MAD + 2] == CM_CLASS else ""
    return "data" if udp[BTH] < RC_END else ""


class Heard(threading.Thread):
    """The opcodes of all that we send to the guest, and how often what has a name has passed."""
    ALL_PROTOCOLS, OUTGOING, ROCE = 3, 4, 4791

    def __init__(self):
        super().__init__(daemon=True)
        self.opcodes, self.names = set(), collections.Counter()
        self.more = threading.Condition()
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM,
                                    socket.htons(self.ALL_PROTOCOLS))
        self.socket.bind(("tap0", self.ALL_PROTOCOLS))
        self.start()

    def forget(self):
        """Counts names from now on."""
        with self.more:
            self.names.clear()

    def wait(self, name, count, seconds):
        """Until that has passed so often; whether it has."""
        with self.more:
            return self.more.wait_for(lambda: self.names[name] >= count, seconds)

    def run(self):
        while True:
            try:
                packet, address = self.socket.recvfrom(128)
            except OSError:  # said once while tap0 is down
                continue
            udp = 20 if packet[0] >> 4 == 4 else 40
            protocol = packet[9 if udp == 20 else 6]
            if protocol == socket.IPPROTO_UDP and \
                    int.from_bytes(packet[udp + 2:udp + 4], "big") == self.ROCE:
                if address[2] == self.OUTGOING:
                    self.opcodes.add(packet[udp + BTH])
                with self.more:
                    self.names[_name(packet[udp:])] += 1
                    self.more.notify_all()
