package io.quicksilver.qsm;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;

/** Waiting for descriptors, each of which is told once: epoll of Linux. */
final class Epoll {
    private static final int CLOSE_ON_EXEC = 0x80000;
    private static final int ADD = 1;
    private static final int CHANGE = 3;
    private static final int READABLE_ONCE = 1 | 1 << 30;
    /** Number of the error of a system that refuses. */
    private static final int SYSTEM = 1010;

    /** Place of the number in an event, and its length: packed on this architecture alone. */
    private static final int NUMBER = System.getProperty("os.arch").equals("amd64") ? 4 : 8;
    private static final int EVENT = NUMBER + Long.BYTES;

    private Epoll() {}

    private static int call(String name, MemoryLayout[] kinds, Object... arguments) {
        try {
            var function = Foreign.find(name, FunctionDescriptor.of(JAVA_INT, kinds));
            return (Integer) function.invokeWithArguments(arguments);
        } catch (Throwable fault) {
            throw Foreign.unchecked(fault);
        }
    }

    private static MemoryLayout[] kinds(MemoryLayout... kinds) {
        return kinds;
    }

    static int create() {
        int made = call("epoll_create1", kinds(JAVA_INT), CLOSE_ON_EXEC);
        if (made < 0) {
            throw QsmException.of(SYSTEM, "no descriptor; raise `ulimit -n`");
        }
        return made;
    }

    /** Waits for a descriptor from now on, until it is readable once. */
    static void watch(int epoll, int descriptor, long number) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment event = arena.allocate(EVENT, Long.BYTES);
            event.set(JAVA_INT, 0, READABLE_ONCE);
            event.set(JAVA_LONG_UNALIGNED, NUMBER, number);
            if (control(epoll, CHANGE, descriptor, event) < 0 && control(epoll, ADD, descriptor, event) < 0) {
                throw QsmException.of(SYSTEM, "the descriptor cannot be waited for; close what is not used");
            }
        }
    }

    private static int control(int epoll, int how, int descriptor, MemorySegment event) {
        var kinds = kinds(JAVA_INT, JAVA_INT, JAVA_INT, JAVA_LONG);
        return call("epoll_ctl", kinds, epoll, how, descriptor, event.address());
    }

    /** Writes numbers of what is readable to the array; how many. */
    static int await(int epoll, long[] numbers, long milliseconds) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment events = arena.allocate((long) EVENT * numbers.length, Long.BYTES);
            int limit = (int) Math.min(milliseconds, Integer.MAX_VALUE);
            var kinds = kinds(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_INT);
            // Below 0 where a signal has ended it.
            int found = Math.max(0, call("epoll_wait", kinds, epoll, events.address(), numbers.length, limit));
            for (int index = 0; index < found; index++) {
                numbers[index] = events.get(JAVA_LONG_UNALIGNED, (long) EVENT * index + NUMBER);
            }
            return found;
        }
    }

    static void close(int epoll) {
        call("close", kinds(JAVA_INT), epoll);
    }
}
