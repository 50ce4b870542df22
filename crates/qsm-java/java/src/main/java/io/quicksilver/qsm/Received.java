package io.quicksilver.qsm;

/** An item of a {@link Subscription#stream() stream}: a message, or what is missing before the next one. */
public sealed interface Received permits ReceivedMessage, Notice {}
