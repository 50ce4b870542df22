package io.quicksilver.qsm;

/** The node has ended. */
public final class ClosedException extends QsmException {
    private static final long serialVersionUID = 1;

    /** Number of a node that this process has shut down. */
    private static final int SHUT_DOWN = 1104;

    ClosedException(int code, String text) {
        super(code, text);
    }

    /**
     * Tells whether this process has shut the node down: then the end was to be expected.
     *
     * @return whether it has
     */
    public boolean isShutdown() {
        return code() == SHUT_DOWN;
    }
}
