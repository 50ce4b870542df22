package io.quicksilver.qsm;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Optional;

/**
 * Place up to which a subscription was read, of each sender in each group.
 *
 * @param text its text: the line {@code qsm-position 1}, then a line for each, {@code SENDER NUMBER GROUP}
 */
public record Position(String text) {
    /**
     * Checks a text.
     *
     * @param text the text
     * @throws SettingException it is no position
     */
    public Position {
        Native.checkPosition(text);
    }

    /**
     * Reads a file that {@link #save} wrote.
     *
     * @param file the file
     * @return the position; nothing if there is no such file
     * @throws IOException the file cannot be read
     * @throws SettingException it is no position
     */
    public static Optional<Position> load(Path file) throws IOException {
        try {
            return Optional.of(new Position(Files.readString(file)));
        } catch (NoSuchFileException none) {
            return Optional.empty();
        }
    }

    /**
     * Writes a file: beside the former one, to the disk, and then in its place, so that it is whole at any
     * time. Its neighbour has the same name and {@code .new} behind it.
     *
     * @param file the file
     * @throws IOException it cannot be written; the former one is there then
     */
    public void save(Path file) throws IOException {
        Path beside = file.resolveSibling(file.getFileName() + ".new");
        ByteBuffer content = StandardCharsets.UTF_8.encode(text);
        try (FileChannel channel = FileChannel.open(
                beside,
                StandardOpenOption.CREATE,
                StandardOpenOption.WRITE,
                StandardOpenOption.TRUNCATE_EXISTING)) {
            while (content.hasRemaining()) {
                channel.write(content);
            }
            channel.force(true);
        }
        Files.move(beside, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    /** Its text. */
    @Override
    public String toString() {
        return text;
    }
}
