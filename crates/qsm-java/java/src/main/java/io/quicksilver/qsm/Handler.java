package io.quicksilver.qsm;

/** Takes messages, one by one, from {@link Subscription#poll(Handler, int)}, on the thread that calls it. */
@FunctionalInterface
public interface Handler {
    /**
     * Takes a message.
     *
     * @param message the same object each time, which shows the message until this returns
     */
    void onMessage(Message message);

    /**
     * Takes a notice of what is missing before the next message. If not overridden it throws {@link
     * MissingException}, but for {@link Notice.Back} and {@link Notice.Joined}, where nothing is
     * missing.
     *
     * @param notice the notice
     */
    default void onNotice(Notice notice) {
        if (!(notice instanceof Notice.Back || notice instanceof Notice.Joined)) {
            throw new MissingException(notice);
        }
    }
}
