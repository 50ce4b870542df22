package io.quicksilver.qsm;

import static io.quicksilver.qsm.Loopback.PATIENCE;
import static io.quicksilver.qsm.Loopback.bytes;
import static io.quicksilver.qsm.Loopback.fill;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Flow;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class StreamTest {
    private final Node node = Loopback.start();
    private final Subscription subscription = node.subscribe("g");
    private final Publisher publisher = node.publisher("g");

    @AfterEach
    void end() {
        node.close();
    }

    /** Writes down what it is told: texts of messages, notices, errors, and "complete". */
    private static class Recorder implements Flow.Subscriber<Received> {
        final BlockingQueue<Object> told = new LinkedBlockingQueue<>();
        final AtomicInteger inside = new AtomicInteger();
        volatile Flow.Subscription source;

        @Override
        public void onSubscribe(Flow.Subscription source) {
            this.source = source;
        }

        @Override
        public void onNext(Received item) {
            assertEquals(1, inside.incrementAndGet(), "calls overlap");
            told.add(item instanceof ReceivedMessage message ? new String(message.data()) : item);
            inside.decrementAndGet();
        }

        @Override
        public void onError(Throwable error) {
            told.add(error);
        }

        @Override
        public void onComplete() {
            told.add("complete");
        }

        Object next() throws InterruptedException {
            Object next = told.poll(PATIENCE.toSeconds(), TimeUnit.SECONDS);
            if (next == null) {
                throw new AssertionError("nothing comes");
            }
            return next;
        }
    }

    private static Recorder recorded(Flow.Publisher<Received> stream) {
        Recorder recorder = new Recorder();
        stream.subscribe(recorder);
        return recorder;
    }

    @Test
    void noMoreIsGivenThanWasRequested() throws Exception {
        Recorder recorder = recorded(subscription.stream());
        fill(node, publisher, 5);
        recorder.source.request(2);
        assertEquals("1", recorder.next());
        assertEquals("2", recorder.next());
        recorder.source.request(1);
        assertEquals("3", recorder.next());
        assertNull(recorder.told.poll(50, TimeUnit.MILLISECONDS));
        recorder.source.cancel();
    }

    @Test
    void messagesThatComeLaterAreGiven() throws Exception {
        Recorder recorder = recorded(subscription.stream());
        recorder.source.request(Long.MAX_VALUE);
        for (int number = 0; number < 100; number++) {
            publisher.send(bytes("m" + number));
            assertEquals("m" + number, recorder.next());
        }
    }

    @Test
    void manyStreamsShareOneThread() throws Exception {
        List<Recorder> recorders = new ArrayList<>();
        for (int number = 0; number < 8; number++) {
            Recorder recorder = recorded(node.subscribe("s/" + number).stream());
            recorder.source.request(10);
            recorders.add(recorder);
        }
        for (int number = 0; number < 8; number++) {
            node.publisher("s/" + number).send(bytes("to " + number));
        }
        for (int number = 0; number < 8; number++) {
            assertEquals("to " + number, recorders.get(number).next());
        }
        long threads = Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().equals("qsm-streams " + node.id()))
                .count();
        assertEquals(1, threads);
    }

    @Test
    void whatIsMissingStandsInItsPlace() throws Exception {
        try (Subscription small = node.subscribe(QueueLimits.DEFAULT.withMessages(2), "g")) {
            Recorder recorder = recorded(small.stream());
            fill(node, publisher, 5);
            recorder.source.request(10);
            assertEquals("1", recorder.next());
            assertEquals("2", recorder.next());
            assertEquals(3, assertInstanceOf(Notice.Dropped.class, recorder.next()).missing());
        }
    }

    @Test
    void aStreamEndsWithTheNode() throws Exception {
        Recorder recorder = recorded(subscription.stream());
        fill(node, publisher, 1);
        recorder.source.request(10);
        assertEquals("1", recorder.next());
        node.shutdown(PATIENCE);
        assertEquals("complete", recorder.next());
    }

    @Test
    void aStreamEndsWithItsSubscription() throws Exception {
        Recorder recorder = recorded(subscription.stream());
        recorder.source.request(10);
        publisher.send(bytes("1"));
        assertEquals("1", recorder.next());
        subscription.close();
        assertEquals("complete", recorder.next());
    }

    @Test
    void aStreamEndsWithItsSubscriptionThoughNothingWasRequested() throws Exception {
        Recorder recorder = recorded(subscription.stream());
        fill(node, publisher, 1);
        subscription.close();
        assertEquals("complete", recorder.next());
    }

    @Test
    void anotherEndIsAnError() throws Exception {
        QueueLimits limits = QueueLimits.DEFAULT.withMessages(1).withOverflow(Overflow.DISCONNECT);
        try (Subscription small = node.subscribe(limits, "g")) {
            Recorder recorder = recorded(small.stream());
            fill(node, publisher, 3);
            recorder.source.request(10);
            assertEquals("1", recorder.next());
            assertInstanceOf(OverflowException.class, recorder.next());
        }
    }

    @Test
    void aCancelledStreamLeavesItsSubscriptionToOthers() throws Exception {
        Recorder recorder = recorded(subscription.stream());
        fill(node, publisher, 3);
        recorder.source.request(1);
        assertEquals("1", recorder.next());
        assertThrows(IllegalStateException.class, () -> subscription.poll(message -> {}, 1));
        recorder.source.cancel();
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        List<Object> taken = new ArrayList<>();
        while (taken.isEmpty() && System.nanoTime() < deadline) {
            try {
                taken.addAll(Loopback.take(subscription, 2));
            } catch (IllegalStateException read) {
                Thread.onSpinWait();
            }
        }
        assertEquals(List.of("2", "3"), taken);
        assertNull(recorder.told.poll());
    }

    @Test
    void aStreamHasOneSubscriber() throws Exception {
        Flow.Publisher<Received> stream = subscription.stream();
        Recorder first = recorded(stream);
        assertInstanceOf(IllegalStateException.class, recorded(stream).next());
        assertInstanceOf(IllegalStateException.class, recorded(subscription.stream()).next());
        assertThrows(NullPointerException.class, () -> stream.subscribe(null));
        first.source.request(1);
        publisher.send(bytes("1"));
        assertEquals("1", first.next());
    }

    @Test
    void aRequestForNothingIsAnError() throws Exception {
        Recorder recorder = recorded(subscription.stream());
        recorder.source.request(0);
        assertInstanceOf(IllegalArgumentException.class, recorder.next());
    }

    @Test
    void anExecutorMayRunOnItsCallersThread() throws Exception {
        Recorder recorder = recorded(subscription.stream(Runnable::run));
        fill(node, publisher, 5000);
        recorder.source.request(5000);
        assertEquals(5000, recorder.told.size());
    }

    @Test
    void anExecutorThatRefusesIsAnError() throws Exception {
        Recorder recorder = recorded(subscription.stream(work -> {
            throw new RejectedExecutionException("closed");
        }));
        assertInstanceOf(RejectedExecutionException.class, recorder.next());
    }

    @Test
    void aSubscriberThatThrowsGetsNoMore() throws Exception {
        RuntimeException fault = new RuntimeException("the subscriber's");
        Recorder recorder = new Recorder() {
            @Override
            public void onNext(Received item) {
                super.onNext(item);
                throw fault;
            }
        };
        BlockingQueue<Throwable> faults = new LinkedBlockingQueue<>();
        ExecutorService executor = Executors.newSingleThreadExecutor(work -> {
            Thread thread = new Thread(work);
            thread.setUncaughtExceptionHandler((where, thrown) -> faults.add(thrown));
            return thread;
        });
        subscription.stream(executor).subscribe(recorder);
        fill(node, publisher, 3);
        recorder.source.request(3);
        assertSame(fault, faults.poll(PATIENCE.toSeconds(), TimeUnit.SECONDS));
        executor.shutdown();
        assertTrue(executor.awaitTermination(PATIENCE.toSeconds(), TimeUnit.SECONDS));
        assertEquals(List.of("1"), List.copyOf(recorder.told));
        assertTrue(faults.isEmpty());
    }
}
