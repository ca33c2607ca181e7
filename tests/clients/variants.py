#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: both alone timeout=480
"""The programs where a fast way is closed, and where the two sides are started differently."""
import os
import sys
from pathlib import Path

from client import cases, pair

REFUSE = ["/usr/bin/python3", str(Path(__file__).parent / "client/refuse.py")]
UNDUMPABLE = Path(os.environ["SOFTHCA_BUILD"]) / "tests/clients/undumpable.so"


def undumpable():
    before = pair.preload().get("LD_PRELOAD")
    return {"LD_PRELOAD": f"{before}:{UNDUMPABLE}" if before else str(UNDUMPABLE),
            "SOFTHCA_UNDUMPABLE": "1"}


def variants():
    plain, alone = pair.Side(), pair.Side(inside=pair.ALONE)
    refused = pair.Side(around=REFUSE)
    closed = pair.Side(env=undumpable())
    faultless = pair.Side(env={"SOFTHCA_FAULT": ""})
    late = pair.Side(env={"SOFTHCA_FAULT": "delay=20us"})
    return {
        "process_vm refused": (refused, refused),
        "process_vm refused to the server": (refused, plain),
        "undumpable": (closed, closed),
        "undumpable client": (plain, closed),
        "undumpable and process_vm refused": (pair.Side(around=REFUSE, env=undumpable()),) * 2,
        "library path alone": (alone, alone),
        "behind a link of no faults": (faultless, faultless),
        "behind a delay": (late, late),
        "a delay of one side": (plain, late),
        "server inside, client outside": (plain, alone),
        "server outside, client inside": (alone, plain),
    }


def main():
    return cases.run_sample(*cases.crossed(variants()),
                            "each variant meets each way of moving data")


if __name__ == "__main__":
    sys.exit(main())
