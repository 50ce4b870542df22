package io.quicksilver.qsm;

/** The subscription ended because its reader was too slow ({@link Overflow#DISCONNECT}). */
public final class OverflowException extends QsmException {
    private static final long serialVersionUID = 1;

    OverflowException(int code, String text) {
        super(code, text);
    }
}
