"""Receives messages of groups, and says how many in a time.

receive.py HOW CLUSTER WARM-UP-MS MS [GROUPS], where HOW is loop, batches, numpy, or zeromq with an address.
"""

import gc
import os
import sys
import time

#: Messages between looks at the clock.
SLICE = 1000
HOW, WHERE = sys.argv[1], sys.argv[2]


def messages(source):
    """Numbers of messages that came together, for ever; each is looked at as a program would."""
    if HOW == "numpy":
        import numpy

        for batch in source.batches(losses="yield"):
            if isinstance(batch, qsm.Batch):
                records = batch.numpy("V100")
                assert len(records)
                yield len(records)
    elif HOW == "batches":
        for batch in source.batches(losses="yield"):
            if isinstance(batch, qsm.Batch):
                contents = batch.contents()
                for content in contents:
                    content[0]
                yield len(contents)
    elif HOW == "loop":
        counted = 0
        for item in source.received():
            if isinstance(item, qsm.Message):
                bytes(item)[0]
                counted += 1
                if counted == SLICE:
                    yield SLICE
                    counted = 0
    else:
        receive = source.recv
        while True:
            for _ in range(SLICE):
                receive()[0]
            yield SLICE


class Collector:
    """Time of the garbage collector, nanoseconds."""

    def __init__(self):
        self.spent = self.begun = 0
        gc.callbacks.append(self)

    def __call__(self, phase, _):
        if phase == "start":
            self.begun = time.monotonic_ns()
        else:
            self.spent += time.monotonic_ns() - self.begun


def count(source, milliseconds):
    """Messages, how long they took, and the longest time between two turns, nanoseconds."""
    begun = last = time.monotonic_ns()
    end = begun + milliseconds * 1_000_000
    counted = gap = 0
    for number in source:
        counted += number
        now = time.monotonic_ns()
        gap = max(gap, now - last)
        last = now
        if now >= end:
            return counted, now - begun, gap


if HOW == "zeromq":
    import zmq

    subscription = zmq.Context().socket(zmq.SUB)
    subscription.setsockopt(zmq.RCVHWM, 10000)
    subscription.setsockopt(zmq.SUBSCRIBE, b"")
    subscription.connect(WHERE)
else:
    import qsm

    node = qsm.Node(cluster=WHERE, interface="lo")
    groups = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    subscription = node.subscribe("rate", *(f"rate/{number}" for number in range(1, groups)))

print("ready", flush=True)
source = messages(subscription)
count(source, int(sys.argv[3]))
print("warm", flush=True)
collector = Collector()
counted, nanoseconds, gap = count(source, int(sys.argv[4]))
print("rate", counted, nanoseconds, gap, collector.spent, flush=True)
sys.stdin.read(1)
os._exit(0)
