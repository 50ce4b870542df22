package io.quicksilver.qsm;

/**
 * A message of its own: a copy that lasts.
 *
 * @param group name of the group
 * @param sender the sender
 * @param number its number among this sender's messages to this group, from 1
 * @param data its content
 */
public record ReceivedMessage(String group, Sender sender, long number, byte[] data)
        implements Received {}
