package io.quicksilver.qsm;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * Calls of the native part by foreign functions, for Java 22 and later: the same as those by JNI, over the
 * interface for C, which the library has, too. Pointers are numbers here, so that no object is made for
 * them; numbers named after an object are handles of {@link Handle}; times are nanoseconds, negative ones
 * for ever.
 */
final class Native {
    static {
        NativeLibrary.load();
    }

    /** Numbers of errors that the interface for C has. */
    private static final int FULL = 1302;
    private static final int SYSTEM = 1010;
    private static final int NULL = 1701;
    private static final int TEXT = 1702;
    private static final int SETTING = 1703;

    private static final MethodHandle SEND = code("qsm_send_within", 4);
    private static final MethodHandle FILL = code("qsm_fill", 7);

    private Native() {}

    // How a function is called ----------------------------------------------------

    /** A function that returns an error's number, of so many pointers and long numbers. */
    private static MethodHandle code(String name, int arguments) {
        return function(name, JAVA_SHORT, arguments);
    }

    private static MethodHandle function(String name, MemoryLayout result, int arguments) {
        MemoryLayout[] kinds = new MemoryLayout[arguments];
        java.util.Arrays.fill(kinds, JAVA_LONG);
        return Foreign.find(name, FunctionDescriptor.of(result, kinds));
    }

    /** Calls a function that is not called often; throws the error whose number it returns. */
    private static void call(String name, Object... arguments) {
        check(((Number) invoke(code(name, arguments.length), arguments)).intValue() & 0xffff);
    }

    private static long number(String name, Object... arguments) {
        return (Long) invoke(function(name, JAVA_LONG, arguments.length), arguments);
    }

    private static void free(String name, long handle) {
        invoke(Foreign.find(name, FunctionDescriptor.ofVoid(JAVA_LONG)), handle);
    }

    private static Object invoke(MethodHandle function, Object... arguments) {
        try {
            return function.invokeWithArguments(arguments);
        } catch (Throwable fault) {
            throw Foreign.unchecked(fault);
        }
    }

    private static void check(int code) {
        if (code != 0) {
            throw QsmException.of(code, Foreign.text(number("qsm_error")));
        }
    }

    /** Calls a function that makes a handle. */
    private interface Maker {
        void make(Arena arena, long place);
    }

    private static long made(Maker maker) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment place = arena.allocate(JAVA_LONG);
            maker.make(arena, place.address());
            return place.get(JAVA_LONG, 0);
        }
    }

    /** Calls a function that writes a text as far as there is room, and returns its length. */
    private interface Writer {
        long write(long place, long size);
    }

    private static String written(Writer writer) {
        long size = 256;
        while (true) {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment place = arena.allocate(size);
                long length = writer.write(place.address(), size);
                if (length < size) {
                    return length == 0 ? null : place.getString(0);
                }
                size = length + 1;
            }
        }
    }

    private static long text(Arena arena, String text) {
        if (text == null) {
            throw QsmException.of(NULL, "an argument is null; give an object");
        }
        if (text.indexOf('\0') >= 0) {
            throw QsmException.of(TEXT, "a text has a nul in it; give it without");
        }
        return arena.allocateFrom(text).address();
    }

    private static long texts(Arena arena, String[] texts) {
        MemorySegment pointers = arena.allocate(JAVA_LONG, Math.max(1, texts.length));
        for (int index = 0; index < texts.length; index++) {
            pointers.setAtIndex(JAVA_LONG, index, text(arena, texts[index]));
        }
        return pointers.address();
    }

    /** A structure of 8-byte fields. */
    private static long structure(Arena arena, long... fields) {
        return arena.allocateFrom(JAVA_LONG, fields).address();
    }

    private static long milliseconds(long nanoseconds) {
        return ceiling(nanoseconds, 1_000_000);
    }

    private static long ceiling(long nanoseconds, long unit) {
        return nanoseconds < 0 ? -1 : nanoseconds / unit + (nanoseconds % unit == 0 ? 0 : 1);
    }

    // The library -------------------------------------------------------------------

    /** How calls are made. */
    static String way() {
        return "foreign functions";
    }

    static String version() {
        return Foreign.text(number("qsm_version"));
    }

    static String[] settings() {
        List<String> pairs = new ArrayList<>();
        for (long next = 0; ; next++) {
            long number = next;
            String name = written((place, size) -> number("qsm_setting_name", number, place, size));
            if (name == null) {
                return pairs.toArray(String[]::new);
            }
            pairs.add(name);
            pairs.add(written((place, size) -> number("qsm_setting_meaning", number, place, size)));
        }
    }

    // Nodes -------------------------------------------------------------------------

    static long start(String[] given) {
        long settings = made((arena, place) -> call("qsm_settings_new", place));
        try (Arena arena = Arena.ofConfined()) {
            for (int index = 0; index + 1 < given.length; index += 2) {
                set(arena, settings, given[index], given[index + 1]);
            }
            return made((unused, place) -> call("qsm_start", settings, place));
        } finally {
            free("qsm_settings_free", settings);
        }
    }

    private static void set(Arena arena, long settings, String name, String value) {
        if (value != null && value.indexOf('\0') >= 0) {
            String shown = value.replace("\0", "\\0");
            throw QsmException.of(
                    SETTING, "\"" + shown + "\" is no value of " + name + "; give it without a nul");
        }
        call("qsm_set", settings, text(arena, name), text(arena, value));
    }

    static long attach(String path) {
        return made((arena, place) -> call("qsm_attach", text(arena, path), place));
    }

    static String nodeId(long node) {
        return Long.toHexString(number("qsm_node_id", node));
    }

    static String closed(long node) {
        return written((place, size) -> number("qsm_closed", node, place, size));
    }

    static void awaitAdmitted(long node, long nanoseconds) {
        call("qsm_wait_admitted", node, milliseconds(nanoseconds));
    }

    static String[] flush(long node, long nanoseconds) {
        return flushed("qsm_flush", node, nanoseconds);
    }

    static String[] shutdown(long node, long nanoseconds) {
        return flushed("qsm_shutdown", node, nanoseconds);
    }

    private static String[] flushed(String how, long node, long nanoseconds) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment found = arena.allocate(JAVA_LONG, 3);
            call(how, node, milliseconds(nanoseconds), found.address());
            List<String> told = new ArrayList<>();
            told.add(Long.toString(found.getAtIndex(JAVA_LONG, 1)));
            told.add(Long.toString(found.getAtIndex(JAVA_LONG, 0)));
            Foreign.text(number("qsm_lacking")).lines().forEach(told::add);
            return told.toArray(String[]::new);
        }
    }

    static void freeNode(long node) {
        free("qsm_node_free", node);
    }

    static long events(long node) {
        return made((arena, place) -> call("qsm_events_new", node, place));
    }

    static String[] nextEvent(long events, long nanoseconds) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment event = arena.allocate(JAVA_LONG, 2);
            call("qsm_next_event", events, milliseconds(nanoseconds), event.address());
            if (event.get(JAVA_INT, 0) == 0) {
                return null;
            }
            String name = written((place, size) -> number("qsm_event_name", events, place, size));
            return new String[] {name, Foreign.text(event.getAtIndex(JAVA_LONG, 1))};
        }
    }

    static void freeEvents(long events) {
        free("qsm_events_free", events);
    }

    // Publishers --------------------------------------------------------------------

    static long publisher(long node, String group, long nanoseconds, long bytes) {
        return made((arena, place) -> {
            long name = text(arena, group);
            if (nanoseconds < 0) {
                call("qsm_publisher_new", node, name, place);
            } else {
                long batching = structure(arena, ceiling(nanoseconds, 1000), bytes);
                call("qsm_publisher_batching", node, name, batching, place);
            }
        });
    }

    static boolean sendArray(long publisher, byte[] message, int start, int length, long nanoseconds) {
        Objects.checkFromIndexSize(start, length, message.length);
        Scratch scratch = Scratch.get();
        if (length <= Scratch.MESSAGE) {
            scratch.message.put(0, message, start, length);
            return send(publisher, scratch.messageAt, length, nanoseconds);
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment copy = arena.allocate(length);
            copy.asByteBuffer().put(message, start, length);
            return send(publisher, copy.address(), length, nanoseconds);
        }
    }

    static boolean sendDirect(
            long publisher, ByteBuffer message, int start, int length, long nanoseconds) {
        Objects.checkFromIndexSize(start, length, message.capacity());
        Scratch scratch = Scratch.get();
        if (length <= Scratch.MESSAGE && start + length <= message.limit()) {
            scratch.message.put(0, message, start, length);
            return send(publisher, scratch.messageAt, length, nanoseconds);
        }
        MemorySegment all = MemorySegment.ofBuffer(message.duplicate().clear());
        try {
            return send(publisher, all.address() + start, length, nanoseconds);
        } finally {
            java.lang.ref.Reference.reachabilityFence(message);
        }
    }

    private static boolean send(long publisher, long message, long length, long nanoseconds) {
        int code;
        try {
            code = (short) SEND.invokeExact(publisher, message, length, milliseconds(nanoseconds));
        } catch (Throwable fault) {
            throw Foreign.unchecked(fault);
        }
        if (code == FULL) {
            return false;
        }
        check(code & 0xffff);
        return true;
    }

    static void awaitMembers(long publisher, int count, long nanoseconds) {
        var kinds = FunctionDescriptor.of(JAVA_SHORT, JAVA_LONG, JAVA_INT, JAVA_LONG);
        MethodHandle wait = Foreign.find("qsm_wait_for_members", kinds);
        check((Short) invoke(wait, publisher, count, milliseconds(nanoseconds)) & 0xffff);
    }

    static int members(long publisher) {
        return (int) made((arena, place) -> call("qsm_members", publisher, place));
    }

    static long queuedToSend(long publisher) {
        return number("qsm_queued_to_send", publisher);
    }

    static void freePublisher(long publisher) {
        free("qsm_publisher_free", publisher);
    }

    // Subscriptions -----------------------------------------------------------------

    /** A queue's limits: policy and order share 8 bytes. */
    private static long queue(Arena arena, long bytes, long messages, int overflow, long within) {
        long delivery = within >= 0 ? 2 : within == -2 ? 1 : 0;
        long both = overflow | delivery << 32;
        return structure(arena, bytes, messages, both, Math.max(0, ceiling(within, 1000)));
    }

    static long subscribe(
            long node, String[] groups, long queueBytes, long queueMessages, int overflow, long within) {
        return made((arena, place) -> {
            long queue = queue(arena, queueBytes, queueMessages, overflow, within);
            long count = groups.length;
            call("qsm_subscribe", node, texts(arena, groups), count, queue, place);
        });
    }

    static long subscribePast(
            long node,
            String[] groups,
            long queueBytes,
            long queueMessages,
            int overflow,
            long last,
            String resume,
            long heldBytes) {
        return made((arena, place) -> {
            long queue = queue(arena, queueBytes, queueMessages, overflow, -1);
            long position = resume == null ? 0 : text(arena, resume);
            long past = structure(arena, last, position, heldBytes);
            long count = groups.length;
            call("qsm_subscribe_past", node, texts(arena, groups), count, past, queue, place);
        });
    }

    static void checkPosition(String text) {
        try (Arena arena = Arena.ofConfined()) {
            call("qsm_check_position", text(arena, text));
        }
    }

    static String position(long subscription, int unread) {
        long last = unread;
        return written(
                (place, size) -> number("qsm_position_before", subscription, last, place, size));
    }

    static int take(long subscription, ByteBuffer buffer, int most, long nanoseconds) {
        Scratch scratch = Scratch.get();
        long start = scratch.addressOf(buffer);
        int code;
        try {
            code = (short) FILL.invokeExact(
                    subscription,
                    start,
                    (long) buffer.capacity(),
                    (long) Math.max(0, most),
                    milliseconds(nanoseconds),
                    scratch.placesAt,
                    scratch.placesAt + Long.BYTES);
        } catch (Throwable fault) {
            throw Foreign.unchecked(fault);
        } finally {
            java.lang.ref.Reference.reachabilityFence(buffer);
        }
        check(code & 0xffff);
        int used = (int) scratch.places.getLong(0);
        return used > 0 ? used : (int) -scratch.places.getLong(Long.BYTES);
    }

    static long dropped(long subscription) {
        return number("qsm_dropped", subscription);
    }

    static long queuedToRead(long subscription) {
        return number("qsm_queued_to_read", subscription);
    }

    static void freeSubscription(long subscription) {
        free("qsm_subscription_free", subscription);
    }

    // Keepers -----------------------------------------------------------------------

    static long keep(
            long node, String[] groups, long messages, long bytes, long age, long bytesPerSecond) {
        return made((arena, place) -> {
            long bounds = structure(arena, messages, bytes, milliseconds(age), bytesPerSecond);
            long count = groups.length;
            call("qsm_keep", node, texts(arena, groups), count, bounds, place);
        });
    }

    static void kept(long keeper, long[] numbers) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment kept = arena.allocate(JAVA_LONG, numbers.length);
            call("qsm_kept", keeper, kept.address());
            MemorySegment.copy(kept, JAVA_LONG, 0, numbers, 0, numbers.length);
        }
    }

    static void freeKeeper(long keeper) {
        free("qsm_keeper_free", keeper);
    }

    // Live maps ---------------------------------------------------------------------

    /** Entries lent by a call: their place, their number, and what owns them; and the length of one. */
    private static final long LENT = 3 * Long.BYTES;
    private static final long ENTRY = 32;
    private static final long LINE = 48;
    private static final int SET = 1;
    private static final int REMOVED = 2;
    private static final int LOGGED = 1;

    static long openMap(long node, String group, long bytes, long removed) {
        return made((arena, place) -> {
            long bounds = structure(arena, bytes, removed);
            call("qsm_map_open", node, text(arena, group), bounds, place);
        });
    }

    static void awaitLive(long map, long nanoseconds) {
        call("qsm_map_wait_live", map, milliseconds(nanoseconds));
    }

    static void put(long map, String key, byte[] value) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment name = bytes(arena, key);
            MemorySegment content = arena.allocateFrom(JAVA_BYTE, value);
            long length = content.byteSize();
            call("qsm_map_put", map, name.address(), name.byteSize(), content.address(), length);
        }
    }

    static void remove(long map, String key) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment name = bytes(arena, key);
            call("qsm_map_remove", map, name.address(), name.byteSize());
        }
    }

    static byte[] get(long map, String key) {
        Object[] found = entries((arena, place) -> {
            MemorySegment name = bytes(arena, key);
            call("qsm_map_get", map, name.address(), name.byteSize(), place);
        });
        return found.length == 0 ? null : (byte[]) found[1];
    }

    static Object[] entries(long map) {
        return entries((arena, place) -> call("qsm_map_snapshot", map, place));
    }

    static long mapSize(long map) {
        return number("qsm_map_length", map);
    }

    static Object[] changes(long map, int most, long nanoseconds) {
        long limit = most;
        return entries((arena, place) ->
                call("qsm_map_poll", map, limit, milliseconds(nanoseconds), place));
    }

    static String mapStats(long map) {
        return written((place, size) -> number("qsm_map_stats", map, place, size));
    }

    static void freeMap(long map) {
        free("qsm_map_close", map);
    }

    private static MemorySegment bytes(Arena arena, String text) {
        if (text == null) {
            throw QsmException.of(NULL, "an argument is null; give an object");
        }
        return arena.allocateFrom(JAVA_BYTE, text.getBytes(StandardCharsets.UTF_8));
    }

    /** Copies of the entries that a call lends: keys and values in turn. */
    private static Object[] entries(Maker lender) {
        return lent(lender, ENTRY, Native::copyEntry, "qsm_entries_release");
    }

    /** Copies one of what was lent to a place of pairs. */
    private interface Copier {
        void copy(MemorySegment from, Object[] pairs, int index);
    }

    private static Object[] lent(Maker lender, long size, Copier copier, String release) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment place = arena.allocate(LENT, Long.BYTES);
            lender.make(arena, place.address());
            try {
                long count = place.getAtIndex(JAVA_LONG, 1);
                MemorySegment all = at(place.getAtIndex(JAVA_LONG, 0), count * size);
                Object[] pairs = new Object[Math.toIntExact(2 * count)];
                for (int index = 0; index < count; index++) {
                    copier.copy(all.asSlice(index * size, size), pairs, 2 * index);
                }
                return pairs;
            } finally {
                free(release, place.address());
            }
        }
    }

    /** An entry: kind and length of the key, key, value, length of the value. */
    private static void copyEntry(MemorySegment entry, Object[] pairs, int index) {
        int kind = entry.get(JAVA_INT, 0);
        if (kind == SET || kind == REMOVED) {
            MemorySegment key = at(entry.getAtIndex(JAVA_LONG, 1), entry.get(JAVA_INT, 4));
            pairs[index] = new String(key.toArray(JAVA_BYTE), StandardCharsets.UTF_8);
        }
        if (kind == SET) {
            MemorySegment value = at(entry.getAtIndex(JAVA_LONG, 2), entry.getAtIndex(JAVA_LONG, 3));
            pairs[index + 1] = value.toArray(JAVA_BYTE);
        }
    }

    private static MemorySegment at(long address, long size) {
        return MemorySegment.ofAddress(address).reinterpret(size);
    }

    // Live logs ---------------------------------------------------------------------

    static long openLog(long node, String group, long entries, long bytes) {
        return made((arena, place) -> {
            long bounds = structure(arena, entries, bytes);
            call("qsm_log_open", node, text(arena, group), bounds, place);
        });
    }

    static void awaitLogLive(long log, long nanoseconds) {
        call("qsm_log_wait_live", log, milliseconds(nanoseconds));
    }

    static void append(long log, byte[] content) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment copy = arena.allocateFrom(JAVA_BYTE, content);
            call("qsm_log_append", log, copy.address(), copy.byteSize());
        }
    }

    static Object[] logEntries(long log) {
        return lines((arena, place) -> call("qsm_log_snapshot", log, place));
    }

    static long logSize(long log) {
        return number("qsm_log_length", log);
    }

    static Object[] logEvents(long log, int most, long nanoseconds) {
        long limit = most;
        return lines((arena, place) ->
                call("qsm_log_poll", log, limit, milliseconds(nanoseconds), place));
    }

    static String logStats(long log) {
        return written((place, size) -> number("qsm_log_stats", log, place, size));
    }

    static void freeLog(long log) {
        free("qsm_log_close", log);
    }

    /** Copies of the lines that a call lends: numbers and contents in turn. */
    private static Object[] lines(Maker lender) {
        return lent(lender, LINE, Native::copyLine, "qsm_lines_release");
    }

    /** A line: kind, time, writer, entries missed, content, its length. */
    private static void copyLine(MemorySegment line, Object[] pairs, int index) {
        if (line.get(JAVA_INT, 0) == LOGGED) {
            pairs[index] = new long[] {line.getAtIndex(JAVA_LONG, 1), line.getAtIndex(JAVA_LONG, 2)};
            MemorySegment content = at(line.getAtIndex(JAVA_LONG, 4), line.getAtIndex(JAVA_LONG, 5));
            pairs[index + 1] = content.toArray(JAVA_BYTE);
        } else {
            pairs[index] = new long[] {line.getAtIndex(JAVA_LONG, 3)};
        }
    }

    // Waiting for many subscriptions: a descriptor of epoll is the handle --------------------

    static long waiter() {
        return Epoll.create();
    }

    static void watch(long waiter, long subscription, long number) {
        var kinds = FunctionDescriptor.of(JAVA_INT, JAVA_LONG);
        int descriptor = (Integer) invoke(Foreign.find("qsm_subscription_fd", kinds), subscription);
        if (descriptor < 0) {
            throw QsmException.of(SYSTEM, Foreign.text(number("qsm_error")));
        }
        Epoll.watch((int) waiter, descriptor, number);
    }

    static int await(long waiter, long[] numbers, long nanoseconds) {
        return Epoll.await((int) waiter, numbers, milliseconds(nanoseconds));
    }

    static void freeWaiter(long waiter) {
        Epoll.close((int) waiter);
    }
}
