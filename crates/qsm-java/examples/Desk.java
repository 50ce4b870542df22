import io.quicksilver.qsm.LiveMap;
import io.quicksilver.qsm.MapChange;
import io.quicksilver.qsm.Node;
import java.time.Duration;

/** A desk sets prices in a map, and a screen at another node has the same map and sees them change. */
class Desk {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    public static void main(String[] arguments) {
        try (var deskNode = start(arguments[0]);
                var screenNode = start(arguments[0]);
                var desk = deskNode.liveMap("prices").awaitLive(PATIENCE)) {
            desk.put("eur", "1.0842");
            try (var screen = screenNode.liveMap("prices").awaitLive(PATIENCE)) {
                show(screen);
                desk.put("eur", "1.0851");
                show(screen);
                desk.remove("eur");
                show(screen);
                System.out.println(screen.size() + " left");
            }
        }
    }

    private static Node start(String cluster) {
        return Node.builder().set("cluster", cluster).set("interface", "lo").start();
    }

    /** Prints what has changed, once something has. */
    private static void show(LiveMap map) {
        for (MapChange change : map.poll(100, PATIENCE)) {
            if (change instanceof MapChange.Set set) {
                System.out.println(set.key() + " " + set.text());
            } else {
                System.out.println(change);
            }
        }
    }
}
