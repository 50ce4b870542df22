package io.quicksilver.qsm;

import static io.quicksilver.qsm.Loopback.PATIENCE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import org.junit.jupiter.api.Test;

class AllocationTest {
    private static final int MESSAGES = 20_000;

    private final ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    private long sum;
    private int seen;

    /** Reads what a program would. */
    private void read(Message message) {
        sum += message.data().getLong() + message.number() + message.senderNode();
        sum += message.group().length() + message.length();
        seen++;
    }

    private void readAll(Subscription subscription, Handler handler, int until) {
        while (seen < until) {
            assertTrue(subscription.poll(handler, 100, PATIENCE) > 0);
        }
    }

    private void sendAll(Publisher publisher, ByteBuffer direct, byte[] array) {
        for (int number = 0; number < MESSAGES / 2; number++) {
            publisher.send(direct);
            publisher.send(array);
        }
    }

    /** The first round loads classes and finds names; the second shows what messages cost. */
    @Test
    void messagesAreSentAndReadWithoutAllocation() {
        Handler handler = this::read;
        ByteBuffer direct = ByteBuffer.allocateDirect(100);
        byte[] array = new byte[100];
        try (Node node = Loopback.start()) {
            Subscription subscription = node.subscribe("g");
            Publisher publisher = node.publisher("g");
            sendAll(publisher, direct, array);
            readAll(subscription, handler, MESSAGES);

            long before = threads.getCurrentThreadAllocatedBytes();
            sendAll(publisher, direct, array);
            long sent = threads.getCurrentThreadAllocatedBytes();
            readAll(subscription, handler, 2 * MESSAGES);
            long read = threads.getCurrentThreadAllocatedBytes();

            assertEquals(2 * MESSAGES, seen);
            assertPerMessage(sent - before, "sending");
            assertPerMessage(read - sent, "reading");
        }
    }

    /** Less than a byte for four messages: the smallest object has sixteen. */
    private static void assertPerMessage(long bytes, String what) {
        assertTrue(bytes * 4 < MESSAGES, what + " " + MESSAGES + " messages took " + bytes + " bytes");
    }

    @Test
    void anObjectForEachMessageWouldBeSeen() {
        long before = threads.getCurrentThreadAllocatedBytes();
        Object[] kept = new Object[MESSAGES];
        for (int index = 0; index < MESSAGES; index++) {
            kept[index] = new Sender(index, sum);
        }
        long bytes = threads.getCurrentThreadAllocatedBytes() - before;
        assertTrue(bytes > 16L * kept.length, bytes + " bytes are counted");
    }
}
