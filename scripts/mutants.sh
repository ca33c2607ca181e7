# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Known bugs, planted in copies of the tree: a test suite that stays green with one of them is the
# finding. tests/mutants/README.md tells the form of a patch.

mutants_command() # [NAME...]
{
	/usr/bin/python3 -B tests/mutants/run.py --jobs "${SOFTHCA_JOBS:-$(nproc)}" -- "$@"
}
