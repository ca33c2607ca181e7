# SPDX-License-Identifier: MIT
"""The two sides of a case: a program on our libraries here, and whatever runs beside it."""
import os
import subprocess
import threading

import guest
from client import pair

SECONDS = 60 * pair.PATIENCE


def start(argv):
    env = {**os.environ, **pair.preload(), "LD_LIBRARY_PATH": os.environ["SOFTHCA_LIB"],
           "SOFTHCA_DEVICES": "mlx5_0=tap0", "SOFTHCA_EXPLAIN": "1"}
    return subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def ours(argv):
    with start(argv) as process:
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            return None, f"{output}not done in time"
    return process.returncode, output


class Side(threading.Thread):
    """One side of a case; what it raises is raised by result()."""

    def __init__(self, function, *arguments):
        super().__init__()
        self.call, self.arguments, self.value, self.error = function, arguments, None, None
        self.start()

    def run(self):
        try:
            self.value = self.call(*self.arguments)
        except guest.Died as error:
            self.error = error

    def result(self):
        self.join()
        if self.error:
            raise self.error
        return self.value
