import io.aeron.Aeron;
import io.aeron.FragmentAssembler;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import java.util.ArrayList;
import java.util.List;
import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.UnsafeBuffer;

/** Aeron in Java: a stream for each group, by UDP multicast, a media driver in each process. */
final class Peer {
    private static final int STREAM = 1000;
    private static final int FRAGMENTS = 64;
    private static volatile boolean running = true;

    public static void main(final String[] arguments) throws Exception {
        final Bench bench = new Bench(arguments);
        final String folder = "/dev/shm/aeron-java-bench-" + bench.port + "-" + ProcessHandle.current().pid();
        try (MediaDriver driver = MediaDriver.launch(driver(bench, folder));
            Aeron aeron = Aeron.connect(new Aeron.Context().aeronDirectoryName(folder))) {
            if (bench.sends) {
                send(bench, aeron);
            } else {
                receive(bench, aeron);
            }
        }
    }

    private static MediaDriver.Context driver(final Bench bench, final String folder) {
        final int buffer = bench.number("socket-buffer", 128 << 10);
        return new MediaDriver.Context()
            .aeronDirectoryName(folder)
            .dirDeleteOnStart(true)
            .dirDeleteOnShutdown(true)
            .threadingMode(ThreadingMode.SHARED)
            .initialWindowLength(bench.number("window", 128 << 10))
            .socketRcvbufLength(buffer)
            .socketSndbufLength(buffer)
            .publicationTermBufferLength(bench.number("term", 16 << 20))
            .termBufferSparseFile(true)
            .mtuLength(bench.number("mtu", 1408));
    }

    /** All receivers must keep up and be there: minimum flow control of a group of so many. */
    private static String channel(final Bench bench) {
        return "aeron:udp?endpoint=239.255.86.1:" + (bench.port | 1) + "|interface=" + bench.address +
            "|ttl=1|fc=min,g:/" + bench.receivers;
    }

    private static void send(final Bench bench, final Aeron aeron) throws Exception {
        final List<Publication> publications = new ArrayList<>();
        for (int group = 0; group < bench.groups; group++) {
            publications.add(aeron.addPublication(channel(bench), STREAM + group));
        }
        final IdleStrategy idle = new BackoffIdleStrategy();
        final UnsafeBuffer buffer = new UnsafeBuffer();
        bench.runSender((group, message) -> {
            buffer.wrap(message);
            long result = publications.get(group).offer(buffer);
            while (result < 0) {
                if (result == Publication.CLOSED || result == Publication.MAX_POSITION_EXCEEDED) {
                    Bench.fail("offer: " + Publication.errorString(result));
                }
                idle.idle();
                result = publications.get(group).offer(buffer);
            }
            idle.reset();
        });
    }

    private static void receive(final Bench bench, final Aeron aeron) throws Exception {
        bench.openVerifier();
        final List<Subscription> subscriptions = new ArrayList<>();
        for (int group = 0; group < bench.groups; group++) {
            subscriptions.add(aeron.addSubscription(channel(bench), STREAM + group));
        }
        final byte[] bytes = new byte[bench.payload];
        final FragmentAssembler assembler = new FragmentAssembler((buffer, offset, length, header) -> {
            final int kept = Math.min(length, bytes.length);
            buffer.getBytes(offset, bytes, 0, kept);
            bench.deliver(bytes, 0, length == bytes.length ? length : 0);
        });
        final Thread poller = new Thread(() -> {
            final IdleStrategy idle = new BackoffIdleStrategy();
            while (running) {
                int work = 0;
                for (int at = 0; at < subscriptions.size(); at++) {
                    work += subscriptions.get(at).poll(assembler, FRAGMENTS);
                }
                idle.idle(work);
            }
        });
        poller.start();
        bench.runReceiver();
        running = false;
        poller.join();
    }
}
