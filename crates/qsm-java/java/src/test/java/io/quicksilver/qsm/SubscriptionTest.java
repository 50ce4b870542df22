package io.quicksilver.qsm;

import static io.quicksilver.qsm.Loopback.PATIENCE;
import static io.quicksilver.qsm.Loopback.bytes;
import static io.quicksilver.qsm.Loopback.fill;
import static io.quicksilver.qsm.Loopback.take;
import static io.quicksilver.qsm.Loopback.text;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class SubscriptionTest {
    private final Node node = Loopback.start();
    private final Subscription subscription = node.subscribe("g");
    private final Publisher publisher = node.publisher("g");

    @AfterEach
    void end() {
        node.close();
    }

    @Test
    void aMessageSaysWhatItIs() {
        publisher.send(bytes("kept"));
        List<ReceivedMessage> copies = new ArrayList<>();
        subscription.poll(message -> {
            assertEquals("g", message.group());
            assertEquals(1, message.number());
            assertEquals(4, message.length());
            assertEquals(new Sender(message.senderNode(), message.senderLife()), message.sender());
            assertEquals(node.id() + "." + message.senderLife(), message.sender().toString());
            copies.add(message.copy());
        }, 10, PATIENCE);
        assertEquals(1, copies.size());
        node.close();
        assertEquals("kept", new String(copies.get(0).data()));
    }

    @Test
    void aMessageIsAViewThatCannotBeWritten() {
        publisher.send(bytes("first"));
        publisher.send(bytes("second"));
        node.flush(PATIENCE);
        List<Message> seen = new ArrayList<>();
        List<String> texts = new ArrayList<>();
        subscription.poll(message -> {
            ByteBuffer data = message.data();
            assertTrue(data.isDirect());
            assertThrows(ReadOnlyBufferException.class, () -> data.put(data.position(), (byte) 0));
            byte[] copy = new byte[data.remaining()];
            data.get(copy);
            texts.add(new String(copy));
            assertEquals(0, message.offset() % 8);
            assertEquals(copy[0], message.buffer().get(message.offset()));
            seen.add(message);
        }, 10);
        assertEquals(List.of("first", "second"), texts);
        assertSame(seen.get(0), seen.get(1));
    }

    @Test
    void whoHoldsLosesNothingAndEachOrderDeliversAll() {
        QueueLimits held = QueueLimits.DEFAULT.withMessages(2).withOverflow(Overflow.HOLD);
        List<Subscription> readers = List.of(
                node.subscribe(held, "held"),
                node.subscribe(QueueLimits.DEFAULT, Delivery.ARRIVAL, "held"),
                node.subscribe(QueueLimits.DEFAULT, Delivery.within(PATIENCE), "held"));
        Publisher sender = node.publisher("held");
        for (int number = 1; number <= 5; number++) {
            sender.send(bytes(Integer.toString(number)));
        }
        for (Subscription reader : readers) {
            List<String> texts = new ArrayList<>();
            while (texts.size() < 5) {
                assertTrue(reader.poll(message -> texts.add(text(message)), 10, PATIENCE) > 0);
            }
            assertEquals(List.of("1", "2", "3", "4", "5"), texts);
            assertEquals(0, reader.dropped());
        }
        assertThrows(
                IllegalArgumentException.class, () -> Delivery.within(Duration.ofMillis(-1)));
    }

    @Test
    void aPollTakesNoMoreThanItsLimit() {
        fill(node, publisher, 5);
        List<String> texts = new ArrayList<>();
        assertEquals(2, subscription.poll(message -> texts.add(text(message)), 2));
        assertEquals(3, subscription.poll(message -> texts.add(text(message)), 10));
        assertEquals(0, subscription.poll(message -> texts.add(text(message)), 10));
        assertEquals(List.of("1", "2", "3", "4", "5"), texts);
        assertThrows(IllegalArgumentException.class, () -> subscription.poll(message -> {}, 0));
    }

    @Test
    void aPollWaitsNoLongerThanItIsGiven() {
        assertEquals(0, subscription.poll(message -> {}, 1, Duration.ofMillis(1)));
        assertEquals(0, subscription.poll(message -> {}, 1, Duration.ZERO));
        Duration wrong = Duration.ofMillis(-1);
        assertThrows(IllegalArgumentException.class, () -> subscription.poll(message -> {}, 1, wrong));
    }

    @Test
    void messagesOfManyGroupsHaveTheirNames() {
        List<String> expected = new ArrayList<>();
        for (int number = 0; number < 10; number++) {
            expected.add("many/" + number);
        }
        try (Subscription all = node.subscribe(expected.toArray(String[]::new))) {
            assertEquals(expected, all.groups());
            for (String group : expected) {
                try (Publisher one = node.publisher(group)) {
                    one.send(bytes(group));
                }
            }
            List<String> groups = new ArrayList<>();
            while (groups.size() < expected.size()) {
                int taken = all.poll(message -> {
                    assertEquals(text(message), message.group());
                    groups.add(message.group());
                }, 7, PATIENCE);
                assertTrue(taken > 0);
            }
            groups.sort(null);
            assertEquals(expected, groups);
        }
    }

    @Test
    void aMessageLongerThanTheBufferIsWhole() {
        byte[] large = new byte[5_000_000];
        for (int index = 0; index < large.length; index++) {
            large[index] = (byte) (index * 31);
        }
        publisher.send(bytes("before"));
        publisher.send(large);
        publisher.send(bytes("behind"));
        List<byte[]> got = new ArrayList<>();
        while (got.size() < 3) {
            assertTrue(subscription.poll(message -> got.add(message.bytes()), 10, PATIENCE) > 0);
        }
        assertEquals("before", new String(got.get(0)));
        assertEquals(ByteBuffer.wrap(large), ByteBuffer.wrap(got.get(1)));
        assertEquals("behind", new String(got.get(2)));
    }

    @Test
    void whatIsMissingIsThrownInItsPlace() {
        try (Subscription small = node.subscribe(QueueLimits.DEFAULT.withMessages(2), "g")) {
            fill(node, publisher, 5);
            List<String> texts = new ArrayList<>();
            MissingException missing = assertThrows(
                    MissingException.class,
                    () -> small.poll(message -> texts.add(text(message)), 10));
            assertEquals(List.of("1", "2"), texts);
            assertInstanceOf(Notice.Dropped.class, missing.notice());
            assertEquals(3, missing.notice().missing());
            assertEquals(3, small.dropped());
            publisher.send(bytes("6"));
            assertEquals(List.of("6"), take(small, 1));
        }
    }

    @Test
    void whatIsMissingIsHandedOnIfAskedFor() {
        try (Subscription small = node.subscribe(QueueLimits.DEFAULT.withMessages(2), "g")) {
            fill(node, publisher, 5);
            List<Object> taken = take(small, 3);
            assertEquals(List.of("1", "2"), taken.subList(0, 2));
            Notice notice = assertInstanceOf(Notice.Dropped.class, taken.get(2));
            assertEquals(3, notice.missing());
            assertFalse(notice.text().isEmpty());
        }
    }

    @Test
    void theOldestAreDroppedIfAskedFor() {
        QueueLimits limits = QueueLimits.DEFAULT.withMessages(2).withOverflow(Overflow.DROP_OLDEST);
        try (Subscription small = node.subscribe(limits, "g")) {
            fill(node, publisher, 5);
            List<Object> taken = take(small, 3);
            assertInstanceOf(Notice.Dropped.class, taken.get(0));
            assertEquals(List.of("4", "5"), taken.subList(1, 3));
        }
    }

    @Test
    void aSlowReaderIsCutOffIfAskedFor() {
        QueueLimits limits = QueueLimits.DEFAULT.withMessages(2).withOverflow(Overflow.DISCONNECT);
        try (Subscription small = node.subscribe(limits, "g")) {
            fill(node, publisher, 5);
            assertEquals(List.of("1", "2"), take(small, 2));
            OverflowException end =
                    assertThrows(OverflowException.class, () -> small.poll(message -> {}, 1));
            assertEquals(1401, end.code());
        }
    }

    @Test
    void aHandlerThatThrowsLosesNoMessageBehind() {
        fill(node, publisher, 3);
        RuntimeException fault = new RuntimeException("the handler's");
        RuntimeException thrown = assertThrows(RuntimeException.class, () -> subscription.poll(message -> {
            throw fault;
        }, 10));
        assertSame(fault, thrown);
        assertEquals(List.of("2", "3"), take(subscription, 2));
    }

    @Test
    void aHandlerCannotPollItsOwnSubscription() {
        fill(node, publisher, 2);
        assertThrows(IllegalStateException.class, () -> subscription.poll(
                message -> subscription.poll(inner -> {}, 1), 10));
        assertEquals(List.of("2"), take(subscription, 1));
    }

    @Test
    void theEndComesAfterEverythingWasTaken() {
        fill(node, publisher, 3);
        node.shutdown(PATIENCE);
        assertEquals(List.of("1", "2", "3"), take(subscription, 3));
        ClosedException end =
                assertThrows(ClosedException.class, () -> subscription.poll(message -> {}, 1));
        assertTrue(end.isShutdown());
        assertEquals(1104, end.code());
        assertTrue(end.getMessage().contains("QSM-1104"), end.getMessage());
    }

    @Test
    void closingEndsAPollThatWaits() throws Exception {
        assertEndsWaiting(IllegalStateException.class, reader -> subscription.close());
        assertThrows(IllegalStateException.class, () -> subscription.poll(message -> {}, 1));
        subscription.close();
    }

    @Test
    void anInterruptEndsAPollThatWaits() throws Exception {
        assertEndsWaiting(InterruptedWaitException.class, Thread::interrupt);
        publisher.send(bytes("after"));
        assertEquals(List.of("after"), take(subscription, 1));
    }

    private void assertEndsWaiting(
            Class<? extends Throwable> expected, java.util.function.Consumer<Thread> end)
            throws Exception {
        CountDownLatch begun = new CountDownLatch(1);
        AtomicReference<Throwable> thrown = new AtomicReference<>();
        Thread reader = new Thread(() -> {
            begun.countDown();
            try {
                subscription.poll(message -> {}, 1, Duration.ofDays(365_000));
            } catch (RuntimeException error) {
                thrown.set(error);
            }
        });
        reader.start();
        assertTrue(begun.await(PATIENCE.toSeconds(), TimeUnit.SECONDS));
        end.accept(reader);
        reader.join(PATIENCE.toMillis());
        assertNotNull(thrown.get(), "it waits still");
        assertInstanceOf(expected, thrown.get());
    }
}
