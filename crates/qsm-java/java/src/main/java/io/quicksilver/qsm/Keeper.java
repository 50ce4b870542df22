package io.quicksilver.qsm;

/** A keeper of the last messages of some groups, until it is closed or garbage. Any thread may use it. */
public final class Keeper implements AutoCloseable {
    private final Handle handle;

    Keeper(long keeper) {
        handle = Handle.of(this, keeper, Native::freeKeeper);
    }

    /**
     * What a keeper has and has done, of all its groups together.
     *
     * @param messages messages kept now
     * @param bytes memory that they take, with 96 bytes for each
     * @param senders senders known now
     * @param sentMessages messages sent to subscribers, in all
     * @param refused questions not served, because too many others were, in all
     */
    public record Kept(long messages, long bytes, long senders, long sentMessages, long refused) {}

    /**
     * What it has.
     *
     * @return the numbers
     * @throws QsmException it keeps no more; the text says why
     */
    public Kept kept() {
        long[] numbers = new long[5];
        long keeper = handle.enter();
        try {
            Native.kept(keeper, numbers);
        } finally {
            handle.leave();
        }
        return new Kept(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]);
    }

    /** Leaves the groups, and forgets what was kept. It waits a tenth of a second at most. */
    @Override
    public void close() {
        handle.close();
    }
}
