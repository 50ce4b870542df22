package io.quicksilver.qsm;

/** An error of Quicksilver. Its text has the cause and the remedy, its code is stable. */
public class QsmException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** Number of the error of a subscription whose reader was too slow. */
    private static final int OVERFLOW = 1401;
    private static final int MEMBERS_MISSING = 1203;
    private static final int TIMED_OUT = 1207;
    private static final int SETTING = 1703;
    private static final int NOT_LIVE = 1801;
    private static final int OBJECT_FULL = 1804;
    private static final int OBJECT_KEY = 1805;

    /** The stable number. */
    private final int code;

    /**
     * An error with a number.
     *
     * @param code the number
     * @param text cause and remedy
     */
    protected QsmException(int code, String text) {
        super(text + " (QSM-" + code + ")");
        this.code = code;
    }

    /**
     * The stable number, such as 1203 of {@code QSM-1203}; the manual's page of error codes has them all.
     *
     * @return the number
     */
    public final int code() {
        return code;
    }

    /** The exception for a number; called by the native part. */
    static QsmException of(int code, String text) {
        if (code == SETTING) {
            return new SettingException(code, text);
        }
        if (code == OVERFLOW) {
            return new OverflowException(code, text);
        }
        if (code == MEMBERS_MISSING || code == TIMED_OUT) {
            return new TimedOutException(code, text);
        }
        if (code == NOT_LIVE) {
            return new NotLiveException(code, text);
        }
        if (code == OBJECT_FULL || code == OBJECT_KEY) {
            return new LimitException(code, text);
        }
        if (code >= 1100 && code < 1200) {
            return new ClosedException(code, text);
        }
        if (code >= 1000 && code < 1100 || code >= 1600 && code < 1700) {
            return new StartException(code, text);
        }
        return new QsmException(code, text);
    }
}
