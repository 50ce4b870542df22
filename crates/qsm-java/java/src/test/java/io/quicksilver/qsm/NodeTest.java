package io.quicksilver.qsm;

import static io.quicksilver.qsm.Loopback.PATIENCE;
import static io.quicksilver.qsm.Loopback.bytes;
import static io.quicksilver.qsm.Loopback.take;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

class NodeTest {
    @Test
    void twoNodesOfACluster() {
        String cluster = Loopback.cluster();
        try (Node node = Loopback.start(cluster);
                Node other = Node.builder().set("cluster", cluster).set("interface", "lo").start()) {
            Subscription subscription = node.subscribe("g");
            Publisher publisher = other.publisher("g");
            assertEquals("g", publisher.group());
            publisher.awaitMembers(1, PATIENCE);
            assertEquals(1, publisher.members());
            List<Object> expected = new ArrayList<>();
            for (int number = 1; number <= 5000; number++) {
                publisher.send(bytes("m" + number));
                expected.add("m" + number);
            }
            Flushed flushed = other.flush(PATIENCE);
            assertTrue(flushed.isComplete(), flushed::toString);
            assertEquals(expected, take(subscription, 5000));
            assertEquals(0, publisher.queued());
            assertEquals(0, subscription.queued());
        }
    }

    @Test
    void whateverHasBytesCanBeSent() {
        try (Node node = Loopback.start()) {
            Subscription subscription = node.subscribe("g");
            Publisher publisher = node.publisher("g");
            publisher.send(new byte[0]);
            publisher.send(bytes("xaay"), 1, 2);
            ByteBuffer heap = ByteBuffer.wrap(bytes("xby"), 1, 1);
            publisher.send(heap);
            assertEquals(1, heap.position());
            publisher.send(ByteBuffer.wrap(bytes("xxcy")).position(1).slice().position(1).limit(2));
            publisher.send(ByteBuffer.wrap(bytes("d")).asReadOnlyBuffer());
            ByteBuffer direct = ByteBuffer.allocateDirect(10).put(bytes("xey")).position(1).limit(2);
            assertTrue(publisher.trySend(direct));
            publisher.send(direct.slice().asReadOnlyBuffer());
            assertTrue(publisher.trySend(bytes("f")));
            assertTrue(publisher.trySend(bytes("xg"), 1, 1));
            publisher.send(new byte[2000]);
            List<Object> taken = take(subscription, 10);
            assertEquals(List.of("", "aa", "b", "c", "d", "e", "e", "f", "g"), taken.subList(0, 9));
            assertEquals(2000, ((String) taken.get(9)).length());
            assertThrows(IndexOutOfBoundsException.class, () -> publisher.send(new byte[2], 1, 2));
            assertThrows(NullPointerException.class, () -> publisher.send((byte[]) null));
            QsmException error =
                    assertThrows(QsmException.class, () -> publisher.send(new byte[100 << 20]));
            assertEquals(1301, error.code(), error.getMessage());
        }
    }

    @Test
    void aFullQueueIsSaidOrWaitedFor() {
        // A receiver that is gone before it says what it has lets the queue fill.
        try (Node node = Node.builder().set("cluster", Loopback.cluster()).set("interface", "lo")
                .set("embedded", "always").set("queue-bytes", 4096).start()) {
            Publisher publisher = node.publisher("g");
            byte[] message = new byte[1500];
            boolean full = false;
            for (int number = 0; number < 1_000_000 && !full; number++) {
                full = !publisher.trySend(message);
            }
            assertTrue(full);
            Subscription subscription = node.subscribe("h");
            Publisher other = node.publisher("h");
            for (int number = 0; number < 1000; number++) {
                other.send(message);
            }
            assertEquals(1000, take(subscription, 1000).size());
        }
    }

    @Test
    void aClosedNodeSaysSo() {
        Node node = Loopback.start();
        Events events = node.events();
        Publisher publisher = node.publisher("g");
        assertEquals(Optional.empty(), node.closed());
        node.shutdown(PATIENCE);
        assertEquals(Optional.of("the node was shut down"), node.closed());
        ClosedException error =
                assertThrows(ClosedException.class, () -> publisher.send(bytes("late")));
        assertEquals(1104, error.code());
        String last = "";
        while (!last.equals(Event.CLOSED)) {
            Event event = events.next(PATIENCE).orElseThrow();
            assertFalse(event.text().isEmpty());
            last = event.kind();
        }
        node.close();
        node.close();
        assertThrows(IllegalStateException.class, node::id);
        events.close();
        assertThrows(IllegalStateException.class, () -> events.next(Duration.ZERO));
        publisher.close();
        assertThrows(IllegalStateException.class, () -> publisher.send(bytes("later")));
    }

    @Test
    void whatOthersUseMayBeClosed() throws Exception {
        try (Node node = Loopback.start()) {
            for (int round = 0; round < 5; round++) {
                Publisher publisher = node.publisher("g");
                CountDownLatch used = new CountDownLatch(3);
                ExecutorService users = Executors.newFixedThreadPool(3);
                List<Future<?>> ends = new ArrayList<>();
                for (int user = 0; user < 3; user++) {
                    ends.add(users.submit(() -> useUntilClosed(publisher, used)));
                }
                assertTrue(used.await(PATIENCE.toSeconds(), TimeUnit.SECONDS));
                publisher.close();
                users.shutdown();
                for (Future<?> end : ends) {
                    assertEquals(null, end.get(PATIENCE.toSeconds(), TimeUnit.SECONDS));
                }
            }
        }
    }

    private static void useUntilClosed(Publisher publisher, CountDownLatch used) {
        assertThrows(IllegalStateException.class, () -> {
            while (true) {
                publisher.trySend(new byte[10]);
                used.countDown();
            }
        });
    }

    @Test
    void wrongSettingsAreNamed() {
        assertSetting("colour", "red", "there is no setting \"colour\"");
        assertSetting("ttl", 256, "\"256\" is no value of ttl");
        assertSetting("retention", "much", "give bytes, such as 64M");
        assertSetting("spin", "grün\0\uD83D\uDE00", "\"grün\\0\uD83D\uDE00\" is no value of spin");
        assertTrue(Node.settings().get("cluster").contains("default"));
    }

    private static void assertSetting(String name, Object value, String said) {
        SettingException error =
                assertThrows(SettingException.class, () -> Node.builder().set(name, value).start());
        assertEquals(1703, error.code());
        assertTrue(error.getMessage().contains(said), error.getMessage());
    }

    @Test
    void flagsAreWords() {
        try (Node node = Node.builder().set("cluster", Loopback.cluster()).set("interface", "lo")
                .set("embedded", "always").set("admin", false).start()) {
            node.awaitAdmitted(PATIENCE);
        }
    }

    @Test
    void errorsHaveTheirClassesAndCodes() {
        try (Node node = Loopback.start()) {
            Publisher publisher = node.publisher("g");
            TimedOutException error = assertThrows(
                    TimedOutException.class, () -> publisher.awaitMembers(1, Duration.ofMillis(50)));
            assertTrue(error.getMessage().contains("has 0 receivers"), error.getMessage());
            QsmException nothing = assertThrows(QsmException.class, () -> node.subscribe(""));
            assertTrue(nothing.code() >= 1200 && nothing.code() < 1300, nothing.getMessage());
            assertThrows(NullPointerException.class, () -> node.subscribe("a", null));
            assertEquals(1701, assertThrows(QsmException.class, () -> node.publisher(null)).code());
        }
        StartException error =
                assertThrows(StartException.class, () -> Node.attach(Path.of("/nowhere")));
        assertEquals(1602, error.code());
    }

    @Test
    void messagesWaitForOthersAsLongAsTheirPublisherSays() {
        String cluster = Loopback.cluster();
        try (Node node = Loopback.start(cluster);
                Node other = Node.builder().set("cluster", cluster).set("interface", "lo").start()) {
            Subscription subscription = other.subscribe("g");
            Duration delay = Duration.ofMillis(200);
            Publisher patient = node.publisher("g", Batching.within(delay));
            patient.awaitMembers(1, PATIENCE);
            long sent = System.nanoTime();
            patient.send(bytes("waits"));
            assertEquals(List.of("waits"), take(subscription, 1));
            assertTrue(System.nanoTime() - sent >= delay.toNanos());
            // Longer than anything takes here, but for a length.
            Batching full = Batching.within(Duration.ofHours(1)).withBytes(1);
            node.publisher("g", full).send(bytes("does not"));
            assertEquals(List.of("does not"), take(subscription, 1));
        }
        assertThrows(
                IllegalArgumentException.class, () -> Batching.within(Duration.ofMillis(-1)));
    }

    @Test
    void whatIsForgottenIsFreed() throws Exception {
        String cluster = Loopback.cluster();
        try (Node node = Loopback.start(cluster)) {
            Publisher publisher = node.publisher("g");
            forgetANode(cluster, publisher);
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            while (publisher.members() > 0 && System.nanoTime() < deadline) {
                System.gc();
                Thread.sleep(20);
            }
            assertEquals(0, publisher.members());
        }
    }

    private static void forgetANode(String cluster, Publisher publisher) {
        Node forgotten = Node.builder().set("cluster", cluster).set("interface", "lo").start();
        forgotten.subscribe("g");
        publisher.awaitMembers(1, PATIENCE);
    }

    @Test
    @EnabledIfEnvironmentVariable(named = "QSM_ENGINE", matches = ".+")
    void anAttachedNodeIsLikeAnyOther() {
        try (Node node = Node.attach(Path.of(System.getenv("QSM_ENGINE")))) {
            Subscription subscription = node.subscribe("g");
            Subscription unordered = node.subscribe(QueueLimits.DEFAULT, Delivery.ARRIVAL, "g");
            Loopback.fill(node, node.publisher("g"), 2000);
            assertEquals("2000", take(subscription, 2000).get(1999));
            assertEquals(2000, take(unordered, 2000).size());
            QueueLimits limits = QueueLimits.DEFAULT.withBytes(4096).withOverflow(Overflow.HOLD);
            Subscription held = node.subscribe(limits, "h");
            Publisher publisher = node.publisher("h");
            int sent = 0;
            while (publisher.trySend(new byte[1000])) {
                sent++;
            }
            take(held, sent);
            assertEquals(0, held.dropped());
            Batching batching = Batching.within(Duration.ofMillis(1));
            QsmException refused =
                    assertThrows(QsmException.class, () -> node.publisher("g", batching));
            assertEquals(1205, refused.code());
        }
    }
}
