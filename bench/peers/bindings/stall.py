"""Reads messages of a group at an engine, and stands still when it is told to.

stall.py ENGINE; then a line for each second on its standard input: read, collect or hold. It answers with
the word when the second is over.
"""

import gc
import sys
import threading
import time

import qsm

subscription = qsm.Node.attach(sys.argv[1]).subscribe("rate")


def read():
    """Reads for ever, as a program would that keeps up."""
    for batch in subscription.batches(losses="yield"):
        if isinstance(batch, qsm.Batch):
            batch.contents()


class Knot:
    """Objects that refer to each other, so that the collector has something to look at."""

    def __init__(self):
        self.self = self


def collect(end):
    """Collects garbage, again and again."""
    knots = [Knot() for _ in range(100_000)]
    while time.monotonic() < end:
        gc.collect()
    return len(knots)


def hold(end):
    """Calls that do not give the interpreter's lock back, each about as long as the whole."""
    while time.monotonic() < end:
        sum(range(40_000_000))


threading.Thread(target=read, daemon=True).start()
print("ready", flush=True)
for line in sys.stdin:
    word, end = line.strip(), time.monotonic() + 1
    if word == "collect":
        collect(end)
    elif word == "hold":
        hold(end)
    else:
        time.sleep(1)
    print(word, flush=True)
