import io.quicksilver.qsm.Handler;
import io.quicksilver.qsm.Message;
import io.quicksilver.qsm.Node;
import io.quicksilver.qsm.Notice;
import io.quicksilver.qsm.Subscription;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.stream.IntStream;

/** Receives messages of groups, and says how many in a time: Receive CLUSTER WARM-UP-MS MS [GROUPS]. */
final class Receive implements Handler {
    private static final int BATCH = 1000;
    private static final Duration PATIENCE = Duration.ofMillis(100);

    private long sum;
    private long count;
    /** The longest time between two polls, nanoseconds. */
    private long gap;

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
        gap = 0;
        long begun = System.nanoTime();
        long last = begun;
        while (last - begun < milliseconds * 1_000_000) {
            subscription.poll(this, BATCH, PATIENCE);
            long now = System.nanoTime();
            gap = Math.max(gap, now - last);
            last = now;
        }
        return last - begun;
    }

    /** Names of the groups, as the sender has them. */
    private static String[] groups(String[] arguments) {
        int groups = arguments.length > 3 ? Integer.parseInt(arguments[3]) : 1;
        return IntStream.range(0, groups).mapToObj(number -> number == 0 ? "rate" : "rate/" + number).toArray(String[]::new);
    }

    /** Time of the collectors since the start, nanoseconds. */
    private static long collectors() {
        return ManagementFactory.getGarbageCollectorMXBeans().stream()
                .mapToLong(collector -> Math.max(0, collector.getCollectionTime()) * 1_000_000)
                .sum();
    }

    public static void main(String[] arguments) throws Exception {
        Receive receive = new Receive();
        try (Node node =
                Node.builder().set("cluster", arguments[0]).set("interface", "lo").start()) {
            Subscription subscription = node.subscribe(groups(arguments));
            System.out.println("ready");
            receive.receive(subscription, Long.parseLong(arguments[1]));
            System.out.println("warm");
            long collected = collectors();
            long nanoseconds = receive.receive(subscription, Long.parseLong(arguments[2]));
            collected = collectors() - collected;
            System.out.println("rate " + receive.count + " " + nanoseconds + " " + receive.gap + " " + collected);
            System.in.read();
            Runtime.getRuntime().halt(receive.sum == 0 ? 1 : 0);
        }
    }
}
