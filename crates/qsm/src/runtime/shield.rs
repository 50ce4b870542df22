//! The cluster's key at the sockets of a node, a service or an observer.

use std::net::SocketAddr;

use qsm_net::{Guard, Opened, Refusal};
use qsm_seal::{ClusterKey, Opener, Sealer};
use qsm_wire::{cluster_number, cluster_of};

use crate::admission::refusal;

/// Seals what leaves, and opens what comes of the cluster.
#[derive(Debug)]
pub(crate) struct Shield {
    cluster: u32,
    sealer: Sealer,
    opener: Opener,
}

impl Shield {
    /// For one node, or one life of a service: its packets are counted.
    pub(crate) fn new(key: &ClusterKey, cluster: &str) -> Self {
        Self {
            cluster: cluster_number(cluster),
            sealer: Sealer::new(key),
            opener: Opener::new(key),
        }
    }
}

impl Guard for Shield {
    fn growth(&self, _to: SocketAddr, datagram: &[u8]) -> usize {
        Sealer::growth(datagram)
    }

    fn seal(&mut self, _to: SocketAddr, datagram: &[u8], sealed: &mut Vec<u8>) -> bool {
        let result = self.sealer.seal(datagram, sealed);
        debug_assert!(result.is_ok(), "{result:?}");
        result.is_ok()
    }

    fn open(&mut self, _from: SocketAddr, datagram: &mut [u8]) -> Result<Opened, Refusal> {
        if cluster_of(datagram).is_some_and(|cluster| cluster != self.cluster) {
            return Err(Refusal::OtherCluster);
        }
        let length = self.opener.open(datagram).map_err(refusal)?;
        Ok(Opened::Datagram(length))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use qsm_seal::Cipher;
    use qsm_wire::{
        ChannelId, Coverage, Header, Incarnation, NodeId, Origin, StreamQuery, cluster_number, seal,
    };

    use super::*;

    const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

    fn question(cluster: &str) -> Vec<u8> {
        let origin = Origin {
            node: NodeId(5),
            incarnation: Incarnation(1),
        };
        let header = Header {
            cluster: cluster_number(cluster),
            origin,
            ..Header::default()
        };
        let mut packet = Vec::new();
        let query = StreamQuery {
            channel: ChannelId(1),
            stream: origin,
        };
        query.encode(&header, &mut packet);
        seal(&mut packet, Coverage::Whole);
        packet
    }

    #[test]
    fn each_refusal_has_its_reason() {
        let [key, other] = [(); 2].map(|()| ClusterKey::generate(Cipher::default()).unwrap());
        let mut shield = Shield::new(&key, "here");
        let sealed = |key: &ClusterKey, cluster: &str| {
            let mut sealed = Vec::new();
            assert!(Shield::new(key, cluster).seal(ANY, &question(cluster), &mut sealed));
            sealed
        };
        let mut open = |mut bytes: Vec<u8>| shield.open(ANY, &mut bytes);
        let packet = sealed(&key, "here");
        let mut changed = packet.clone();
        changed[30] ^= 1;
        assert_eq!(open(changed), Err(Refusal::Forged));
        let length = question("here").len();
        assert_eq!(open(packet.clone()), Ok(Opened::Datagram(length)));
        assert_eq!(open(packet), Err(Refusal::Replayed));
        assert_eq!(open(question("here")), Err(Refusal::Plain));
        assert_eq!(open(sealed(&other, "here")), Err(Refusal::OtherKey));
        assert_eq!(open(sealed(&other, "there")), Err(Refusal::OtherCluster));
        assert_eq!(open(question("there")), Err(Refusal::OtherCluster));
        assert_eq!(open(Vec::new()), Err(Refusal::Forged));
    }
}
