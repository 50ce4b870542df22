package io.quicksilver.qsm;

import java.util.Objects;
import java.util.concurrent.Executor;
import java.util.concurrent.Flow;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A subscription as a reactive stream. What happens to it (demand, messages, its end) is a signal; the
 * first of several has the executor run it, and it runs until it has seen them all, so that the subscriber
 * is called by one thread at a time.
 */
final class MessageStream implements Flow.Publisher<Received>, Flow.Subscription, Handler, Runnable {
    /** Items that are taken from the subscription at once. */
    private static final int BATCH = 256;

    private final Subscription source;
    private final StreamWaiter waiter;
    private final Executor executor;
    private final AtomicBoolean subscribed = new AtomicBoolean();
    /** Signals that no turn has seen yet. The first is the subscriber's coming. */
    private final AtomicInteger signals = new AtomicInteger(1);
    private final AtomicLong demand = new AtomicLong();
    private volatile boolean cancelled;
    private volatile boolean misused;
    private Flow.Subscriber<? super Received> subscriber;

    MessageStream(Subscription source, StreamWaiter waiter, Executor executor) {
        this.source = source;
        this.waiter = waiter;
        this.executor = Objects.requireNonNull(executor, "executor");
    }

    // Of the subscriber --------------------------------------------------------

    @Override
    public void subscribe(Flow.Subscriber<? super Received> given) {
        Objects.requireNonNull(given, "subscriber");
        if (!subscribed.compareAndSet(false, true) || !source.begin(this)) {
            given.onSubscribe(new Refused());
            given.onError(new IllegalStateException("a subscription has one stream and one subscriber"));
            return;
        }
        subscriber = given;
        // What it signals meanwhile is seen afterwards.
        given.onSubscribe(this);
        execute();
    }

    @Override
    public void request(long count) {
        if (count < 1) {
            misused = true;
        } else {
            demand.accumulateAndGet(count, (old, more) -> old + more < 0 ? Long.MAX_VALUE : old + more);
        }
        signal();
    }

    @Override
    public void cancel() {
        cancelled = true;
        signal();
    }

    // Turns --------------------------------------------------------------------

    /** Has it look what there is to do. */
    void signal() {
        if (signals.getAndIncrement() == 0) {
            execute();
        }
    }

    private void execute() {
        try {
            executor.execute(this);
        } catch (RejectedExecutionException error) {
            fail(error);
        }
    }

    @Override
    public void run() {
        int seen;
        do {
            seen = signals.get();
            if (ends()) {
                return;
            }
        } while (signals.addAndGet(-seen) != 0);
    }

    /** A turn; whether it was the last one. */
    private boolean ends() {
        try {
            return turn();
        } catch (ClosedException end) {
            if (end.isShutdown()) {
                complete();
            } else {
                fail(end);
            }
        } catch (QsmException | IllegalStateException error) {
            if (source.isClosed()) {
                complete();
            } else {
                fail(error);
            }
        }
        return true;
    }

    /** Gives what is there and requested; whether the stream has ended by that. */
    private boolean turn() {
        while (!cancelled) {
            if (misused) {
                fail(new IllegalArgumentException("a subscriber requests 1 item or more"));
                return true;
            }
            if (source.isClosed()) {
                complete();
                return true;
            }
            if (demand.get() == 0) {
                return false;
            }
            if (source.takeOne(this, BATCH) == 0) {
                waiter.watch(this, source);
                return false;
            }
        }
        leave();
        return true;
    }

    @Override
    public void onMessage(Message message) {
        give(message.copy());
    }

    @Override
    public void onNotice(Notice notice) {
        give(notice);
    }

    private void give(Received item) {
        demand.updateAndGet(left -> left == Long.MAX_VALUE ? left : left - 1);
        try {
            subscriber.onNext(item);
        } catch (Throwable fault) {
            // A subscriber must not throw. One that does is told, and gets no more.
            cancelled = true;
            Thread thread = Thread.currentThread();
            thread.getUncaughtExceptionHandler().uncaughtException(thread, fault);
        }
    }

    // Ends: the signals are never all seen again, so that there is no further turn --------------

    private void complete() {
        leave();
        if (!cancelled) {
            subscriber.onComplete();
        }
    }

    private void fail(Throwable error) {
        leave();
        if (!cancelled) {
            subscriber.onError(error);
        }
    }

    private void leave() {
        waiter.forget(this);
        source.end(this);
    }

    /** For those that come too late. */
    private static final class Refused implements Flow.Subscription {
        @Override
        public void request(long count) {}

        @Override
        public void cancel() {}
    }
}
