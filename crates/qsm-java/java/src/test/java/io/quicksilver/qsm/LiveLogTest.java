package io.quicksilver.qsm;

import static io.quicksilver.qsm.Loopback.bytes;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Live logs: the newest entries that several programs write. */
class LiveLogTest {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final String cluster = Loopback.cluster();

    private static List<String> texts(List<? extends LogEvent> events) {
        return events.stream().map(event -> event instanceof LogEvent.Entry entry
                ? entry.text() : event.toString()).toList();
    }

    @Test
    void logsOfSeveralNodesAreAlike() {
        Instant begun = Instant.now();
        try (Node node = Loopback.start(cluster);
                Node other = Node.builder().set("cluster", cluster).set("interface", "lo")
                        .set("embedded", "never").start();
                LiveLog desk = node.liveLog("events").awaitLive(PATIENCE)) {
            desk.append("opened");
            try (LiveLog screen = other.liveLog("events").awaitLive(PATIENCE)) {
                screen.append(bytes("closed"));
                List<LogEvent> seen = new ArrayList<>();
                while (seen.size() < 2) {
                    List<LogEvent> more = desk.poll(10, PATIENCE);
                    assertFalse(more.isEmpty(), "no more than " + seen);
                    seen.addAll(more);
                }
                List<String> expected = List.of("opened", "closed");
                assertEquals(expected, texts(seen));
                assertEquals(expected, texts(desk.snapshot()));
                assertEquals(expected, texts(screen.snapshot()));
                assertEquals(2, screen.size());
                LogEvent.Entry first = desk.snapshot().get(0);
                assertArrayEquals(bytes("opened"), first.content());
                assertTrue(first.time().isAfter(begun.minusSeconds(1)), first.toString());
                assertTrue(desk.stats().contains("\"published\":1,"), desk.stats());
            }
        }
    }

    @Test
    void whatGoesUnreadIsCountedAndWhatIsTooLongIsRefused() {
        try (Node node = Loopback.start(cluster);
                LiveLog log = node.liveLog(new LogBounds(2, 100), "events")) {
            assertThrows(NotLiveException.class, () -> log.append("early"));
            log.awaitLive(PATIENCE);
            for (String text : List.of("1", "2", "3")) {
                log.append(text);
            }
            assertEquals(List.of("Missed[entries=1]", "2", "3"), texts(log.poll(10, PATIENCE)));
            assertEquals(List.of(), log.poll(10, Duration.ofMillis(10)));
            assertThrows(LimitException.class, () -> log.append(new byte[101]));
            assertThrows(NullPointerException.class, () -> log.append((byte[]) null));
            assertThrows(IllegalArgumentException.class, () -> new LogBounds(0, -1));
            node.shutdown(PATIENCE);
            assertThrows(ClosedException.class, () -> log.poll(10, PATIENCE));
        }
    }
}
