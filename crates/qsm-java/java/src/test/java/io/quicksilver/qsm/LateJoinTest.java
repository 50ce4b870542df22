package io.quicksilver.qsm;

import static io.quicksilver.qsm.Loopback.PATIENCE;
import static io.quicksilver.qsm.Loopback.bytes;
import static io.quicksilver.qsm.Loopback.take;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A keeper at one node, and subscribers that come late at another. */
class LateJoinTest {
    private final String cluster = Loopback.cluster();
    private final Node node = Loopback.start(cluster);
    private final Node late = Node.builder().set("cluster", cluster).set("interface", "lo")
            .set("embedded", "never").start();
    private final Publisher publisher = node.publisher("g");

    @AfterEach
    void end() {
        late.close();
        node.close();
    }

    /** Sends texts of these numbers, until so many messages are kept. */
    private void send(Keeper keeper, int first, int last, int kept) {
        for (int number = first; number <= last; number++) {
            publisher.send(bytes(Integer.toString(number)));
        }
        while (keeper.kept().messages() < kept) {
            Thread.onSpinWait();
        }
    }

    /** Texts and notices up to the end of the past. */
    private static List<Object> past(Subscription subscription) {
        List<Object> taken = new ArrayList<>();
        while (taken.isEmpty() || !(taken.get(taken.size() - 1) instanceof Notice.Joined)) {
            taken.addAll(take(subscription, 1));
        }
        return taken;
    }

    private static long read(Optional<Position> position) {
        String[] words = position.orElseThrow().toString().trim().split("[ \n]");
        assertEquals("g", words[words.length - 1]);
        return Long.parseLong(words[words.length - 2]);
    }

    @Test
    void theLastMessagesComeFirstAndThenThoseThatAreLive() {
        try (Keeper keeper = node.keep("g")) {
            send(keeper, 1, 30, 30);
            Subscription subscription = late.subscribe(Start.last(3), "g");
            List<Object> taken = past(subscription);
            assertEquals(List.of("28", "29", "30"), taken.subList(0, 3));
            Notice.Joined joined = assertInstanceOf(Notice.Joined.class, taken.get(3));
            assertEquals(new Notice.Joined("g", 3, 0, 1, joined.text()), joined);
            assertEquals(0, joined.missing());
            publisher.awaitMembers(1, PATIENCE);
            publisher.send(bytes("live"));
            assertEquals(List.of("live"), take(subscription, 1));
            Keeper.Kept kept = keeper.kept();
            assertEquals(1, kept.senders());
            assertTrue(kept.sentMessages() >= 3 && kept.bytes() > 30 * 96, kept.toString());
        }
    }

    @Test
    void whatIsNotKeptIsToldInItsPlace() {
        Subscription before = node.subscribe("g");
        publisher.send(bytes("1"));
        publisher.send(bytes("2"));
        assertEquals(List.of("1", "2"), take(before, 2));
        Bounds bounds = Bounds.DEFAULT.withMessages(10).withBytes(1 << 20).withAge(PATIENCE)
                .withBytesPerSecond(1 << 20);
        try (Keeper keeper = node.keep(bounds, "g")) {
            send(keeper, 3, 4, 2);
            Subscription subscription = late.subscribe(Start.last(3).withHeldBytes(1 << 20), "g");
            List<Object> taken = past(subscription);
            Notice.NotKept missing = assertInstanceOf(Notice.NotKept.class, taken.get(0));
            assertEquals(List.of("g", 2L, 2L), List.of(missing.group(), missing.first(), missing.last()));
            assertEquals(Cause.GONE, missing.cause());
            assertEquals(1, missing.missing());
            assertEquals(List.of("3", "4"), taken.subList(1, 3));
            Subscription again = late.subscribe(Start.last(3), "g");
            assertThrows(MissingException.class, () -> again.poll(message -> {}, 10, PATIENCE));
        }
    }

    @Test
    void aPositionIsBehindWhatWasHandedOverAndGoesOnThere(@TempDir Path folder) throws Exception {
        Path file = folder.resolve("g.position");
        assertEquals(Optional.empty(), Position.load(file));
        try (Keeper keeper = node.keep("g")) {
            send(keeper, 1, 10, 10);
            Subscription subscription = late.subscribe(Start.last(10), "g");
            List<Object> taken = new ArrayList<>(take(subscription, 3));
            // A handler that throws leaves the rest in the buffer.
            IllegalStateException fault = new IllegalStateException("4");
            while (taken.size() == 3) {
                try {
                    subscription.poll(message -> {
                        taken.add(message.number());
                        throw fault;
                    }, 10, PATIENCE);
                } catch (IllegalStateException thrown) {
                    assertEquals(fault, thrown);
                }
            }
            assertEquals(List.of("1", "2", "3", 4L), taken);
            Position position = subscription.position().orElseThrow();
            assertEquals(4, read(Optional.of(position)));
            position.save(file);
            position.save(file);
            assertEquals(Optional.of(position), Position.load(file));
            assertFalse(Files.exists(folder.resolve("g.position.new")));
            Subscription again = late.subscribe(Start.resume(position), "g");
            List<Object> rest = past(again);
            assertEquals(List.of("5", "6", "7", "8", "9", "10"), rest.subList(0, 6));
            assertEquals(10, read(again.position()));
        }
        assertEquals(Optional.empty(), late.subscribe("g").position());
    }

    @Test
    void aStreamBeginsWithThePast() throws Exception {
        try (Keeper keeper = node.keep("g")) {
            send(keeper, 1, 10, 10);
            Subscription subscription = late.subscribe(Start.last(4), "g");
            List<Object> taken = new ArrayList<>();
            List<Long> read = new ArrayList<>();
            CountDownLatch joined = new CountDownLatch(1);
            subscription.stream().subscribe(new Flow.Subscriber<>() {
                @Override
                public void onSubscribe(Flow.Subscription demand) {
                    demand.request(Long.MAX_VALUE);
                }

                @Override
                public void onNext(Received item) {
                    if (item instanceof ReceivedMessage message) {
                        taken.add(new String(message.data()));
                        read.add(read(subscription.position()));
                    } else {
                        taken.add(item);
                        joined.countDown();
                    }
                }

                @Override
                public void onError(Throwable error) {
                    taken.add(error);
                    joined.countDown();
                }

                @Override
                public void onComplete() {}
            });
            assertTrue(joined.await(PATIENCE.toSeconds(), TimeUnit.SECONDS));
            assertEquals(List.of("7", "8", "9", "10"), taken.subList(0, 4));
            assertInstanceOf(Notice.Joined.class, taken.get(4));
            assertEquals(List.of(7L, 8L, 9L, 10L), read);
        }
    }

    @Test
    void whatCannotBeIsRefused() {
        QsmException refused = assertThrows(
                QsmException.class, () -> node.subscribe(Start.last(1), "g/*"));
        assertEquals(1206, refused.code());
        assertEquals(1206, assertThrows(QsmException.class, () -> node.keep("g/*")).code());
        SettingException wrong = assertThrows(SettingException.class, () -> new Position("yesterday"));
        assertTrue(wrong.getMessage().startsWith("no position: it does not begin with"), wrong.getMessage());
        assertThrows(IllegalArgumentException.class, () -> Start.last(-1));
        assertThrows(IllegalArgumentException.class, () -> Start.last(1).withHeldBytes(-1));
        assertThrows(
                IllegalArgumentException.class, () -> Bounds.DEFAULT.withAge(Duration.ofSeconds(-1)));
        Keeper keeper = node.keep("g");
        keeper.close();
        assertThrows(IllegalStateException.class, keeper::kept);
    }
}
