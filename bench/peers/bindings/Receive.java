import io.quicksilver.qsm.Handler;
import io.quicksilver.qsm.Message;
import io.quicksilver.qsm.Node;
import io.quicksilver.qsm.Notice;
import io.quicksilver.qsm.Subscription;
import java.time.Duration;

/** Receives messages of a group, and says how many in a time: Receive CLUSTER WARM-UP-MS MS. */
final class Receive implements Handler {
    private static final int BATCH = 1000;
    private static final Duration PATIENCE = Duration.ofMillis(100);

    private long sum;
    private long count;

    @Override
    public void onMessage(Message message) {
        sum += message.data().get(message.offset()) + message.number();
        count++;
    }

    @Override
    public void onNotice(Notice notice) {
        sum++;
    }

    private long receive(Subscription subscription, long milliseconds) {
        count = 0;
        long begun = System.nanoTime();
        while (System.nanoTime() - begun < milliseconds * 1_000_000) {
            subscription.poll(this, BATCH, PATIENCE);
        }
        return System.nanoTime() - begun;
    }

    public static void main(String[] arguments) throws Exception {
        Receive receive = new Receive();
        try (Node node =
                Node.builder().set("cluster", arguments[0]).set("interface", "lo").start()) {
            Subscription subscription = node.subscribe("rate");
            System.out.println("ready");
            receive.receive(subscription, Long.parseLong(arguments[1]));
            System.out.println("warm");
            long nanoseconds = receive.receive(subscription, Long.parseLong(arguments[2]));
            System.out.println("rate " + receive.count + " " + nanoseconds);
            System.in.read();
            Runtime.getRuntime().halt(receive.sum == 0 ? 1 : 0);
        }
    }
}
