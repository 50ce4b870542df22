import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.Receiver;
import org.jgroups.protocols.FlowControl;
import org.jgroups.stack.Protocol;

/** JGroups: one cluster by UDP multicast; the group of a message is in the message. */
final class Peer {
    public static void main(final String[] arguments) throws Exception {
        final Bench bench = new Bench(arguments);
        // udp.xml has places for these.
        System.setProperty("jgroups.bind_addr", bench.address);
        System.setProperty("jgroups.udp.mcast_addr", "239.255.87.1");
        System.setProperty("jgroups.udp.mcast_port", Integer.toString(bench.port));
        System.setProperty("java.net.preferIPv4Stack", "true");
        try (JChannel channel = new JChannel("udp.xml")) {
            limitCredits(channel, bench.number("credits", 0));
            channel.setDiscardOwnMessages(true);
            if (bench.sends) {
                channel.connect("bench-" + bench.port);
                // The channel keeps the message for retransmission.
                bench.runSender((group, message) -> channel.send(new BytesMessage(null, message.clone())));
            } else {
                bench.openVerifier();
                channel.setReceiver(new Receiver() {
                    @Override
                    public void receive(final Message message) {
                        // Everything comes to everybody; who does not want it drops it.
                        if (bench.wants(message.getArray(), message.getOffset(), message.getLength())) {
                            bench.deliver(message.getArray(), message.getOffset(), message.getLength());
                        }
                    }
                });
                channel.connect("bench-" + bench.port);
                bench.runReceiver();
            }
        }
        System.exit(0);
    }

    private static void limitCredits(final JChannel channel, final int credits) {
        if (credits == 0) {
            return;
        }
        for (final Protocol protocol : channel.getProtocolStack().getProtocols()) {
            if (protocol instanceof FlowControl) {
                ((FlowControl)protocol).setMaxCredits(credits);
            }
        }
    }
}
