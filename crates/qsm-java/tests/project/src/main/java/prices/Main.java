package prices;

import io.quicksilver.qsm.Node;
import java.time.Duration;

/** Sends itself a message, and says which. */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) {
        try (var node = Node.builder().set("cluster", arguments[0]).set("interface", "lo").start();
                var prices = node.subscribe("prices/eur");
                var eur = node.publisher("prices/eur")) {
            eur.send(new byte[] {42});
            prices.poll(
                    message -> System.out.println(Node.version() + " " + message.data().get()),
                    1,
                    Duration.ofSeconds(10));
        }
    }
}
