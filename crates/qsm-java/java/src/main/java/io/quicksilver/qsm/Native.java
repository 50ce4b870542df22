package io.quicksilver.qsm;

import java.nio.ByteBuffer;

/**
 * Calls of the native part, by JNI; Java 22 and later have another class of this name, by foreign
 * functions. Numbers named after an object are handles of {@link Handle}; times are
 * nanoseconds, negative ones for ever. Errors come as {@link QsmException}.
 */
final class Native {
    static {
        NativeLibrary.load();
    }

    private Native() {}

    /** How calls are made. */
    static String way() {
        return "JNI";
    }

    static native String version();

    static native String[] settings();

    static native long start(String[] given);

    static native long attach(String path);

    static native String nodeId(long node);

    static native String closed(long node);

    static native void awaitAdmitted(long node, long nanoseconds);

    static native String[] flush(long node, long nanoseconds);

    static native String[] shutdown(long node, long nanoseconds);

    static native void freeNode(long node);

    static native long events(long node);

    static native String[] nextEvent(long events, long nanoseconds);

    static native void freeEvents(long events);

    static native long publisher(long node, String group, long nanoseconds, long bytes);

    static native boolean sendArray(
            long publisher, byte[] message, int start, int length, long nanoseconds);

    static native boolean sendDirect(
            long publisher, ByteBuffer message, int start, int length, long nanoseconds);

    static native void awaitMembers(long publisher, int count, long nanoseconds);

    static native int members(long publisher);

    static native long queuedToSend(long publisher);

    static native void freePublisher(long publisher);

    static native long subscribe(
            long node,
            String[] groups,
            long queueBytes,
            long queueMessages,
            int overflow,
            long within);

    static native long subscribePast(
            long node,
            String[] groups,
            long queueBytes,
            long queueMessages,
            int overflow,
            long last,
            String resume,
            long heldBytes);

    static native void checkPosition(String text);

    static native String position(long subscription, int unread);

    static native int take(long subscription, ByteBuffer buffer, int most, long nanoseconds);

    static native long dropped(long subscription);

    static native long queuedToRead(long subscription);

    static native void freeSubscription(long subscription);

    static native long keep(
            long node, String[] groups, long messages, long bytes, long age, long bytesPerSecond);

    static native void kept(long keeper, long[] numbers);

    static native void freeKeeper(long keeper);

    static native long openMap(long node, String group, long bytes, long removed);

    static native void awaitLive(long map, long nanoseconds);

    static native void put(long map, String key, byte[] value);

    static native void remove(long map, String key);

    static native byte[] get(long map, String key);

    static native Object[] entries(long map);

    static native long mapSize(long map);

    static native Object[] changes(long map, int most, long nanoseconds);

    static native String mapStats(long map);

    static native void freeMap(long map);

    static native long openLog(long node, String group, long entries, long bytes);

    static native void awaitLogLive(long log, long nanoseconds);

    static native void append(long log, byte[] content);

    static native Object[] logEntries(long log);

    static native long logSize(long log);

    static native Object[] logEvents(long log, int most, long nanoseconds);

    static native String logStats(long log);

    static native void freeLog(long log);

    static native long waiter();

    static native void watch(long waiter, long subscription, long number);

    static native int await(long waiter, long[] numbers, long nanoseconds);

    static native void freeWaiter(long waiter);
}
