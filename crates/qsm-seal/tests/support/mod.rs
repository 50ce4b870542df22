//! Packets to seal, of nodes in their third life.

use qsm_wire::{
    ChannelId, Coverage, DataHeader, Header, Incarnation, NodeId, Origin, StreamQuery, ViewNumber,
    seal,
};

fn header(node: u64) -> Header {
    Header {
        cluster: 77,
        origin: Origin {
            node: NodeId(node),
            incarnation: Incarnation(3),
        },
        ..Header::default()
    }
}

/// A data packet of the node with this number in its stream, and these bytes behind its header.
pub(crate) fn data(node: u64, sequence: u64, body: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let head = DataHeader {
        channel: ChannelId(9),
        view: ViewNumber(1),
        sequence,
        view_age: 0,
    };
    head.encode(&header(node), &mut packet);
    packet.extend_from_slice(body);
    seal(&mut packet, Coverage::Head);
    packet
}

/// A question of the node, which is not data.
pub(crate) fn question(node: u64) -> Vec<u8> {
    let mut packet = Vec::new();
    let query = StreamQuery {
        channel: ChannelId(9),
        stream: header(node).origin,
    };
    query.encode(&header(node), &mut packet);
    seal(&mut packet, Coverage::Head);
    packet
}
