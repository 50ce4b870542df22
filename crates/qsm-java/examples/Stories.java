import io.quicksilver.qsm.Node;
import io.quicksilver.qsm.Received;
import io.quicksilver.qsm.ReceivedMessage;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Flow;

/** A reactive reader, which asks for one message at a time. */
class Stories {
    static class Reader implements Flow.Subscriber<Received> {
        final CountDownLatch left = new CountDownLatch(3);
        private Flow.Subscription source;

        @Override
        public void onSubscribe(Flow.Subscription source) {
            this.source = source;
            source.request(1);
        }

        @Override
        public void onNext(Received item) {
            if (item instanceof ReceivedMessage story) {
                var text = new String(story.data(), StandardCharsets.UTF_8);
                System.out.println(story.number() + " " + text);
                left.countDown();
            } else {
                System.out.println("missing: " + item);
            }
            source.request(1);
        }

        @Override
        public void onError(Throwable error) {
            error.printStackTrace();
        }

        @Override
        public void onComplete() {}
    }

    public static void main(String[] arguments) throws InterruptedException {
        try (var node = Node.builder().set("cluster", arguments[0]).set("interface", "lo").start()) {
            var reader = new Reader();
            node.subscribe("news").stream().subscribe(reader);
            var publisher = node.publisher("news");
            for (int number = 1; number <= 3; number++) {
                publisher.send(("story " + number).getBytes(StandardCharsets.UTF_8));
            }
            reader.left.await();
        }
    }
}
