#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# traits: both
"""action.yml as a runner executes it: its steps, one after the other, in a folder that has what a
runner gives; then a job's own programs, and what the job's page says at the end."""
import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
from pathlib import Path

import cases

HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent
PREFIX = Path(os.environ["SOFTHCA_PREFIX"])
INPUT = re.compile(r"\$\{\{ inputs\.(\w+) \}\}")
NEEDED = "::warning title=softhca::mistake: ibv_modify_qp: QP 0x"


def steps(action):
    """[{key: text}] of a composite action, each key on a line of its own."""
    found, inside = [], False
    for line in (TOP / action).read_text().splitlines():
        inside |= line == "  steps:"
        key = re.fullmatch(r"\s+(?:(-) )?(\w+): (.*)", line)
        if not inside or not key:
            continue
        if key[1]:
            found.append({})
        found[-1][key[2]] = key[3].strip("'")
    return found


class Job:
    """What later steps get from earlier ones, by files as a runner has them."""

    def __init__(self, folder, tarball):
        self.folder, self.inputs, self.failed = Path(folder), {"tarball": str(tarball)}, False
        self.files = {name: self.folder / name
                      for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")}
        for path in self.files.values():
            path.touch()

    def env(self):
        env = {"HOME": str(self.folder), "RUNNER_TEMP": str(self.folder), "CI": "true",
               **{name: str(path) for name, path in self.files.items()}}
        path = self.files["GITHUB_PATH"].read_text().split()[::-1]
        env["PATH"] = ":".join([*path, os.environ["PATH"]])
        env.update(line.split("=", 1) for line in self.files["GITHUB_ENV"].read_text().splitlines())
        env.update((name, text) for name, text in os.environ.items()
                   if name.endswith("SAN_OPTIONS"))
        return env

    def step(self, command, preload=False, **more):
        """(status, output)"""
        env = {**self.env(), **more}
        if preload and os.environ.get("SOFTHCA_PRELOAD"):
            env["LD_PRELOAD"] = os.environ["SOFTHCA_PRELOAD"]
            env["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        done = subprocess.run(["bash", "-e", "-c", command], cwd=self.folder, env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout

    def use(self, action, **inputs):
        """The outputs of an action's steps; a step that fails ends those without always()."""
        self.inputs.update(inputs)
        outputs, failed = [], False
        for step in steps(action):
            when = step.get("if", "")
            if (failed and "always()" not in when) or ("inputs.run" in when
                                                       and not self.inputs.get("run")):
                continue
            given = {key: INPUT.sub(lambda m: self.inputs.get(m[1], ""), text)
                     for key, text in step.items() if key.isupper()}
            status, output = self.step(
                step["run"], preload="commands" in step["name"],
                GITHUB_ACTION_PATH=str((TOP / action).parent), **given)
            failed |= status != 0
            outputs.append(output)
        self.failed = failed
        return outputs

    def summary(self):
        return self.files["GITHUB_STEP_SUMMARY"].read_text()


def job(test):
    """A case with a job that has a tarball and a program that makes a mistake."""
    def case():
        with tempfile.TemporaryDirectory() as folder:
            tarball = Path(folder) / "softhca.tar.gz"
            with tarfile.open(tarball, "w:gz") as out:
                out.add(PREFIX, "softhca-0.1.0-linux")
            subprocess.run(["gcc", str(HERE / "reader/mistake.c"), "-o", f"{folder}/mistake",
                            "-libverbs"], check=True)
            test(Job(folder, tarball))
    case.__name__ = test.__name__
    return case


@job
def later_steps_find_the_device(work):
    work.use("action.yml", devices="mlx5_0=lo")
    assert not work.failed
    status, output = work.step("ibv_devinfo", preload=True)
    assert status == 0 and "PORT_ACTIVE" in output, output
    status, output = work.step("softhca --version")
    assert status == 0 and "softhca" in output, output
    assert work.use("ci/annotate/action.yml") == [""] and work.summary() == ""


@job
def failures_are_annotated(work):
    work.use("action.yml")
    status, _ = work.step("./mistake; ./mistake", preload=True)
    assert status == 1
    status, _ = work.step("./mistake", preload=True)
    output = work.use("ci/annotate/action.yml")[0]
    assert output.startswith(NEEDED) and "add it to attr_mask" in output, output
    assert not work.failed
    assert "| 1 | mistake: ibv_modify_qp: QP 0x" in work.summary(), work.summary()


@job
def commands_are_run_and_explained(work):
    outputs = work.use("action.yml", run="softhca run -- ./mistake\necho not reached")
    assert work.failed and len(outputs) == 3, outputs
    assert "not reached" not in outputs[1] and outputs[2].startswith(NEEDED), outputs


@job
def a_sentence_is_shown_once(work):
    said = work.folder / "said"
    said.write_text("softhca: one 5% | <b>\n" * 3 + "softhca: other\n"
                    + "".join(f"softhca: {n}\n" for n in range(20)))
    command = f'"{TOP}/ci/annotate.sh"'
    _, output = work.step(command, SOFTHCA_EXPLAIN=str(said))
    assert output.splitlines()[:2] == ["::warning title=softhca::one 5%25 | <b>",
                                       "::warning title=softhca::other"], output
    assert len(output.splitlines()) == 10, output
    assert "| 3 | one 5% \\| &lt;b> |\n| 1 | other |\n" in work.summary(), work.summary()
    assert work.step(command, SOFTHCA_EXPLAIN="1") == (0, "")


@job
def a_summary_is_as_long_as_github_shows(work):
    said = work.folder / "said"
    said.write_text("".join(f"softhca: {n:<500}|\n" for n in range(20000)))
    _, output = work.step(f'"{TOP}/ci/annotate.sh"', SOFTHCA_EXPLAIN=str(said))
    assert len(output.splitlines()) == 10, output
    size, end = len(work.summary()), work.summary()[-700:]
    assert size < 1 << 20 and "| 1 | 499 " in end and end.endswith("\n\nand 19500 more\n"), end


@job
def elsewhere_lines_are_evaluated(work):
    tarball = work.inputs["tarball"]
    status, output = work.step(
        f'unset GITHUB_ENV GITHUB_PATH GITHUB_STEP_SUMMARY; cd /; '
        f'eval "$("{TOP}/ci/setup.sh" "{tarball}" mlx5_0=lo)"; env; cd "{work.folder}"; '
        f'./mistake || "{TOP}/ci/annotate.sh"', preload=True)
    assert status == 0 and "SOFTHCA_DEVICES=mlx5_0=lo\n" in output, output
    assert "\n1 softhca: mistake: ibv_modify_qp: QP 0x" in output, output


def evaluated(tarball, then):
    """A script of a job that is not GitHub's."""
    return (f'unset GITHUB_ENV GITHUB_PATH GITHUB_STEP_SUMMARY SOFTHCA_EXPLAIN; '
            f'eval "$("{TOP}/ci/setup.sh" "{tarball}")"; {then}')


def folder_of(work, job=""):
    return work.folder / f"softhca-{os.getuid()}{job and '-'}{job}"


@job
def on_buildkite_it_is_an_annotation(work):
    """The agent gets the text on its standard input."""
    agent = work.folder / "buildkite-agent"
    agent.write_text('#!/bin/sh\necho "$@"\ncat\n')
    agent.chmod(0o755)
    said = work.folder / "said"
    said.write_text("softhca: one\n" * 2)
    command = f'unset GITHUB_STEP_SUMMARY; PATH="{work.folder}:$PATH"; "{TOP}/ci/annotate.sh"'
    status, output = work.step(command, BUILDKITE="true", SOFTHCA_EXPLAIN=str(said))
    assert (status, output) == (0, "annotate --style warning --context softhca\n"
                                "### What softhca says\n\n| times | |\n|---|---|\n"
                                "| 2 | one |\n"), output


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@job
def a_tarball_is_fetched(work):
    handler = functools.partial(Files, directory=work.folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        found = work.step(evaluated(f"{url}/softhca.tar.gz", "softhca --version; echo went on"))
        missing = work.step(evaluated(f"{url}/other.tar.gz", "echo went on"))
        server.shutdown()
    assert found[0] == 0 and found[1].count("softhca 0") == 2 and "went on" in found[1], found
    assert missing[0] != 0 and "404" in missing[1] and "went on" not in missing[1], missing


@job
def a_failed_setup_ends_the_job(work):
    status, output = work.step(evaluated("/nowhere/softhca.tar.gz", "echo went on"))
    assert status != 0 and "went on" not in output, output


@job
def a_folder_of_anybody_is_not_used(work):
    tarball = work.inputs["tarball"]
    folder_of(work).mkdir()
    folder_of(work).chmod(0o777)
    status, output = work.step(evaluated(tarball, "echo went on"))
    assert status != 0 and "no folder of yours" in output and "went on" not in output, output
    folder_of(work).rmdir()
    folder_of(work).symlink_to(work.folder)
    status, output = work.step(evaluated(tarball, "echo went on"))
    assert status != 0 and "no folder of yours" in output and "went on" not in output, output


@job
def an_earlier_job_is_not_explained(work):
    folder_of(work).mkdir(mode=0o755)
    (folder_of(work) / "explained").write_text("softhca: of yesterday\n")
    tarball = work.inputs["tarball"]
    status, output = work.step(evaluated(tarball, f'"{TOP}/ci/annotate.sh"'))
    assert status == 0 and "yesterday" not in output, output
    (folder_of(work) / "explained").write_text("softhca: of today\n")
    status, output = work.step(f'unset GITHUB_ENV GITHUB_STEP_SUMMARY; "{TOP}/ci/annotate.sh"')
    assert (status, output) == (0, "1 softhca: of today\n"), output


@job
def jobs_at_the_same_time_share_nothing(work):
    """Two of one user; what jobs of days ago have left goes away."""
    for variable in ("BUILDKITE_JOB_ID", "CI_JOB_ID"):
        tarball, old = work.inputs["tarball"], folder_of(work, "of-old")
        (old / "bin").mkdir(parents=True)
        os.utime(old, (0, 0))
        said = evaluated(tarball, 'echo "softhca: of $SOFTHCA_EXPLAIN" >>"$SOFTHCA_EXPLAIN"')
        for number in ("one", "other"):
            status, output = work.step(said, **{variable: number})
            assert status == 0, output
        assert not old.exists() and not folder_of(work).exists()
        status, output = work.step(f'unset GITHUB_ENV GITHUB_STEP_SUMMARY; "{TOP}/ci/annotate.sh"',
                                   **{variable: "one"})
        explained = folder_of(work, "one") / "explained"
        assert (status, output) == (0, f"1 softhca: of {explained}\n"), output


if __name__ == "__main__":
    sys.exit(cases.run([later_steps_find_the_device, failures_are_annotated,
                        commands_are_run_and_explained, a_sentence_is_shown_once,
                        a_summary_is_as_long_as_github_shows, elsewhere_lines_are_evaluated,
                        on_buildkite_it_is_an_annotation,
                        *[a_tarball_is_fetched] * bool(shutil.which("curl")),
                        a_failed_setup_ends_the_job, a_folder_of_anybody_is_not_used,
                        an_earlier_job_is_not_explained, jobs_at_the_same_time_share_nothing]))
