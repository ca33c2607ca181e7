#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""softhca report and trace -m: do traces of both ends become one order, does the page say what was
lost and sent again, ask no other host for anything, and stand files that hold anything? At full
length Chromium draws it."""
# traits: timeout=180
import html.parser
import json
import os
import random
import re
import resource
import struct
import subprocess
import sys
from pathlib import Path

import cases
import trace as traces

TOOL = os.environ["SOFTHCA_PREFIX"] + "/bin/softhca"
PROGRAM = os.environ["SOFTHCA_BUILD"] + "/tests/verbs/verbs_traced"
FULL = os.environ.get("SOFTHCA_LENGTH") == "full" or "drawn" in os.environ["SOFTHCA_CASES"]
HOME = Path(os.environ["TMPDIR"])
AGAIN, LOST, REFUSED, NAK = 1, 2, 4, 8
QPN = {"one": 0x111, "other": 0x222}


class Page(html.parser.HTMLParser):
    """Its tags, what its script draws, and the cells of its table."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.inside, self.json, self.cells = [], "", "", []
        self.text = path.read_text(errors="surrogateescape")
        self.feed(self.text)
        self.data = json.loads(self.json)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = dict(attrs).get("id", tag)
        if tag == "td":
            self.cells.append("")

    def handle_data(self, data):
        if self.inside == "data":
            self.json += data
        elif self.inside == "td":
            self.cells[-1] += data

    def handle_endtag(self, tag):
        self.inside = ""


def tool(*words, status=0):
    done = subprocess.run([TOOL, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == status, done
    return done.stdout if status == 0 else done.stderr


def reported(*files):
    tool("report", "-o", HOME / "page.html", *files)
    return Page(HOME / "page.html")


def block(kind, body):
    size = 12 + len(body)
    return struct.pack("<II", kind, size) + body + struct.pack("<I", size)


def option(code, value):
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


HEAD = (block(0x0a0d0d0a, struct.pack("<IHHq", 0x1a2b3c4d, 1, 0, -1)) +
        block(1, struct.pack("<HHI", 1, 0, 0) + option(9, b"\x09") + bytes(4)))


def packet(at, writer, out, opcode, psn, extra=b"", payload=b"", said="ok"):
    """A block: what @writer, one of two hosts, says of a packet that it sent or received."""
    other = "other" if writer == "one" else "one"
    to = other if out else writer
    roce = struct.pack(">BBHII", opcode, -len(payload) % 4 << 4, 0xffff, QPN[to], psn) + extra
    roce += payload + bytes(-len(payload) % 4) + bytes(4)
    addresses = [bytes([10, 0, 0, 1 + (to == "one")]), bytes([10, 0, 0, 1 + (to != "one")])]
    frame = bytes(12) + b"\x08\x00" + struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, 28 + len(roce), 0, 0, 64, 17, 0, *addresses)
    frame += struct.pack(">HHHH", 50000, 4791, 8 + len(roce), 0) + roce
    way = "sends" if out else "receives"
    comment = f"QP 0x{QPN[writer]:x} {way} PSN {psn}; verdict: {said}".encode()
    body = struct.pack("<IIIII", 0, at >> 32, at & 0xffffffff, len(frame), len(frame))
    body += frame + bytes(-len(frame) % 4) + option(1, comment)
    return block(6, body + option(2, struct.pack("<I", 2 if out else 1)) + bytes(4))


def write(name, *packets):
    path = HOME / name
    path.write_bytes(HEAD + b"".join(packets))
    return path


SEND, ACK, US = 4, 17, 1000
ACKED = b"\x1f\x00\x00\x01"


def two_files():
    """One sends PSN 5, which is lost, 6, which is NAKed, both again, and PSN 7, which is refused;
    each has written a file of its own."""
    hostile = "refused; reason: </script><img src=x onerror=alert(1)> \"'\\"
    one = [packet(10 * US, "one", True, SEND, 5, b"", b"abcd", "sent"),
           packet(12 * US, "one", True, SEND, 6, b"", b"abc", "sent"),
           packet(16 * US, "one", False, ACK, 5, b"\x60\x00\x00\x01"),
           packet(5000 * US, "one", True, SEND, 5, b"", b"abcd", "sent"),
           packet(5001 * US, "one", True, SEND, 6, b"", b"abc", "sent"),
           packet(5008 * US, "one", False, ACK, 6, ACKED),
           packet(9000 * US, "one", True, SEND, 7, b"", b"", "sent")]
    other = [packet(14 * US, "other", False, SEND, 6, b"", b"abc", "dropped"),
             packet(15 * US, "other", True, ACK, 5, b"\x60\x00\x00\x01", said="sent"),
             packet(5004 * US, "other", False, SEND, 5, b"", b"abcd"),
             packet(5005 * US, "other", False, SEND, 6, b"", b"abc"),
             packet(5006 * US, "other", True, ACK, 6, ACKED, said="sent"),
             packet(9002 * US, "other", False, SEND, 7, said=hostile)]
    return write("one.pcapng", *one), write("other.pcapng", *other)


def both_ends():
    page = reported(*two_files())
    hops = [(h[5], h[2], h[3], h[7]) for h in page.data["hops"]]
    begin = 10 * US
    assert hops == [(5, 0, None, LOST), (6, 2 * US, 4 * US, 0), (5, 5 * US, 6 * US, NAK),
                    (5, 5000 * US - begin, 5004 * US - begin, AGAIN),
                    (6, 5001 * US - begin, 5005 * US - begin, AGAIN),
                    (6, 5006 * US - begin, 5008 * US - begin, 0),
                    (7, 9000 * US - begin, 9002 * US - begin, REFUSED)], hops
    assert page.cells[2:11] == ["7", "3", "7", "2", "1", "0", "1", "1", "4.985"], page.cells
    assert page.data["stalls"] == [[5 * US, 5000 * US - begin, 3, page.data["stalls"][0][3]]]
    assert "went again" in page.data["stalls"][0][3], page.data["stalls"]


def asks_nobody():
    """Nothing but what stands in it, and no tag out of a comment."""
    page = reported(*two_files())
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", page.text)
    assert not any({"src", "href"} & attrs.keys() for _, attrs in page.tags)
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert "onerror=alert(1)> \"'\\" in page.data["hops"][-1][9]
    assert "</script><img src=x onerror=alert(1)> \"'\\" == page.cells[11], page.cells


def merged():
    one, other = two_files()
    tool("trace", "-m", "-o", HOME / "all.pcapng", other, one)
    times = [struct.unpack_from("<II", body, 4) for kind, body in traces.blocks(HOME / "all.pcapng")
             if kind == 6]
    assert len(times) == 13 and times == sorted(times), times
    assert reported(HOME / "all.pcapng").data == reported(one, other).data


def full_disk():
    """What is merged onto itself is there until the whole is."""
    one, other = two_files()
    before = one.read_bytes()
    done = subprocess.run([TOOL, "trace", "-m", "-o", one, one, other], capture_output=True,
                          text=True, check=False, restore_signals=False,  # SIGXFSZ is ignored
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300)))
    assert done.returncode == 125 and "File too large" in done.stderr, done
    assert one.read_bytes() == before
    assert [path for path in HOME.glob("one.pcapng*")] == [one]
    one.chmod(0o644)
    tool("trace", "-m", "-o", one, one, other)
    assert one.read_bytes().count(b"; verdict: ") == 13 and one.stat().st_mode & 0o777 == 0o644


def cut_in_the_middle():
    """Part of a packet is missing, as after a full disk; those behind it are read, and what is not
    read is not lost either."""
    one, other = two_files()
    whole = one.read_bytes()
    begins = [len(HEAD)]
    while begins[-1] < len(whole):
        begins.append(begins[-1] + struct.unpack_from("<I", whole, begins[-1] + 4)[0])
    for missing in (*range(1, 9), 12, 50, begins[3] - begins[2] - 1):
        one.write_bytes(whole[:begins[3] - missing] + whole[begins[3]:])
        page = reported(one, other)
        assert "A part of a file could not be read." in page.text, missing
        assert len(page.data["hops"]) == 7, (missing, page.data["hops"])
        done = subprocess.run([TOOL, "trace", "-m", "-o", HOME / "all.pcapng", one, other],
                              capture_output=True, text=True, check=True)
        assert done.stderr == f"softhca: {one}: a part of it cannot be read and is left out\n", done
        kept = [body for kind, body in traces.blocks(HOME / "all.pcapng") if kind == 6]
        assert len(kept) == 12, (missing, len(kept))
        before = one.read_bytes()
        said = tool("trace", "-m", "-o", f"{HOME}/./{one.name}", other, one, status=125)
        assert "a part of it cannot be read, and would be lost" in said, said
        assert one.read_bytes() == before
    tool("trace", "-m", "-o", other, other, one)


def fifos():
    """Nobody is at their other end."""
    fifo = HOME / "fifo"
    os.mkfifo(fifo)
    for words in (("report", fifo), ("trace", "-o", fifo, "true")):
        done = subprocess.run([TOOL, *words], capture_output=True, text=True, timeout=60,
                              check=False)
        assert done.returncode == 125 and done.stderr.startswith(f"softhca: {fifo}: "), done


def of_a_program():
    path = traces.traced("process")
    page = reported(path)
    assert all(h[2] is not None and h[3] is not None for h in page.data["hops"]), page.cells
    assert [h[7] & ~NAK for h in page.data["hops"]].count(REFUSED) >= 1, page.cells
    assert page.cells[4] == "21592" and page.cells[5:8] == ["0", "0", "0"], page.cells


def anything():
    """Damaged files: cut off, and with lengths that lie."""
    whole = two_files()[0].read_bytes()
    dice = random.Random(1)
    damaged = HOME / "damaged.pcapng"
    for number in range(150):
        data = bytearray(whole[:dice.randrange(12, len(whole))] if number % 2 else whole)
        for _ in range(number % 5):
            data[dice.randrange(12, len(data))] = dice.choice((0, 1, 0x7f, 0xff))
        damaged.write_bytes(data)
        done = subprocess.run([TOOL, "report", "-o", HOME / "page.html", damaged],
                              capture_output=True, text=True, check=False)
        assert done.returncode in (0, 125), (number, done)
        if done.returncode == 0:
            Page(HOME / "page.html")
    for content in (b"", b"not a trace at all", HEAD[:11]):
        damaged.write_bytes(content)
        assert "no pcapng file" in tool("report", damaged, status=125)
    for words in (("report",), ("report", "-x"), ("report", "/nonexistent"), ("trace", "-m"),
                  ("trace", "-m", "-o", HOME / "x", "/nonexistent"),
                  ("report", "-o", "/nonexistent/x", two_files()[0])):
        assert tool(*words, status=125).startswith("softhca: "), words


def drawn():
    """What the script makes of it."""
    reported(*two_files())
    dom = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
         f"--user-data-dir={HOME}/chromium", (HOME / "page.html").as_uri()],
        capture_output=True, text=True, check=True, timeout=100).stdout
    dom = re.sub("<script.*?</script>", "", dom, flags=re.S)
    assert dom.count('class="hop"') == 7 and dom.count('class="stall"') == 1, dom[-3000:]
    assert "RC SEND ONLY, PSN 5, 4 B, again" in dom and "10.0.0.1 QP 0x111" in dom
    assert "<img" not in dom


if __name__ == "__main__":
    sys.exit(cases.run((both_ends, asks_nobody, merged, full_disk, cut_in_the_middle, fifos,
                        of_a_program, anything) +
                       ((drawn,) if FULL else ())))
