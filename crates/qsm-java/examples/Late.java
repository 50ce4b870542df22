import io.quicksilver.qsm.Handler;
import io.quicksilver.qsm.Message;
import io.quicksilver.qsm.Node;
import io.quicksilver.qsm.Notice;
import io.quicksilver.qsm.Start;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** A keeper of a group's last messages, and a subscriber that comes later and begins with them. */
class Late implements Handler {
    private boolean joined;

    public static void main(String[] arguments) {
        try (var node = Node.builder().set("cluster", arguments[0]).set("interface", "lo").start();
                var keeper = node.keep("news");
                var publisher = node.publisher("news")) {
            for (int number = 1; number <= 5; number++) {
                publisher.send(("story " + number).getBytes(StandardCharsets.UTF_8));
            }
            while (keeper.kept().messages() < 5) {
                Thread.onSpinWait();
            }
            try (var news = node.subscribe(Start.last(2), "news")) {
                var reader = new Late();
                while (!reader.joined) {
                    news.poll(reader, 100, Duration.ofSeconds(10));
                }
                // To go on from in another process: Start.resume(position).
                var position = news.position().orElseThrow();
                System.out.println(position.text().lines().count() - 1 + " sender");
            }
        }
    }

    @Override
    public void onMessage(Message message) {
        System.out.println(message.number() + " " + StandardCharsets.UTF_8.decode(message.data()));
    }

    @Override
    public void onNotice(Notice notice) {
        if (notice instanceof Notice.Joined end) {
            System.out.println(end.kept() + " kept, " + end.notKept() + " missing");
            joined = true;
        } else {
            System.out.println("missing: " + notice.text());
        }
    }
}
