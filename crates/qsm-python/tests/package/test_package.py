"""What the package promises."""

import asyncio
import gc
import os
import select
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest

import qsm

PATIENCE = 20


def filled(node, count, **options):
    """A subscription with so many messages in its queue, or dropped."""
    subscription = node.subscribe("g", **options)
    publisher = node.publisher("g")
    publisher.send_all(b"%d" % number for number in range(1, count + 1))
    node.flush(PATIENCE)
    return subscription, publisher


def test_a_message_is_a_buffer_that_outlives_its_node(cluster):
    with qsm.Node(cluster=cluster, interface="lo", embedded="always") as node:
        subscription = node.subscribe("g")
        node.publisher("g").send(b"kept")
        message = next(iter(subscription))
    view = message.data
    assert (message.group, message.number, len(message)) == ("g", 1, 4)
    del message, subscription, node
    gc.collect()
    assert view.readonly and bytes(view) == b"kept"
    with pytest.raises(TypeError):
        view[0] = 1


def test_whatever_is_a_buffer_can_be_sent(node):
    subscription = node.subscribe("g")
    publisher = node.publisher("g")
    for message in [b"", b"a", bytearray(b"b"), memoryview(b"xcx")[1:2], numpy.uint8(100)]:
        publisher.send(message)
    assert publisher.try_send(numpy.frombuffer(b"e", dtype="u1"))
    got = [bytes(message) for _, message in zip(range(6), subscription)]
    assert got == [b"", b"a", b"b", b"c", b"d", b"e"]


@pytest.mark.parametrize("message", [3, "text", None, [1, 2]])
def test_what_is_no_buffer_is_refused(node, message):
    with pytest.raises(TypeError, match="is no bytes-like object"):
        node.publisher("g").send(message)


def test_an_empty_message_is_true(node):
    subscription, publisher = filled(node, 0)
    publisher.send(b"")
    assert next(iter(subscription))


def test_batches_are_sequences(node):
    subscription, _ = filled(node, 5)
    batch = next(subscription.batches(most=5))
    assert [bytes(message) for message in batch] == batch.contents()
    assert bytes(batch[0]) == b"1"
    assert batch[-1].number == len(batch)
    for index in (len(batch), -len(batch) - 1):
        with pytest.raises(IndexError):
            batch[index]


def test_records_are_arrays(node):
    subscription = node.subscribe("g")
    publisher = node.publisher("g")
    publisher.send_all(numpy.arange(100, dtype="<u8"))
    read = []
    while len(read) < 100:
        read.extend(subscription.receive(PATIENCE).numpy("<u8"))
    assert read == list(range(100))
    publisher.send(b"short")
    with pytest.raises(ValueError, match="a message has 5 bytes, the type 8"):
        subscription.receive(PATIENCE).numpy("<u8")


def test_what_is_missing_is_raised_in_its_place(node):
    subscription, publisher = filled(node, 5, queue_messages=2)
    batches = subscription.batches()
    assert next(batches).contents() == [b"1", b"2"]
    with pytest.raises(qsm.MissingError) as missing:
        next(batches)
    assert isinstance(missing.value.notice, qsm.Dropped)
    assert (missing.value.notice.messages, subscription.dropped) == (3, 3)
    publisher.send(b"6")
    assert next(batches).contents() == [b"6"]


def test_what_is_missing_is_yielded_if_asked_for(node):
    subscription, publisher = filled(node, 5, queue_messages=2)
    node.shutdown()
    got = [item.missing if isinstance(item, qsm.Dropped) else bytes(item) for item in subscription.received()]
    assert got == [b"1", b"2", 3]
    with pytest.raises(ValueError, match="give 'raise' or 'yield'"):
        subscription.batches(losses="ignore")


def test_the_oldest_are_dropped_if_asked_for(node):
    subscription, _ = filled(node, 5, queue_messages=2, overflow="drop-oldest")
    with pytest.raises(qsm.MissingError):
        subscription.batches().__next__()
    assert next(iter(subscription)).number == 4


@pytest.mark.parametrize("how", [{"overflow": "hold"}, {"order": "arrival"}, {"within": 5}])
def test_nothing_is_lost_by_who_holds_and_in_each_order(node, how):
    queue = {"queue_messages": 2} if "overflow" in how else {}
    subscription = node.subscribe("held", **queue, **how)
    publisher = node.publisher("held")
    for number in range(1, 6):
        publisher.send(str(number).encode())
    got = [bytes(message) for _, message in zip(range(5), subscription)]
    assert (got, subscription.dropped) == ([b"1", b"2", b"3", b"4", b"5"], 0)


def test_a_slow_reader_is_cut_off_if_asked_for(node):
    subscription, _ = filled(node, 5, queue_messages=2, overflow="disconnect")
    messages = iter(subscription)
    assert [bytes(next(messages)), bytes(next(messages))] == [b"1", b"2"]
    with pytest.raises(qsm.OverflowError) as error:
        next(messages)
    assert error.value.code == 1401


def test_loops_end_with_the_node(node):
    subscription, publisher = filled(node, 3)
    ended = threading.Timer(0.1, node.shutdown)
    ended.start()
    assert [bytes(message) for message in subscription] == [b"1", b"2", b"3"]
    ended.join()
    with pytest.raises(qsm.ClosedError) as error:
        publisher.send(b"late")
    assert error.value.code == 1104 and "QSM-1104" in str(error.value)


def test_tasks_take_turns(node):
    groups = ["a", "b", "c"]
    subscriptions = [node.subscribe(group) for group in groups]

    async def read(subscription):
        read = []
        async for message in subscription:
            read.append(bytes(message))
            if len(read) == 100:
                return read

    async def write(publisher):
        for number in range(100):
            publisher.send(b"%d" % number)
            await asyncio.sleep(0)

    async def main():
        readers = [asyncio.create_task(read(subscription)) for subscription in subscriptions]
        await asyncio.gather(*(write(node.publisher(group)) for group in groups))
        return await asyncio.wait_for(asyncio.gather(*readers), PATIENCE)

    expected = [b"%d" % number for number in range(100)]
    assert asyncio.run(main()) == [expected] * 3


def test_a_cancelled_task_has_taken_nothing(node):
    subscription = node.subscribe("g")
    publisher = node.publisher("g")

    async def main():
        waiting = asyncio.create_task(anext(subscription.batches()))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        publisher.send(b"after")
        return await asyncio.wait_for(anext(subscription.batches()), PATIENCE)

    assert asyncio.run(main()).contents() == [b"after"]


def test_a_loop_of_ones_own_waits_for_the_descriptor(node):
    subscription = node.subscribe("g")
    publisher = node.publisher("g")
    assert subscription.take() is None
    assert select.select([subscription], [], [], 0) == ([], [], [])
    publisher.send(b"1")
    assert select.select([subscription], [], [], PATIENCE)[0] == [subscription]
    assert subscription.take().contents() == [b"1"]
    assert subscription.receive(0) is None


def test_others_run_while_one_waits(node):
    subscription = node.subscribe("g")
    got = []
    reader = threading.Thread(target=lambda: got.append(bytes(next(iter(subscription)))))
    reader.start()
    # It would never get here if the reader kept the interpreter.
    node.publisher("g").send(b"1")
    reader.join(PATIENCE)
    assert got == [b"1"]


WAITS = """
import signal, sys, qsm
# A shell starts what it runs in the background with the signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
node = qsm.Node(cluster=sys.argv[1], interface="lo", embedded="always")
subscription = node.subscribe("g")
try:
    print("waits", flush=True)
    next(iter(subscription))
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_signal_ends_waiting(cluster):
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS, cluster], stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout.readline() == "waits\n"
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=PATIENCE)[0] == "interrupted\n"
        finally:
            process.kill()


def test_two_nodes_of_a_cluster(node, cluster):
    subscription = node.subscribe("g")
    with qsm.Node(cluster=cluster, interface="lo") as other:
        publisher = other.publisher("g")
        publisher.wait_for_members(1, PATIENCE)
        assert publisher.members == 1
        publisher.send_all([b"x"] * 5000)
        flushed = other.flush(PATIENCE)
        assert flushed and flushed.complete and not flushed.unserved
    numbers = [message.number for _, message in zip(range(5000), subscription)]
    assert numbers == list(range(1, 5001))


def test_events_end_with_the_node(node):
    events = node.events()
    node.subscribe("g")
    node.shutdown()
    kinds = [event.kind for event in events]
    assert kinds[-1] == "Closed" and node.closed == "the node was shut down"


@pytest.mark.parametrize(
    "settings, error",
    [
        ({"colour": "red"}, "there is no setting \"colour\""),
        ({"ttl": 256}, "\"256\" is no value of ttl"),
        ({"retention": "much"}, "give bytes, such as 64M"),
    ],
)
def test_wrong_settings_are_named(settings, error):
    with pytest.raises(qsm.SettingError, match=error):
        qsm.Node(**settings)


def test_messages_wait_for_others_as_long_as_their_publisher_says(cluster, node):
    with qsm.Node(cluster=cluster, interface="lo", embedded="never") as other:
        messages = iter(other.subscribe("g"))
        patient = node.publisher("g", batch_delay=0.2)
        patient.wait_for_members(1, PATIENCE)
        sent = time.monotonic()
        patient.send(b"waits")
        assert bytes(next(messages)) == b"waits"
        assert time.monotonic() - sent >= 0.2
        # Longer than anything takes here, but for a length.
        node.publisher("g", batch_delay=3600, batch_bytes=1).send(b"does not")
        assert bytes(next(messages)) == b"does not"


def test_times_and_policies_are_checked(node):
    subscription = node.subscribe("g")
    with pytest.raises(ValueError, match="give `batch_delay`, too"):
        node.publisher("g", batch_bytes=1000)
    for wrong in (-1, float("nan")):
        with pytest.raises(ValueError, match="give seconds"):
            subscription.receive(wrong)
    with pytest.raises(ValueError, match="is no policy"):
        node.subscribe("g", overflow="wait")
    with pytest.raises(ValueError, match="is no order"):
        node.subscribe("g", order="time")
    with pytest.raises(ValueError, match="leave `within` out"):
        node.subscribe("g", order="arrival", within=0.1)
    with pytest.raises(TimeoutError, match="has 0 receivers"):
        node.publisher("g").wait_for_members(1, 0.05)
    with pytest.raises(qsm.StartError) as error:
        qsm.Node.attach("/nowhere")
    assert error.value.code == 1602


@pytest.mark.skipif("QSM_ENGINE" not in os.environ, reason="there is no engine")
def test_an_attached_node_is_like_any_other():
    with qsm.Node.attach(os.environ["QSM_ENGINE"]) as node:
        unordered = node.subscribe("g", order="arrival")
        subscription, _ = filled(node, 2000)
        ordered, arrived = (
            [message.number for _, message in zip(range(2000), reader)]
            for reader in (subscription, unordered)
        )
        assert ordered == sorted(arrived) == list(range(1, 2001))
        held = node.subscribe("h", overflow="hold", queue_bytes=4096)
        publisher = node.publisher("h")
        sent = 0
        while publisher.try_send(bytes(1000)):
            sent += 1
        got = [message.number for _, message in zip(range(sent), held)]
        assert (got, held.dropped) == (list(range(1, sent + 1)), 0)
        with pytest.raises(qsm.Error) as refused:
            node.publisher("g", batch_delay=0.001)
        assert refused.value.code == 1205
