package io.quicksilver.qsm;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/** Clusters of the tests' own, on the loopback interface. */
final class Loopback {
    /** Longer than anything takes. */
    static final Duration PATIENCE = Duration.ofSeconds(20);

    private static final AtomicInteger NUMBERS = new AtomicInteger();

    private Loopback() {}

    static String cluster() {
        return "java-" + ProcessHandle.current().pid() + "-" + NUMBERS.incrementAndGet();
    }

    static Node start() {
        return start(cluster());
    }

    /** A node with a membership service. */
    static Node start(String cluster) {
        return Node.builder().set("cluster", cluster).set("interface", "lo").set("embedded", "always")
                .start();
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(Message message) {
        return new String(message.bytes(), StandardCharsets.UTF_8);
    }

    /** Polls until there were so many items; texts of messages, and notices. */
    static List<Object> take(Subscription subscription, int count) {
        List<Object> taken = new ArrayList<>();
        Handler handler = new Handler() {
            @Override
            public void onMessage(Message message) {
                taken.add(text(message));
            }

            @Override
            public void onNotice(Notice notice) {
                taken.add(notice);
            }
        };
        while (taken.size() < count) {
            if (subscription.poll(handler, count - taken.size(), PATIENCE) == 0) {
                throw new AssertionError("after " + taken.size() + " of " + count + " nothing came");
            }
        }
        return taken;
    }

    /** Publishes the texts "1", "2" and so on, and waits until they have arrived. */
    static void fill(Node node, Publisher publisher, int count) {
        for (int number = 1; number <= count; number++) {
            publisher.send(bytes(Integer.toString(number)));
        }
        node.flush(PATIENCE);
    }
}
