"""A publisher and a reader of prices, in one program."""

import sys

import qsm

with qsm.Node(cluster=sys.argv[1], interface="lo") as node:
    prices = node.subscribe("prices/eur", "prices/usd")
    eur = node.publisher("prices/eur")
    eur.send(b"1.0842")
    for message in prices:
        print(message.group, message.number, bytes(message).decode())
        break
