"""The examples print what they should."""

import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
PRINTED = {
    "late.py": "4 story 4\n5 story 5\n2 kept, 0 missing\nto go on behind it: ['5', 'news']\n",
    "map.py": "at first 1.0842\neur b'1.0842'\neur b'1.0851'\neur None\n0 left\n",
    "prices.py": "prices/eur 1 1.0842\n",
    "records.py": "highest so far 1.75\n",
    "tasks.py": "1 story 1\n2 story 2\n3 story 3\n",
}


def test_each_example_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PRINTED)


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_example(name, cluster):
    ended = subprocess.run(
        [sys.executable, EXAMPLES / name, cluster], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    # The first batch may have one record or all.
    assert ended.stdout.endswith(PRINTED[name])
