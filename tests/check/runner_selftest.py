#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The runner counts what it must, and lets nothing pass that did not."""
import contextlib
import io
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from runner import discover, process, report, tap  # noqa: E402

OUTPUTS = [
    ("a silent success", "", 0, ["pass"]),
    ("a silent failure", "", 1, ["fail"]),
    ("a crash", "", -11, ["fail"]),
    ("a skip", "SKIP: no room\n", 77, ["skip"]),
    ("cases", "1..3\nok 1 - a\nnot ok 2 - b\nok 3 - c # SKIP why\n", 1, ["pass", "fail", "skip"]),
    ("cmocka's skip", "1..1\nnot ok 1 # SKIP c\n# ok - tests\n", 0, ["skip"]),
    ("fewer cases than planned", "1..2\nok 1 - a\n", 0, ["pass", "fail"]),
    ("all well but the exit code", "1..1\nok 1 - a\n", 1, ["pass", "fail"]),
    ("a failed case and exit code 0", "1..1\nnot ok 1 - a\n", 0, ["fail"]),
    ("two plans, as of two groups", "1..1\nok 1 - a\n1..1\nok 1 - b\n", 0, ["pass", "pass"]),
]


def reads_outputs():
    for name, text, code, expected in OUTPUTS:
        found = [case.verdict for case in tap.verdicts(text, code)]
        assert found == expected, f"{name}: {found}"


def shell(script, timeout=20, enough=None):
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir()
        return process.run(["sh", "-c", script], {"PATH": "/usr/bin:/bin"}, home, timeout,
                           lambda _session: None, enough)


def keeps_both_streams():
    assert shell("echo a; echo b >&2; exit 3") == (3, "a\n", "b\n", "")


def ends_a_test_that_hangs():
    code, _, _, complaint = shell("sleep 600 & sleep 600", timeout=0.2)
    assert code == -9 and complaint.startswith("not done after"), complaint


def ends_a_test_that_hangs_behind_a_failure():
    script = "echo ok 1 - a; echo not ok 2 - b; sleep 600"
    _, out, _, complaint = shell(script, 600, tap.failed)
    assert complaint == "the rest was not waited for", complaint
    assert [case.verdict for case in tap.verdicts(out, -9)] == ["pass", "fail"]
    assert shell("echo ok 1 - a; sleep 1.5", 20, tap.failed)[3] == ""


def ends_what_a_test_leaves_behind():
    process.GRACE, before = 0.2, process.GRACE
    try:
        code, _, _, complaint = shell("sleep 600 & exit 0")
    finally:
        process.GRACE = before
    assert code == 0 and "sleep 600" in complaint, complaint


def judged(verdict, name, strict):
    with tempfile.NamedTemporaryFile("w+") as skips:
        skips.write("any k/listed it cannot be had\nasan k/other not under asan\n")
        skips.flush()
        result = report.Report(Path(skips.name), "none")
    result.strict = strict
    run = SimpleNamespace(test=SimpleNamespace(id=f"k/{name}"), title=name)
    return result._judge(run, tap.Case("", verdict)).verdict


def an_unlisted_skip_fails():
    assert judged("skip", "listed", True) == "skip"
    assert judged("skip", "surprise", True) == "fail"
    assert judged("skip", "other", True) == "fail"
    assert judged("skip", "surprise", False) == "skip"
    assert judged("pass", "surprise", True) == "pass"


def what_an_emulator_cannot_do_is_skipped():
    with tempfile.NamedTemporaryFile("w+") as skips:
        skips.write("arm k/whole it hangs\narm k/part:case it ignores madvise\n")
        skips.flush()
        there = report.Report(Path(skips.name), "arm", limited=True)
        here = report.Report(Path(skips.name), "arm")
    assert there.impossible(discover.Test("k", "whole", Path("k"))) == "it hangs"
    assert not here.impossible(discover.Test("k", "whole", Path("k")))
    run = SimpleNamespace(test=SimpleNamespace(id="k/part"), title="part")
    assert there._judge(run, tap.Case("case", "fail")).why == "it ignores madvise"
    assert there._judge(run, tap.Case("other", "fail")).verdict == "fail"
    assert here._judge(run, tap.Case("case", "fail")).verdict == "fail"


def the_slowest_stand_before_the_counts():
    result = report.Report(Path("/dev/null"), "none")
    with contextlib.redirect_stdout(io.StringIO()) as told:
        for seconds in range(report.SLOWEST + 5):
            run = SimpleNamespace(test=SimpleNamespace(id="k/n", kind="k"), title=f"k/{seconds}")
            result.test(run, [tap.Case("", "pass")], float(seconds), "")
        result.close()
    *_, counts = lines = told.getvalue().splitlines()
    table = lines[-1 - report.SLOWEST:-1]
    assert counts == f"{report.SLOWEST + 5} passed, 0 failed, 0 skipped", counts
    assert table[0].split() == ["24.0", "8.0%", "k/24"] and table[-1].endswith(" k/5"), table


def what_a_failed_test_said_is_kept():
    run = SimpleNamespace(test=SimpleNamespace(id="k/n", kind="k"), title="k/n as root")
    log = "\n".join(["ok 7 - a case", *map(str, range(report.TAIL + 5))])
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "failures"
        kept.mkdir()
        (kept / "of-the-run-before.log").touch()
        result = report.Report(Path("/dev/null"), "none", kept=kept)
        with contextlib.redirect_stdout(io.StringIO()) as told:
            result.test(run, [tap.Case("", "fail")], 1.0, log)
        assert [path.name for path in kept.iterdir()] == ["k-n-as-root.log"]
        assert (kept / "k-n-as-root.log").read_text() == log
    assert "| 5\n" in told.getvalue() and "| 4\n" not in told.getvalue(), told.getvalue()
    assert "a case" not in told.getvalue(), told.getvalue()
    assert str(kept / "k-n-as-root.log") in told.getvalue(), told.getvalue()


def a_selection_without_tests_is_refused():
    tests = [discover.Test("unit", "a", Path("a"))]
    assert discover._matches(tests[0], "unit") and discover._matches(tests[0], "unit/a:b")
    assert tests[0].cases == ["b"]
    assert not discover._matches(tests[0], "sim")
    try:
        discover._check_traits("x", {"both", "bouth"})
    except discover.NothingFound:
        return
    raise AssertionError("a misspelt trait is taken")


TESTS = [reads_outputs, keeps_both_streams, ends_a_test_that_hangs,
         ends_a_test_that_hangs_behind_a_failure, ends_what_a_test_leaves_behind,
         an_unlisted_skip_fails,
         what_an_emulator_cannot_do_is_skipped, the_slowest_stand_before_the_counts,
         what_a_failed_test_said_is_kept,
         a_selection_without_tests_is_refused]


def main():
    print(f"1..{len(TESTS)}")
    failed = 0
    for number, test in enumerate(TESTS, 1):
        why = ""
        try:
            test()
        except AssertionError as err:
            why = f": {err}"
            failed += 1
        print(f"{'not ok' if why else 'ok'} {number} - {test.__name__.replace('_', ' ')}{why}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
