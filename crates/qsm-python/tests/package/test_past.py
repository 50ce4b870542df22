"""Late join: what was sent before, and positions to go on from."""

import asyncio
import time

import pytest

import qsm

PATIENCE = 20


@pytest.fixture
def late(node, cluster):
    """Another member of the cluster."""
    with qsm.Node(cluster=cluster, interface="lo", embedded="never") as late:
        yield late


@pytest.fixture
def keeper(node):
    with node.keep("g") as keeper:
        yield keeper


def send(node, keeper, *numbers):
    """Sends texts of these numbers, until they are kept."""
    before = keeper.messages
    publisher = node.publisher("g")
    publisher.send_all(b"%d" % number for number in numbers)
    while keeper.messages < before + len(numbers):
        assert keeper.ended is None
        time.sleep(0)
    return publisher


def past(subscription):
    """Texts and notices up to the end of the past."""
    items = []
    for item in subscription.received():
        if isinstance(item, qsm.Joined):
            return items, item
        items.append(bytes(item).decode() if isinstance(item, qsm.Message) else item)


def test_the_last_messages_come_first_and_then_those_that_are_live(node, late, keeper):
    publisher = send(node, keeper, *range(1, 31))
    subscription = late.subscribe("g", last=3)
    messages = iter(subscription)
    assert [bytes(next(messages)) for _ in range(3)] == [b"28", b"29", b"30"]
    publisher.wait_for_members(1, PATIENCE)
    publisher.send(b"live")
    assert bytes(next(messages)) == b"live"
    assert (keeper.senders, keeper.refused) == (1, 0)
    assert keeper.sent_messages >= 3 and keeper.bytes > 30 * 96


def test_the_end_of_the_past_is_told_with_what_is_missing(node, late):
    subscription = node.subscribe("g")
    publisher = node.publisher("g")
    publisher.send_all([b"1", b"2"])
    got = iter(subscription)
    assert [bytes(next(got)), bytes(next(got))] == [b"1", b"2"]
    with node.keep("g", messages=10, age=60, bytes=1 << 20, bytes_per_second=1 << 20) as keeper:
        send(node, keeper, 3, 4)
        items, joined = past(late.subscribe("g", last=3))
    assert items[1:] == ["3", "4"]
    assert isinstance(items[0], qsm.NotKept)
    assert (items[0].group, items[0].first, items[0].last, items[0].cause) == ("g", 2, 2, "gone")
    assert (items[0].missing, joined.missing) == (1, 0)
    assert (joined.group, joined.keepers, joined.kept, joined.not_kept) == ("g", 1, 2, 1)
    subscription = late.subscribe("g", last=3)
    publisher.wait_for_members(1, PATIENCE)
    publisher.send(b"5")
    with pytest.raises(qsm.MissingError, match="nobody keeps the group"):
        next(iter(subscription))


def test_a_position_is_behind_what_was_given_and_goes_on_there(node, late, keeper, tmp_path):
    path = tmp_path / "g.position"
    assert qsm.Position.load(path) is None
    send(node, keeper, *range(1, 11))
    subscription = late.subscribe("g", resume=qsm.Position.load(path), last=10)
    for message in subscription:
        if message.number == 4:
            break
    position = subscription.position
    assert str(position).startswith("qsm-position 1\n")
    assert str(position).endswith(" 4 g\n")
    assert qsm.Position(str(position)) == position
    position.save(path)
    assert qsm.Position.load(path) == position
    again = late.subscribe("g", resume=position)
    items, _ = past(again)
    assert items == ["5", "6", "7", "8", "9", "10"]
    assert str(again.position).endswith(" 10 g\n")
    assert late.subscribe("g").position is None


def test_a_position_is_behind_batches_that_were_taken(node, late, keeper):
    send(node, keeper, *range(1, 11))
    subscription = late.subscribe("g", last=10)
    taken = []
    while len(taken) < 6:
        batch = subscription.receive(PATIENCE)
        if isinstance(batch, qsm.Batch):
            taken += batch.contents()
            assert str(subscription.position).endswith(f" {len(taken)} g\n")


def test_tasks_begin_with_the_past(node, late, keeper):
    send(node, keeper, 1, 2, 3)
    subscription = late.subscribe("g", last=2)

    async def read():
        got = []
        async for message in subscription:
            got.append(bytes(message))
            if len(got) == 2:
                return got

    assert asyncio.run(asyncio.wait_for(read(), PATIENCE)) == [b"2", b"3"]
    assert str(subscription.position).endswith(" 3 g\n")


def test_who_waits_for_messages_waits_as_long_as_said(late):
    subscription = late.subscribe("g", last=1)
    began = time.monotonic()
    taken = subscription.receive(0.3)
    # Nobody keeps the group, which may be known by then.
    assert taken is None or isinstance(taken, qsm.Joined)
    assert isinstance(taken, qsm.Joined) or time.monotonic() - began >= 0.3


@pytest.mark.parametrize(
    "how, said",
    [
        ({"last": 1, "order": "arrival"}, "leave `order` and `within` out"),
        ({"last": 1, "within": 0.1}, "leave `order` and `within` out"),
        ({"held_bytes": 1}, "give `last` or `resume`, too"),
    ],
)
def test_what_cannot_be_is_refused(node, how, said):
    with pytest.raises(ValueError, match=said):
        node.subscribe("g", **how)


def test_patterns_and_what_is_no_position_are_refused(node, tmp_path):
    with pytest.raises(qsm.Error) as error:
        node.subscribe("g/*", last=1)
    assert error.value.code == 1206
    with pytest.raises(qsm.Error) as error:
        node.keep("g/*")
    assert error.value.code == 1206
    with pytest.raises(qsm.SettingError, match="no position: it does not begin with"):
        qsm.Position("yesterday")
    with pytest.raises(OSError):
        qsm.Position.load(tmp_path)
