"""A keeper of a group's last messages, and a subscriber that comes later and begins with them."""

import sys
import time

import qsm

with qsm.Node(cluster=sys.argv[1], interface="lo") as node:
    keeper = node.keep("news", messages=100)
    publisher = node.publisher("news")
    publisher.send_all(b"story %d" % number for number in range(1, 6))
    while keeper.messages < 5:
        time.sleep(0.001)

    news = node.subscribe("news", last=2)
    for item in news.received():
        if isinstance(item, qsm.Joined):
            print(item.kept, "kept,", item.not_kept, "missing")
            break
        if isinstance(item, qsm.Message):
            print(item.number, bytes(item).decode())
    print("to go on behind it:", str(news.position).split()[-2:])
