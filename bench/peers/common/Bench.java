import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.LockSupport;

/** What every program of the comparison does, for Java; bench.h describes it. */
final class Bench {
    private static final int HEADER = 16;
    private static final int TAIL = 8;
    private static final int STAMP_BITS = 44;
    private static final long STAMP_MASK = (1L << STAMP_BITS) - 1;
    private static final int NUMBER_BITS = 48;
    private static final long NUMBER_MASK = (1L << NUMBER_BITS) - 1;
    /** The clock is read once in so many messages where no latency is taken. */
    private static final int CLOCK_EVERY = 16;
    /** Messages to a rare group. */
    private static final int RARE_EVERY = 100;
    /** A receiver that is short of messages gives up after so long without one. */
    private static final long PATIENCE_NS = 10_000_000_000L;
    /** Buckets of at most 1/64 relative width. */
    private static final int FINE_BITS = 6;
    private static final int FINE = 1 << FINE_BITS;
    private static final int PHASES = 256;

    boolean sends;
    String networkInterface;
    String address;
    String[] senders;
    int receivers;
    int index;
    int port;
    int groups;
    /** Of them, those that all receivers have. */
    int common;
    private String wants = "";
    private boolean[] wanted;
    int payload;
    private final Map<String, String> settings = new HashMap<>();
    private byte[] pattern;

    /** What a system does for a sender. */
    interface Sender {
        /** Waits until the system has accepted the message, which it may not keep. */
        void send(int group, byte[] message) throws Exception;
    }

    Bench(final String[] arguments) {
        sends = arguments[0].equals("send");
        for (int at = 1; at + 1 < arguments.length; at += 2) {
            set(arguments[at], arguments[at + 1]);
        }
        if (common < 1 || common > groups) {
            common = groups;
        }
        wanted = new boolean[groups];
        Arrays.fill(wanted, 0, common, true);
        for (final String group : wants.isEmpty() ? new String[0] : wants.split(",")) {
            wanted[Integer.parseInt(group)] = true;
        }
        pattern = new byte[payload];
        for (int at = 0; at < payload; at++) {
            pattern[at] = (byte)(at * 7 + 3);
        }
    }

    private void set(final String name, final String value) {
        switch (name) {
            case "--interface" -> networkInterface = value;
            case "--address" -> address = value;
            case "--senders" -> senders = value.split(",");
            case "--receivers" -> receivers = Integer.parseInt(value);
            case "--index" -> index = Integer.parseInt(value);
            case "--port" -> port = Integer.parseInt(value);
            case "--groups" -> groups = Integer.parseInt(value);
            case "--common" -> common = Integer.parseInt(value);
            case "--wants" -> wants = value;
            case "--audience" -> { }
            case "--payload" -> payload = Integer.parseInt(value);
            case "--set" -> settings.put(value.split("=", 2)[0], value.split("=", 2)[1]);
            default -> fail("unknown option " + name);
        }
    }

    /** Does this receiver have the group of this message, which nobody has checked yet? */
    boolean wants(final byte[] bytes, final int offset, final int length) {
        final int group = length < HEADER ? groups : (int)(word(bytes, offset + 8) >>> STAMP_BITS);
        return group >= groups || wanted[group];
    }

    String setting(final String name, final String otherwise) {
        return settings.getOrDefault(name, otherwise);
    }

    int number(final String name, final int otherwise) {
        return Integer.parseInt(setting(name, Integer.toString(otherwise)));
    }

    static void fail(final String why) {
        System.err.println(why);
        Runtime.getRuntime().halt(1);
    }

    private static synchronized void say(final String line) {
        System.out.println(line);
        System.out.flush();
    }

    // Sending.

    private long[] numbers;
    private ByteBuffer message;
    private Sender sender;

    void runSender(final Sender system) throws Exception {
        numbers = new long[groups];
        message = ByteBuffer.wrap(pattern.clone()).order(ByteOrder.LITTLE_ENDIAN);
        sender = system;
        say("ready");
        final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            final String[] words = line.split(" ");
            if (words[0].equals("probe")) {
                for (int group = 0; group < groups; group++) {
                    sendOne(0, group, 0);
                }
                say("probed");
            } else if (words[0].equals("go")) {
                phase(Integer.parseInt(words[1]), Long.parseLong(words[2]), Long.parseLong(words[3]));
            } else {
                break;
            }
        }
    }

    private void sendOne(final long phase, final int group, final long stamp) throws Exception {
        final long name = ++numbers[group] | phase << NUMBER_BITS | (long)index << 56;
        message.putLong(0, name);
        message.putLong(8, (stamp & STAMP_MASK) | (long)group << STAMP_BITS);
        if (payload >= HEADER + TAIL) {
            message.putLong(payload - TAIL, name);
        }
        sender.send(group, message.array());
    }

    private void phase(final int phase, final long millis, final long rate) throws Exception {
        Arrays.fill(numbers, 0);
        final long start = System.nanoTime();
        final long sent = rate > 0 ? pace(phase, start, rate * millis / 1000, rate)
            : flood(phase, start + millis * 1_000_000);
        final long end = System.nanoTime();
        final StringBuilder rare = new StringBuilder();
        for (int group = common; group < groups; group++) {
            rare.append(group > common ? "," : "").append(numbers[group]);
        }
        say("sent {\"messages\":" + sent + ",\"start_ns\":" + start + ",\"end_ns\":" + end
            + ",\"rare\":[" + rare + "]}");
    }

    private long flood(final int phase, final long end) throws Exception {
        long sent = 0;
        int group = 0;
        int rare = common;
        do {
            for (int i = 0; i < CLOCK_EVERY; i++) {
                sent++;
                if (rare < groups && sent % RARE_EVERY == 0) {
                    sendOne(phase, rare, 0);
                    rare = rare + 1 < groups ? rare + 1 : common;
                    continue;
                }
                sendOne(phase, group, 0);
                group = group + 1 < common ? group + 1 : 0;
            }
        } while (System.nanoTime() - end < 0);
        return sent;
    }

    /**
     * Stamps each message with the time at which it was due, not with that at which it could be
     * sent.
     */
    private long pace(final int phase, final long start, final long total, final long rate) throws Exception {
        for (long i = 0; i < total; i++) {
            final long due = start + i * 1_000_000_000L / rate;
            for (long wait = due - System.nanoTime(); wait > 0; wait = due - System.nanoTime()) {
                LockSupport.parkNanos(wait);
            }
            sendOne(phase, (int)(i % groups), due);
        }
        return total;
    }

    // Receiving.

    private long[] next;
    private int[] phaseOf;
    private boolean[] heard;
    private int unheard;
    private long sinceClock;
    /** Only {@link #deliver} writes; the dialogue looks on. */
    private final AtomicLongArray messages = new AtomicLongArray(PHASES);
    private final AtomicLong wrong = new AtomicLong();
    private final AtomicLong last = new AtomicLong();
    private final int[] histogram = new int[STAMP_BITS * FINE];
    private long most;
    private int timedPhase = -1;

    /** To be called before anything is delivered. */
    void openVerifier() {
        final int streams = senders.length * groups;
        unheard = 0;
        for (final boolean has : wanted) {
            unheard += has ? senders.length : 0;
        }
        next = new long[streams];
        phaseOf = new int[streams];
        heard = new boolean[streams];
    }

    /** Checks and counts one message. */
    synchronized void deliver(final byte[] bytes, final int offset, final int length) {
        if (!take(bytes, offset, length)) {
            wrong.lazySet(wrong.get() + 1);
        }
    }

    private boolean take(final byte[] bytes, final int offset, final int length) {
        if (!intact(bytes, offset, length)) {
            return false;
        }
        final long name = word(bytes, offset);
        final long place = word(bytes, offset + 8);
        final int phase = (int)(name >>> NUMBER_BITS) & 0xff;
        final int group = (int)(place >>> STAMP_BITS);
        final int stream = (int)(name >>> 56) * groups + group;
        if (group >= groups || stream >= next.length || !wanted[group]) {
            return false;
        }
        if (phase == 0) {
            hearProbe(stream);
            return true;
        }
        if (phaseOf[stream] != phase) {
            phaseOf[stream] = phase;
            next[stream] = 1;
        }
        final long number = name & NUMBER_MASK;
        final boolean expected = number == next[stream];
        next[stream] = number + 1;
        count(phase, place & STAMP_MASK);
        return expected;
    }

    private void hearProbe(final int stream) {
        if (!heard[stream]) {
            heard[stream] = true;
            if (--unheard == 0) {
                say("heard");
            }
        }
    }

    private static final java.lang.invoke.VarHandle WORDS =
        java.lang.invoke.MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    private static long word(final byte[] bytes, final int at) {
        return (long)WORDS.get(bytes, at);
    }

    private boolean intact(final byte[] bytes, final int offset, final int length) {
        if (length != payload || length < HEADER) {
            return false;
        }
        final boolean tailed = length >= HEADER + TAIL;
        final int end = tailed ? length - TAIL : length;
        return Arrays.equals(bytes, offset + HEADER, offset + end, pattern, HEADER, end) &&
            (!tailed || word(bytes, offset + end) == word(bytes, offset));
    }

    private void count(final int phase, final long stamp) {
        if (stamp != 0 || sinceClock % CLOCK_EVERY == 0) {
            final long now = System.nanoTime();
            last.lazySet(now);
            if (stamp != 0) {
                time(phase, (now - stamp) & STAMP_MASK);
            }
        }
        sinceClock++;
        messages.lazySet(phase, messages.get(phase) + 1);
    }

    private void time(final int phase, final long latency) {
        if (phase != timedPhase) {
            Arrays.fill(histogram, 0);
            most = 0;
            timedPhase = phase;
        }
        histogram[bucket(latency)]++;
        most = Math.max(most, latency);
    }

    private static int bucket(final long value) {
        if (value < FINE) {
            return (int)value;
        }
        final int shift = 63 - Long.numberOfLeadingZeros(value) - FINE_BITS;
        return (shift << FINE_BITS) + (int)(value >> shift);
    }

    /** The upper end of a bucket. */
    private static long bucketValue(final int bucket) {
        if (bucket < 2 * FINE) {
            return bucket;
        }
        final int shift = (bucket >> FINE_BITS) - 1;
        return (bucket - ((long)shift << FINE_BITS) + 1) << shift;
    }

    private String quantile(final long count, final double share) {
        final long rank = (long)(count * share);
        long seen = 0;
        long value = most;
        for (int at = 0; at < histogram.length; at++) {
            seen += histogram[at];
            if (seen > rank) {
                value = bucketValue(at);
                break;
            }
        }
        return micros(value);
    }

    private static String micros(final long nanos) {
        return String.format(java.util.Locale.ROOT, "%.1f", nanos / 1e3);
    }

    /** Answers the parent until the end, while other threads deliver. */
    void runReceiver() throws IOException {
        say("ready");
        final BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            final String[] words = line.split(" ");
            if (!words[0].equals("await")) {
                break;
            }
            await(Integer.parseInt(words[1]), Long.parseLong(words[2]));
        }
    }

    private void await(final int phase, final long goal) {
        long seen = 0;
        long progress = System.nanoTime();
        while (true) {
            final long now = System.nanoTime();
            final long count = messages.get(phase);
            if (count >= goal || now - progress > PATIENCE_NS) {
                break;
            }
            if (count != seen) {
                seen = count;
                progress = now;
            }
            LockSupport.parkNanos(500_000);
        }
        report(phase);
    }

    private synchronized void report(final int phase) {
        final long count = messages.get(phase);
        final StringBuilder text = new StringBuilder("received {\"messages\":").append(count);
        text.append(",\"wrong\":").append(wrong.get()).append(",\"last_ns\":").append(last.get());
        if (phase == timedPhase) {
            text.append(",\"p50_us\":").append(quantile(count, 0.5));
            text.append(",\"p99_us\":").append(quantile(count, 0.99));
            text.append(",\"p999_us\":").append(quantile(count, 0.999));
            text.append(",\"max_us\":").append(micros(most));
        }
        say(text.append("}").toString());
    }
}
