package io.quicksilver.qsm;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * A message where it lies in its subscription's buffer. It is one object for all messages of a
 * subscription, and shows each until its {@link Handler#onMessage} returns: what is to last is copied,
 * by {@link #bytes()} or {@link #copy()}. Nothing but these two and {@link #sender()} makes an object.
 */
public final class Message {
    private final Frame frame;
    private ByteBuffer view;
    private int at;
    private int length;

    Message(Frame frame) {
        this.frame = frame;
    }

    /** Shows messages of this buffer from now on. */
    void wrap(ByteBuffer buffer) {
        ByteOrder order = view == null ? ByteOrder.BIG_ENDIAN : view.order();
        view = buffer.asReadOnlyBuffer().order(order);
    }

    /** Shows the message of a frame. */
    void show(int at) {
        this.at = at;
        this.length = frame.contentLength(at);
    }

    /**
     * Name of the group; the same string for all messages of the group.
     *
     * @return the name
     */
    public String group() {
        return frame.group(at);
    }

    /**
     * The sender, as a new object.
     *
     * @return the sender
     */
    public Sender sender() {
        return frame.sender(at);
    }

    /**
     * Number of the node that sent it, unsigned.
     *
     * @return the number
     */
    public long senderNode() {
        return frame.node(at);
    }

    /**
     * Life of the node that sent it.
     *
     * @return the number of the life
     */
    public long senderLife() {
        return frame.life(at);
    }

    /**
     * Its number among this sender's messages to this group, from 1.
     *
     * @return the number
     */
    public long number() {
        return frame.number(at);
    }

    /**
     * Its content: the message's bytes are those between position and limit. It is the same buffer for
     * all messages, direct, not writable, and big-endian until it is given another order.
     *
     * @return the content
     */
    public ByteBuffer data() {
        return view.limit(offset() + length).position(offset());
    }

    /**
     * The buffer that it lies in, for flyweights of the program's own: from {@link #offset()} on, {@link
     * #length()} bytes. Reading elsewhere finds other messages or nonsense.
     *
     * @return the buffer, direct and not writable
     */
    public ByteBuffer buffer() {
        return view.clear();
    }

    /**
     * Place of the content in {@link #buffer()}: a multiple of 8.
     *
     * @return the place, bytes
     */
    public int offset() {
        return at + Frame.HEAD;
    }

    /**
     * Length of the content.
     *
     * @return the length, bytes
     */
    public int length() {
        return length;
    }

    /**
     * A copy of the content.
     *
     * @return the copy
     */
    public byte[] bytes() {
        return frame.content(at);
    }

    /**
     * A copy that lasts.
     *
     * @return the copy
     */
    public ReceivedMessage copy() {
        return new ReceivedMessage(group(), sender(), number(), bytes());
    }

    @Override
    public String toString() {
        return "message " + number() + " of " + sender() + " in " + group() + ", " + length + " bytes";
    }
}
