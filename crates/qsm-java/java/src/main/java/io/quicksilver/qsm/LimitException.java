package io.quicksilver.qsm;

/** A live object would become larger than its bound, or a key is too long. */
public final class LimitException extends QsmException {
    private static final long serialVersionUID = 1;

    LimitException(int code, String text) {
        super(code, text);
    }
}
