//! The cluster's key at the sockets of a node, a service or an observer.

use qsm_net::{Guard, Refusal};
use qsm_seal::{ClusterKey, OpenError, Opener, Sealer};
use qsm_wire::{cluster_number, cluster_of};

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
    fn growth(&self, datagram: &[u8]) -> usize {
        Sealer::growth(datagram)
    }

    fn seal(&mut self, datagram: &[u8], sealed: &mut Vec<u8>) -> bool {
        let result = self.sealer.seal(datagram, sealed);
        debug_assert!(result.is_ok(), "{result:?}");
        result.is_ok()
    }

    fn open(&mut self, datagram: &mut [u8]) -> Result<usize, Refusal> {
        if cluster_of(datagram).is_some_and(|cluster| cluster != self.cluster) {
            return Err(Refusal::OtherCluster);
        }
        self.opener.open(datagram).map_err(|error| match error {
            OpenError::OtherKey(_) => Refusal::OtherKey,
            OpenError::Plain => Refusal::Plain,
            OpenError::Replayed => Refusal::Replayed,
            _ => Refusal::Forged,
        })
    }
}

#[cfg(test)]
mod tests {
    use qsm_seal::Cipher;
    use qsm_wire::{
        ChannelId, Coverage, Header, Incarnation, NodeId, Origin, StreamQuery, cluster_number, seal,
    };

    use super::*;

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
            assert!(Shield::new(key, cluster).seal(&question(cluster), &mut sealed));
            sealed
        };
        let mut open = |mut bytes: Vec<u8>| shield.open(&mut bytes);
        let packet = sealed(&key, "here");
        let mut changed = packet.clone();
        changed[30] ^= 1;
        assert_eq!(open(changed), Err(Refusal::Forged));
        assert_eq!(open(packet.clone()), Ok(question("here").len()));
        assert_eq!(open(packet), Err(Refusal::Replayed));
        assert_eq!(open(question("here")), Err(Refusal::Plain));
        assert_eq!(open(sealed(&other, "here")), Err(Refusal::OtherKey));
        assert_eq!(open(sealed(&other, "there")), Err(Refusal::OtherCluster));
        assert_eq!(open(question("there")), Err(Refusal::OtherCluster));
        assert_eq!(open(Vec::new()), Err(Refusal::Forged));
    }
}
