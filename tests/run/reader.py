#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root timeout=240
"""A reader types what the pages print, as it stands, in an empty home: does each command work, and
print what is printed below it? tests/run/reader/page.py says how a page is read."""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "wire"))

from net import hosts  # noqa: E402
from reader import page, terminal  # noqa: E402

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
PAGES = ["README.md", "docs/tutorial.md", "docs/troubleshooting.md"]
TOOL = os.environ["SOFTHCA_PREFIX"] + "/bin/softhca"
COMMANDS = "demo | test | dist | install | uninstall"
# The tool of an instrumented build starts programs that are not. perftest fails without -F where it
# cannot measure the CPU's frequency, as under load. A client of rping that comes between its
# server's rdma_bind_addr and rdma_listen is refused and comes again; both may end with 255 when
# they are done (client/cm.py: has_pinged).
WRAPPER = f"""#!/bin/sh
export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
case " $* " in
*" ib_"*) set -- "$@" -F ;;
*" rping "*)
	while
		said=$(LD_PRELOAD=$SOFTHCA_PRELOAD {TOOL} "$@" 2>&1)
		status=$?
		printf '%s\\n' "$said" | grep -q 'REJECTED, error 8'
	do :; done
	printf '%s\\n' "$said"
	case $status$said in 255*DISCONNECT* | 255*rdma-ping-2:*) exit 0 ;; esac
	exit $status
	;;
esac
LD_PRELOAD=$SOFTHCA_PRELOAD exec {TOOL} "$@"
"""
# The clone is built already, and tests/fresh.sh runs its two commands.
BUILD = f"""#!/bin/sh
[ $# -eq 0 ] ||
	case $1 in {COMMANDS}) ;; *) exit 1 ;; esac
"""


def furnish(home):
    """What a clone has, and a program of the reader's own that does something wrong."""
    (home / "build").mkdir()
    for name, text in (("build/softhca", WRAPPER), ("build.sh", BUILD)):
        (home / name).write_text(text)
        (home / name).chmod(0o755)
    subprocess.run(["gcc", str(HERE / "reader/mistake.c"), "-o", str(home / "my_program"),
                    "-libverbs"], check=True)
    if Path("/proc/self/uid_map").read_text().split()[2] != "1":  # root of more than itself
        for path in (home, *home.rglob("*")):
            shutil.chown(path, terminal.READER, terminal.READER)


def name_hosts(folder):
    """host1 and host2, in this test's own mount namespace."""
    names = Path(folder) / "hosts"
    names.write_text("127.0.0.1 localhost\n10.9.0.1 host1\n10.9.0.2 host2\n")
    subprocess.run(["mount", "--bind", str(names), "/etc/hosts"], check=True)


def follow(block, home, pair):
    """Types the block's commands; raises AssertionError at the first that the page is wrong of."""
    with terminal.Desk(home, dict(zip(("host1", "host2"), pair))) as desk:
        for command in block.commands:
            desk.type(command)
        for command, status, printed in desk.done():
            why = command.differs(status, printed)
            assert not why, f"{command.text}\n{why}"


def main():
    blocks = [block for name in PAGES for block in page.blocks(TOP / name)]
    failed = 0
    print(f"1..{len(blocks)}")
    with tempfile.TemporaryDirectory() as folder, hosts.Pair(4200) as pair:
        home = Path(folder) / "home"
        os.chmod(folder, 0o755)
        home.mkdir()
        furnish(home)
        name_hosts(folder)
        for number, block in enumerate(blocks, 1):
            try:
                follow(block, home, pair)
                print(f"ok {number} - {block.name}", flush=True)
            except AssertionError as err:
                failed += 1
                print(f"not ok {number} - {block.name}")
                print("\n".join(f"# {line}" for line in str(err).splitlines()), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
