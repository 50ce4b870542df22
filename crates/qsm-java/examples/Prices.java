import io.quicksilver.qsm.Node;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** A publisher and a reader of prices, in one program. */
class Prices {
    public static void main(String[] arguments) {
        try (var node = Node.builder().set("cluster", arguments[0]).set("interface", "lo").start();
                var prices = node.subscribe("prices/eur", "prices/usd");
                var eur = node.publisher("prices/eur")) {
            eur.send("1.0842".getBytes(StandardCharsets.UTF_8));
            prices.poll(message -> {
                var price = StandardCharsets.UTF_8.decode(message.data());
                System.out.println(message.group() + " " + message.number() + " " + price);
            }, 1, Duration.ofSeconds(10));
        }
    }
}
