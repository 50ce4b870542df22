package io.quicksilver.qsm;

import java.time.Duration;

/** A notice of what is missing before the next message of a subscription, in its place. */
public sealed interface Notice extends Received {
    /**
     * A sentence for people.
     *
     * @return the sentence
     */
    String text();

    /**
     * Messages missing here, as far as known; of lost packets, the packets.
     *
     * @return the number
     */
    long missing();

    /**
     * Messages that will never come: {@code first} to {@code last} of a sender in a group.
     *
     * @param group name of the group
     * @param sender the sender
     * @param first the first message lost
     * @param last the last
     * @param cause why
     * @param text a sentence for people
     */
    record Lost(String group, Sender sender, long first, long last, Cause cause, String text)
            implements Notice {
        @Override
        public long missing() {
            return last - first + 1;
        }
    }

    /**
     * Packets of a sender that is gone; which messages were in them is not known.
     *
     * @param sender the sender
     * @param packets the number of packets
     * @param text a sentence for people
     */
    record LostPackets(Sender sender, long packets, String text) implements Notice {
        @Override
        public long missing() {
            return packets;
        }
    }

    /**
     * Messages that this subscription's queue had no room for: its reader is too slow.
     *
     * @param messages the number of messages
     * @param text a sentence for people
     */
    record Dropped(long messages, String text) implements Notice {
        @Override
        public long missing() {
            return messages;
        }
    }

    /**
     * This node was away for a while, and has caught up: nothing is missing.
     *
     * @param away the time since the node was heard last
     * @param text a sentence for people
     */
    record Back(Duration away, String text) implements Notice {
        @Override
        public long missing() {
            return 0;
        }
    }

    /**
     * This node was away for too long and has begun a new life: something may be missing.
     *
     * @param life the life that has ended
     * @param text a sentence for people
     */
    record Excluded(long life, String text) implements Notice {
        @Override
        public long missing() {
            return 0;
        }
    }

    /**
     * Messages of the past that come neither way: {@code first} to {@code last} of a sender in a group.
     *
     * @param group name of the group
     * @param sender the sender
     * @param first the first message missing
     * @param last the last
     * @param cause {@link Cause#GONE}: no keeper has them; {@link Cause#NO_KEEPER}, {@link Cause#HELD}
     * @param text a sentence for people
     */
    record NotKept(String group, Sender sender, long first, long last, Cause cause, String text)
            implements Notice {
        @Override
        public long missing() {
            return last - first + 1;
        }
    }

    /**
     * The past of a group has come, or is missing, which was told before. Messages go on live.
     *
     * @param group name of the group
     * @param kept messages that came from keepers
     * @param notKept messages that were missing
     * @param keepers keepers that answered
     * @param text a sentence for people
     */
    record Joined(String group, long kept, long notKept, long keepers, String text)
            implements Notice {
        @Override
        public long missing() {
            return 0;
        }
    }

    /**
     * Something that this version of the package has no name for.
     *
     * @param text a sentence for people
     */
    record Other(String text) implements Notice {
        @Override
        public long missing() {
            return 0;
        }
    }
}
