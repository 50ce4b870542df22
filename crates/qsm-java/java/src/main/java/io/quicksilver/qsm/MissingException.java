package io.quicksilver.qsm;

/** Something is missing before the next message. The next poll goes on behind it. */
public final class MissingException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** Kept out of serialized forms: a notice is of this process. */
    private final transient Notice notice;

    MissingException(Notice notice) {
        super(notice.text() + "; poll on behind it, or take notices with Handler.onNotice");
        this.notice = notice;
    }

    /**
     * The notice of what is missing.
     *
     * @return the notice
     */
    public Notice notice() {
        return notice;
    }
}
