"""Two gateways behind the shipped nginx.conf agree, and one that is killed takes only its open streams along."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .gateway import ROOT

LIMIT_S = 110.0


@pytest.mark.timeout(120)
def test_two_gateways_are_one() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "scaleout.py")]

    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    if done.stdout.startswith("Skipped"):
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("| yes |") == 10


def test_the_table_in_the_documents_is_one_of_a_run_where_all_held() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    table = page.partition("<!-- scaleout:begin -->")[2].partition("<!-- scaleout:end -->")[0]

    assert (table.count("| yes |"), table.count("**no**")) == (10, 0)
