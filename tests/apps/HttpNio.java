// A selector loop as Java's manuals teach it: HttpNio ADDRESS PORT

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;

public class HttpNio {
    static final String BODY = "hello from a script\n";
    static final byte[] ANSWER = ("HTTP/1.1 200 OK\r\nContent-Length: " + BODY.length() + "\r\n\r\n" + BODY)
            .getBytes(StandardCharsets.US_ASCII);

    /** What one connection has sent of a request so far. */
    static class Client {
        final ByteBuffer input = ByteBuffer.allocate(8192);
    }

    public static void main(String[] arguments) throws IOException {
        Selector selector = Selector.open();
        ServerSocketChannel listener = ServerSocketChannel.open();
        listener.bind(new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1])), 128);
        listener.configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        while (true) {
            selector.select();
            for (SelectionKey key : selector.selectedKeys()) {
                if (key.isAcceptable()) {
                    accept(selector, listener);
                } else if (key.isReadable()) {
                    read(key);
                }
            }
            selector.selectedKeys().clear();
        }
    }

    static void accept(Selector selector, ServerSocketChannel listener) throws IOException {
        SocketChannel channel = listener.accept();
        if (channel == null) {
            return;
        }
        channel.configureBlocking(false);
        channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
        channel.register(selector, SelectionKey.OP_READ, new Client());
    }

    static void read(SelectionKey key) throws IOException {
        SocketChannel channel = (SocketChannel) key.channel();
        ByteBuffer input = ((Client) key.attachment()).input;
        int count;
        try {
            count = channel.read(input);
        } catch (IOException reset) {
            count = -1;
        }
        if (count < 0) {
            channel.close();
            return;
        }
        byte[] bytes = input.array();
        int length = input.position();
        if (length >= 4 && bytes[length - 4] == '\r' && bytes[length - 3] == '\n' && bytes[length - 1] == '\n') {
            input.clear();
            ByteBuffer answer = ByteBuffer.wrap(ANSWER);
            while (answer.hasRemaining()) {
                channel.write(answer);
            }
        }
    }
}
