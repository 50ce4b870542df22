import io.quicksilver.qsm.Handler;
import io.quicksilver.qsm.Message;
import io.quicksilver.qsm.Node;
import io.quicksilver.qsm.Notice;
import io.quicksilver.qsm.QueueLimits;
import io.quicksilver.qsm.objects.As;
import io.quicksilver.qsm.objects.Form;
import io.quicksilver.qsm.objects.Typed;
import io.quicksilver.qsm.objects.TypedMessages;
import java.time.Duration;

/** Typed messages, and losses that are told in their place. */
class Quotes {
    @Typed(value = 17, version = 2)
    record Quote(String symbol, double bid, @As(Form.U32) long size) {}

    static class Desk implements Handler {
        private int seen;

        @Override
        public void onMessage(Message message) {
            Quote quote = TypedMessages.decode(message.data(), Quote.class);
            System.out.println(quote.symbol() + " " + quote.bid() + " " + quote.size());
            seen++;
        }

        @Override
        public void onNotice(Notice notice) {
            System.out.println("missing: " + notice.text());
        }
    }

    public static void main(String[] arguments) {
        try (var node = Node.builder().set("cluster", arguments[0]).set("interface", "lo").start()) {
            var quotes = node.subscribe(QueueLimits.DEFAULT.withMessages(1000), "quotes/eur");
            var publisher = node.publisher("quotes/eur");
            publisher.send(TypedMessages.encode(new Quote("EUR", 1.0842, 300)));
            var desk = new Desk();
            while (desk.seen < 1) {
                quotes.poll(desk, 100, Duration.ofSeconds(1));
            }
        }
    }
}
