"""Live logs: the newest entries that several programs write."""

import asyncio
import time

import pytest

import qsm

PATIENCE = 60


@pytest.fixture
def other(node, cluster):
    """Another member of the cluster."""
    with qsm.Node(cluster=cluster, interface="lo", embedded="never") as other:
        yield other


def contents(log):
    return [entry.content for entry in log]


def test_logs_of_several_nodes_are_alike(node, other):
    begun = time.time()
    with node.live_log("events") as desk:
        desk.append("opened")
        with other.live_log("events") as screen:
            screen.append(memoryview(b"\0closed"))
            events = desk.events()
            seen = []
            while len(seen) < 2:
                more = events.receive(PATIENCE)
                assert more, seen
                seen += more
            assert [entry.content for entry in seen] == [b"opened", b"\0closed"]
            assert contents(desk) == contents(screen) == [b"opened", b"\0closed"]
            assert list(desk) == seen and len(screen) == 2
            assert begun - 1 < seen[0].time <= seen[1].time < time.time() + 1
            assert repr(screen) == "<qsm.LiveLog of 2 entries>"
            assert (desk.stats()["published"], desk.live) == (1, True)


def test_what_goes_unread_is_counted_and_what_is_too_long_is_refused(node):
    log = node.live_log("events", entries=2, bytes=100)
    with pytest.raises(qsm.NotLiveError):
        log.append(b"early")
    with log:
        events = log.events()
        for content in ("1", "2", "3"):
            log.append(content)
        first, *rest = events.take()
        assert first == qsm.Missed(1)
        assert [entry.content for entry in rest] == [b"2", b"3"]
        with pytest.raises(qsm.LimitError, match="its bound is 100"):
            log.append(bytes(101))
        with pytest.raises(TypeError, match="is no bytes-like object"):
            log.append(7)
    assert events.take() is None
    with pytest.raises(ValueError, match="this object is closed"):
        log.append("late")


def test_tasks_follow_a_log(node):
    async def run():
        async with node.live_log("events") as log:
            log.append("1")
            async for event in log.events():
                if event.content == b"2":
                    return len(log)
                log.append("2")

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE)) == 2
