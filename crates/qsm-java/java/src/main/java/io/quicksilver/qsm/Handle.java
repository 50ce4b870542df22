package io.quicksilver.qsm;

import java.lang.ref.Cleaner;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongConsumer;

/**
 * A native object, which is freed once: after it was closed, and no call uses it any more. Any number
 * of threads may use and close it.
 */
final class Handle implements Runnable {
    private static final Cleaner CLEANER = Cleaner.create();
    /** Set in {@link #uses} of one that is closed. */
    private static final int CLOSED = 1 << 31;

    /** Calls that use it now. */
    private final AtomicInteger uses = new AtomicInteger();
    private final long address;
    private final LongConsumer free;
    private final String name;
    private Cleaner.Cleanable cleanable;

    private Handle(long address, LongConsumer free, String name) {
        this.address = address;
        this.free = free;
        this.name = name;
    }

    /** Of a native object that is owned by a Java object: closed at the latest when that is garbage. */
    static Handle of(Object owner, long address, LongConsumer free) {
        Handle handle = new Handle(address, free, owner.getClass().getSimpleName());
        handle.cleanable = CLEANER.register(owner, handle);
        return handle;
    }

    /** Begins to use it: {@link #leave} has to follow. */
    long enter() {
        if (uses.getAndIncrement() < 0) {
            leave();
            throw new IllegalStateException("this " + name + " is closed");
        }
        return address;
    }

    /** Ends using it. */
    void leave() {
        if (uses.decrementAndGet() == CLOSED) {
            free();
        }
    }

    boolean isClosed() {
        return uses.get() < 0;
    }

    /** Closes it; again, nothing. */
    void close() {
        cleanable.clean();
    }

    /** For the cleaner, which calls it once. */
    @Override
    public void run() {
        if (uses.getAndAdd(CLOSED) == 0) {
            free();
        }
    }

    /** A late {@link #enter} that fails may come here, too. */
    private void free() {
        if (uses.compareAndSet(CLOSED, CLOSED + (1 << 30))) {
            free.accept(address);
        }
    }
}
