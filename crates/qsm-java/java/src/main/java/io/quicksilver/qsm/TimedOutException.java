package io.quicksilver.qsm;

/** It took too long, or too few receivers came in time. */
public final class TimedOutException extends QsmException {
    private static final long serialVersionUID = 1;

    TimedOutException(int code, String text) {
        super(code, text);
    }
}
