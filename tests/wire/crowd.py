#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: root alone timeout=200
"""Many pairs of programs that poll, on two cores and on one: nobody's connection ends. What they
carry together is printed beside what one pair does on as many cores; the rule behind it is tested
in unit/engine_vain."""
import concurrent.futures
import sys

from net import hosts

from client import cases, pair, programs

SECONDS = "8" if programs.FULL else "4"
ONE_CORE = ["taskset", "-c", "0"]


def figures(output):
    """MiB a second of a client of perftest, which are 0 when its clock was never its turn; None: it
    prints none."""
    lines = [line.split() for line in output.splitlines() if line.split()[:1] == ["4096"]]
    return float(lines[0][3]) if lines and len(lines[0]) == 5 else None


def done(side, output):
    return "prints no figures" if side == "client" and figures(output) is None else ""


def together(hosts_of, around, count):
    one, other = ([*host.enter, *around] for host in hosts_of)
    argv = ["ib_write_bw", "-F", "-s", "4096", "-D", SECONDS, "-f", "1", "-m", "1024",
            "-x", hosts.GID["v4"]]
    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        return list(threads.map(lambda _: pair.run(
            argv, done, server=pair.Side(one, pair.ALONE),
            client=pair.Side(other, pair.ALONE), address="10.9.0.1"), range(count)))


def crowd(count, around):
    with hosts.Pair() as both:
        alone = together(both, around, 1)
        many = together(both, around, count)
    for result in alone + many:
        if result.why:
            return result
    rate, all_rates = (sum(figures(r.client) for r in each) for each in (alone, many))
    print(f"# one pair {rate:.1f} MiB/s, {count} pairs {all_rates:.1f}", flush=True)
    return many[0]


if __name__ == "__main__":
    sys.exit(cases.run([("sixteen pairs on two cores", lambda: crowd(16, [])),
                        ("four pairs on one core", lambda: crowd(4, ONE_CORE))]))
