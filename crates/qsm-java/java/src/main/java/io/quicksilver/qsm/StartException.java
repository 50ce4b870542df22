package io.quicksilver.qsm;

/** A node cannot be started, or not be attached to an engine. */
public final class StartException extends QsmException {
    private static final long serialVersionUID = 1;

    StartException(int code, String text) {
        super(code, text);
    }
}
