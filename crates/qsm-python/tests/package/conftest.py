import faulthandler
import itertools
import os

import pytest

import qsm

# A test that hangs ends them all, and shows where.
faulthandler.dump_traceback_later(300, exit=True)

NUMBERS = itertools.count()


@pytest.fixture
def cluster():
    """A cluster of this test's own."""
    return f"python-{os.getpid()}-{next(NUMBERS)}"


@pytest.fixture
def node(cluster):
    with qsm.Node(cluster=cluster, interface="lo", embedded="always") as node:
        yield node
