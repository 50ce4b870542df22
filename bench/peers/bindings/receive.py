"""Receives messages of a group, and says how many in a time.

receive.py HOW CLUSTER WARM-UP-MS MS, where HOW is loop, batches, numpy, or zeromq with an address.
"""

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


def count(source, milliseconds):
    end = time.monotonic_ns() + milliseconds * 1_000_000
    begun = time.monotonic_ns()
    counted = 0
    for number in source:
        counted += number
        if time.monotonic_ns() >= end:
            return counted, time.monotonic_ns() - begun


if HOW == "zeromq":
    import zmq

    subscription = zmq.Context().socket(zmq.SUB)
    subscription.setsockopt(zmq.RCVHWM, 10000)
    subscription.setsockopt(zmq.SUBSCRIBE, b"")
    subscription.connect(WHERE)
else:
    import qsm

    node = qsm.Node(cluster=WHERE, interface="lo")
    subscription = node.subscribe("rate")

print("ready", flush=True)
source = messages(subscription)
count(source, int(sys.argv[3]))
print("warm", flush=True)
counted, nanoseconds = count(source, int(sys.argv[4]))
print("rate", counted, nanoseconds, flush=True)
sys.stdin.read(1)
os._exit(0)
