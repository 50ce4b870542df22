package io.quicksilver.qsm;

/** The thread was interrupted while it waited; it still is. Nothing was taken or sent. */
public final class InterruptedWaitException extends RuntimeException {
    private static final long serialVersionUID = 1;

    InterruptedWaitException() {
        super("the thread was interrupted while it waited");
    }
}
