#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Programs on this release and on a real older one: the newest commit whose layout of shared memory
has another number. run/skew asks the same with an older one that differs in the number alone."""
# traits: source root timeout=1800
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cases
import skew

SOURCE = Path(__file__).resolve().parent.parent.parent
HEADER = "src/peers/host_page.h"
NUMBER = re.compile(r"\bHOST_LAYOUT = (\d+)")
# An older release says it in its own words.
OLD_SENTENCE = re.compile(r"^softhca: .*\bversion of softhca \(layout (\d+)\)", re.MULTILINE)
INSIDE = "inside"


class Absent(Exception):
    """Why there is no older release here."""


def git(*words):
    # A tree may be somebody else's.
    done = subprocess.run(["git", "-c", "safe.directory=*", "-C", SOURCE, *words], check=False,
                          capture_output=True)
    if done.returncode:
        raise Absent(f"git {words[0]}: {done.stderr.decode().strip()}")
    return done.stdout


def older():
    """(commit, its layout): the parent of the newest commit that has changed the number to that of
    this tree."""
    if not (SOURCE / ".git").exists():
        raise Absent("this source tree is not a clone")
    now = NUMBER.search((SOURCE / HEADER).read_text())[1]
    changed = git("log", "--format=%H", "-G", "HOST_LAYOUT = ", "--", HEADER).decode().split()
    for commit in changed:
        try:
            found = NUMBER.search(git("show", f"{commit}^:{HEADER}").decode())
        except Absent:  # the header, or the history, begins here
            continue
        if found and found[1] != now:
            return f"{commit}^", found[1]
    raise Absent("the history has no other layout")


def build(commit, folder):
    """Its prefix."""
    begun = time.monotonic()
    source, prefix = Path(folder) / "source", Path(folder) / "prefix"
    source.mkdir()
    subprocess.run(["tar", "-x", "-C", source], input=git("archive", commit), check=True)
    for words in (["meson", "setup", "build", "--prefix", prefix, "-Dlto=false"],
                  ["ninja", "-C", "build"], ["meson", "install", "-C", "build", "--no-rebuild"]):
        done = subprocess.run(words, cwd=source, check=False, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout[-2000:]
    print(f"# {commit}: built in {time.monotonic() - begun:.0f} s", flush=True)
    return prefix


def says_why(prefix, code, text):
    ours = prefix == skew.PREFIX
    named = (skew.SENTENCE if ours else OLD_SENTENCE).search(text)
    assert code != 0 and named, (prefix, code, text)
    assert (named[1] == skew.OTHERS) == ours, (prefix, text)


def orders():
    return (skew.PREFIX, skew.other), (skew.other, skew.PREFIX)


def both_write_on_one_host():
    for prefixes in orders():
        for prefix, code, text in zip(prefixes, *skew.pair(*prefixes, "ib_write_bw", "-b", "-u",
                                                           "16")):
            says_why(prefix, code, text)


def one_sends_on_one_host():
    """An older release tells its user nothing as long as he only receives."""
    for server_prefix, client_prefix in orders():
        server, code, text = skew.send(server_prefix, client_prefix)
        if server_prefix == skew.PREFIX:
            assert skew.says_to_the_receiver(server) == skew.OTHERS
        else:
            server.kill()
            server.communicate()
        says_why(client_prefix, code, text)


def run():
    try:
        commit, skew.OTHERS = older()
        with tempfile.TemporaryDirectory() as folder:
            skew.other = build(commit, folder)
            return cases.run([skew.one_release, both_write_on_one_host, one_sends_on_one_host,
                              skew.shown, skew.two_hosts])
    except Absent as err:
        print(f"SKIP: {err}")
        return 77


def main():
    if os.environ.get("SOFTHCA_LENGTH") != "full" and not os.environ.get("SOFTHCA_CASES"):
        print("SKIP: only a soak builds an older release")
        return 77
    if os.geteuid():
        print("SKIP: it makes network namespaces, as root")
        return 77
    if sys.argv[1:] == [INSIDE]:
        return run()
    # A test of the source tree gets no network of its own.
    lo_up = 'ip link set lo up && exec "$@"'
    os.execvp("unshare", ["unshare", "-n", "-m", "sh", "-c", lo_up, "sh", sys.executable, "-B",
                          __file__, INSIDE])


if __name__ == "__main__":
    sys.exit(main())
