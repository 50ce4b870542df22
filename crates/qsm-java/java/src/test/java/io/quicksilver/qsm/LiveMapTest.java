package io.quicksilver.qsm;

import static io.quicksilver.qsm.Loopback.bytes;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Live maps: what one program writes is in the maps of all. */
class LiveMapTest {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final String cluster = Loopback.cluster();

    /** Another member of a cluster. */
    private static Node member(String cluster) {
        return Node.builder().set("cluster", cluster).set("interface", "lo").set("embedded", "never")
                .start();
    }

    /** So many changes. */
    private static List<MapChange> follow(LiveMap map, int count) {
        List<MapChange> changes = new ArrayList<>();
        while (changes.size() < count) {
            List<MapChange> more = map.poll(count - changes.size(), PATIENCE);
            assertFalse(more.isEmpty(), "no more than " + changes);
            changes.addAll(more);
        }
        return changes;
    }

    private static MapChange set(String key, String value) {
        return new MapChange.Set(key, bytes(value));
    }

    @Test
    void mapsOfSeveralNodesAreAlike() {
        try (Node node = Loopback.start(cluster);
                Node other = member(cluster);
                LiveMap desk = node.liveMap("prices").awaitLive(PATIENCE)) {
            desk.put("eur", "1.08");
            desk.put("", new byte[0]);
            try (LiveMap screen = other.liveMap("prices").awaitLive(PATIENCE)) {
                assertEquals(List.of(set("eur", "1.08"), set("", "")), follow(desk, 2));
                byte[] binary = {0, -1};
                screen.put("gr\u00fcn\0", binary);
                screen.remove("eur");
                List<MapChange> expected =
                        List.of(new MapChange.Set("gr\u00fcn\0", binary), new MapChange.Removed("eur"));
                assertEquals(expected, follow(desk, 2));
                for (LiveMap map : List.of(desk, screen)) {
                    assertEquals(List.of("", "gr\u00fcn\0"), List.copyOf(map.snapshot().keySet()));
                    assertArrayEquals(binary, map.get("gr\u00fcn\0").orElseThrow());
                    assertEquals(Optional.of(""), map.text(""));
                    assertEquals(Optional.empty(), map.text("eur"));
                    assertEquals(2, map.size());
                }
            }
        }
    }

    @Test
    void whoPollsSeldomIsToldTheLastChangeOfEachKey() {
        try (Node node = Loopback.start(cluster);
                LiveMap map = node.liveMap("prices").awaitLive(PATIENCE)) {
            for (int number = 0; number < 1000; number++) {
                map.put("a", Integer.toString(number));
                map.put("b", Integer.toString(number));
            }
            map.remove("a");
            assertEquals(List.of(set("b", "999")), map.poll(1, Duration.ZERO));
            assertEquals(List.of(new MapChange.Removed("a")), map.poll(10, Duration.ZERO));
            assertEquals(List.of(), map.poll(10, Duration.ofMillis(10)));
            String stats = map.stats();
            assertTrue(stats.startsWith("{\"live\":1,\"state_bytes\":4,"), stats);
            assertTrue(stats.contains("\"published\":2001,"), stats);
        }
    }

    @Test
    void whoMissesRemovalsIsToldToBeginAgain() {
        try (Node node = Loopback.start(cluster);
                LiveMap map = node.liveMap(new MapBounds(0, 1), "prices").awaitLive(PATIENCE)) {
            for (String key : List.of("a", "b", "c")) {
                map.put(key, "1");
            }
            assertEquals(3, map.poll(10, Duration.ZERO).size());
            map.remove("a");
            map.remove("b");
            List<MapChange> expected = List.of(new MapChange.Restart(), set("c", "1"));
            assertEquals(expected, map.poll(10, Duration.ZERO));
        }
    }

    @Test
    void whatAMapDoesNotTakeIsNamed() {
        try (Node node = Loopback.start(cluster);
                LiveMap map = node.liveMap(new MapBounds(10, 2), "prices")) {
            NotLiveException early = assertThrows(NotLiveException.class, () -> map.put("a", "1"));
            assertEquals(1801, early.code());
            assertThrows(NotLiveException.class, () -> map.awaitLive(Duration.ZERO));
            map.awaitLive(PATIENCE);
            LimitException full = assertThrows(LimitException.class, () -> map.put("key", "12345678"));
            assertEquals(1804, full.code());
            assertTrue(full.getMessage().contains("its bound is 10"), full.getMessage());
            String key = "k".repeat(1025);
            assertEquals(1805, assertThrows(LimitException.class, () -> map.remove(key)).code());
            assertThrows(NullPointerException.class, () -> map.put("a", (byte[]) null));
            assertEquals(1701, assertThrows(QsmException.class, () -> map.put(null, "1")).code());
            assertThrows(IllegalArgumentException.class, () -> map.poll(0, PATIENCE));
            assertThrows(IllegalArgumentException.class, () -> new MapBounds(-1, 0));
            assertEquals(1206, assertThrows(QsmException.class, () -> node.liveMap("a/*")).code());
        }
    }

    @Test
    void aPollEndsWhenItsMapIsClosedOrItsNodeShutDown() throws Exception {
        try (Node node = Loopback.start(cluster)) {
            LiveMap map = node.liveMap("prices").awaitLive(PATIENCE);
            CompletableFuture<List<MapChange>> poll =
                    CompletableFuture.supplyAsync(() -> map.poll(1, PATIENCE));
            map.close();
            map.close();
            ExecutionException closed =
                    assertThrows(ExecutionException.class, () -> poll.get(30, TimeUnit.SECONDS));
            assertEquals(IllegalStateException.class, closed.getCause().getClass());
            assertThrows(IllegalStateException.class, () -> map.put("a", "1"));
            LiveMap again = node.liveMap("prices").awaitLive(PATIENCE);
            again.put("a", "1");
            node.shutdown(PATIENCE);
            assertEquals(List.of(set("a", "1")), again.poll(10, PATIENCE));
            assertThrows(ClosedException.class, () -> again.poll(10, PATIENCE));
            again.close();
        }
    }

    /** The test that runs this one has a map, which is to be as this one. */
    @Test
    void theMapOfRustIsThisOne() {
        String shared = System.getProperty("qsm.cluster");
        try (Node node = member(shared); LiveMap map = node.liveMap("shared").awaitLive(PATIENCE)) {
            assertEquals(Optional.of("\0 from Rust"), map.text("rust"));
            map.put("java", "from Java");
            List<MapChange> changes = new ArrayList<>();
            while (!changes.contains(set("both", "seen"))) {
                List<MapChange> more = map.poll(10, PATIENCE);
                assertFalse(more.isEmpty(), "no more than " + changes);
                changes.addAll(more);
            }
            node.flush(PATIENCE);
        }
    }
}
