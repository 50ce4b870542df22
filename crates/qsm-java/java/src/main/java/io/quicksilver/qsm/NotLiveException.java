package io.quicksilver.qsm;

/** A live object has no state that follows, or none yet: write again once it is live. */
public final class NotLiveException extends QsmException {
    private static final long serialVersionUID = 1;

    NotLiveException(int code, String text) {
        super(code, text);
    }
}
