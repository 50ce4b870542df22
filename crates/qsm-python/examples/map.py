"""A desk sets prices in a map, and a screen at another node has the same map and sees them change."""

import sys

import qsm

CLUSTER = sys.argv[1]

with (
    qsm.Node(cluster=CLUSTER, interface="lo") as desk_node,
    qsm.Node(cluster=CLUSTER, interface="lo") as screen_node,
    desk_node.live_map("prices") as desk,
):
    desk["eur"] = "1.0842"
    with screen_node.live_map("prices") as screen:
        print("at first", screen.text("eur"))
        for change in screen.changes():
            print(change.key, change.value)
            if change.value is None:
                break
            if change.value == b"1.0842":
                desk["eur"] = b"1.0851"
            else:
                del desk["eur"]
        print(len(screen), "left")
