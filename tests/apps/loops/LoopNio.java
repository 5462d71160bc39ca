// Java NIO, as loops/loops.h says: LoopNio server|client ADDRESS PORT [SECONDS]. One selector waits in a thread of its own,
// channels are opened and registered by the main thread; two datagram flows are of threads that block.

import java.io.IOException;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetSocketAddress;
import java.net.SocketTimeoutException;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;
import java.nio.channels.SelectableChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

public class LoopNio {
    static final int FLOWS = 4;
    static final int SIZE = 64;
    /** Seconds that a flow may take beyond the run to have its first answer. */
    static final int PATIENCE = 20;

    interface Ready {
        void run(SelectionKey key) throws IOException;
    }

    final Selector selector = Selector.open();

    LoopNio() throws IOException {
        Thread loop = new Thread(this::loop);
        loop.setDaemon(true);
        loop.start();
    }

    void loop() {
        try {
            while (true) {
                selector.select(key -> {
                    try {
                        ((Ready) key.attachment()).run(key);
                    } catch (IOException error) {
                        fail(error);
                    }
                });
            }
        } catch (IOException error) {
            fail(error);
        }
    }

    void watch(SelectableChannel channel, int operations, Ready ready) throws IOException {
        channel.configureBlocking(false);
        channel.register(selector, operations, ready);
        selector.wakeup();
    }

    static void fail(Exception error) {
        error.printStackTrace();
        Runtime.getRuntime().halt(1);
    }

    static byte[] message(int flow, int round) {
        byte[] bytes = new byte[SIZE];
        Arrays.fill(bytes, (byte) (flow * 31 + round));
        ByteBuffer.wrap(bytes).putInt(flow).putInt(round);
        return bytes;
    }

    void serve(InetSocketAddress address) throws Exception {
        ServerSocketChannel listener = ServerSocketChannel.open();
        listener.bind(address, 64);
        watch(listener, SelectionKey.OP_ACCEPT, key -> {
            SocketChannel channel = listener.accept();
            if (channel != null) {
                channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
                ByteBuffer bytes = ByteBuffer.allocate(4096);
                watch(channel, SelectionKey.OP_READ, of -> echo(channel, bytes));
            }
        });
        DatagramChannel datagrams = DatagramChannel.open();
        datagrams.bind(address);
        ByteBuffer bytes = ByteBuffer.allocate(4096);
        watch(datagrams, SelectionKey.OP_READ, key -> {
            var from = datagrams.receive(bytes.clear());
            if (from != null) {
                datagrams.send(bytes.flip(), from);
            }
        });
        Thread.sleep(Long.MAX_VALUE);
    }

    static void echo(SocketChannel channel, ByteBuffer bytes) throws IOException {
        try {
            if (channel.read(bytes.clear()) >= 0) {
                channel.write(bytes.flip());
                return;
            }
        } catch (IOException reset) {
            // The client ended.
        }
        channel.close();
    }

    /** A connection or a datagram channel that asks and checks. */
    class Flow {
        final int number;
        volatile int round;
        final ByteBuffer answer = ByteBuffer.allocate(SIZE);
        SocketChannel stream;
        DatagramChannel datagrams;
        InetSocketAddress to;

        Flow(int number) {
            this.number = number;
        }

        void begin(InetSocketAddress address) throws IOException {
            to = address;
            if (number < FLOWS) {
                stream = SocketChannel.open(address);
                stream.setOption(StandardSocketOptions.TCP_NODELAY, true);
                watch(stream, SelectionKey.OP_READ, key -> answered(stream.read(answer)));
            } else {
                datagrams = DatagramChannel.open();
                watch(datagrams, SelectionKey.OP_READ, key -> {
                    datagrams.receive(answer.clear());
                    answered(answer.position());
                });
            }
            ask();
        }

        void ask() throws IOException {
            ByteBuffer message = ByteBuffer.wrap(message(number, round));
            if (stream != null) {
                stream.write(message);
            } else {
                datagrams.send(message, to);
            }
        }

        void answered(int size) throws IOException {
            if (size < 0) {
                throw new IOException("flow " + number + " ended");
            }
            if (answer.hasRemaining()) {
                return;
            }
            boolean right = Arrays.equals(answer.array(), message(number, round));
            answer.clear();
            if (right) {
                round++;
                ask();
            } else if (stream != null) {
                throw new IOException("flow " + number + ": wrong answer");
            }
        }
    }

    /** A thread that blocks, and begins to before the socket has sent anything. */
    static class Blocking {
        final DatagramSocket socket;
        final int number;
        final InetSocketAddress to;
        volatile int round;

        Blocking(int number, InetSocketAddress to) throws IOException {
            this.number = number;
            this.to = to;
            socket = new DatagramSocket();
            Thread thread = new Thread(this::receive);
            thread.setDaemon(true);
            thread.start();
        }

        void receive() {
            DatagramPacket packet = new DatagramPacket(new byte[SIZE], SIZE);
            try {
                while (true) {
                    socket.receive(packet);
                    if (Arrays.equals(packet.getData(), message(number, round))) {
                        round++;
                        ask();
                    }
                }
            } catch (IOException error) {
                fail(error);
            }
        }

        void ask() throws IOException {
            socket.send(new DatagramPacket(message(number, round), SIZE, to));
        }
    }

    void ask(InetSocketAddress address, int seconds) throws Exception {
        Thread.sleep(50);
        List<Flow> flows = new ArrayList<>();
        List<Blocking> blocking = new ArrayList<>();
        for (int number = 0; number < 2 * FLOWS; number++) {
            flows.add(new Flow(number));
            flows.get(number).begin(address);
        }
        for (int number = 2 * FLOWS; number < 2 * FLOWS + 2; number++) {
            blocking.add(new Blocking(number, address));
            Thread.sleep(20);
            blocking.get(number - 2 * FLOWS).ask();
        }
        int[] before = new int[2 * FLOWS + 2];
        long all = 0;
        boolean is_late = true;
        for (int second = 0; second < seconds || is_late && second < seconds + PATIENCE; second++) {
            Thread.sleep(1000);
            is_late = flows.stream().anyMatch(flow -> flow.round == 0) || blocking.stream().anyMatch(one -> one.round == 0);
            // What was lost is sent again.
            for (int at = FLOWS; at < before.length; at++) {
                boolean of_selector = at < 2 * FLOWS;
                int round = of_selector ? flows.get(at).round : blocking.get(at - 2 * FLOWS).round;
                if (round == before[at] && of_selector) {
                    flows.get(at).ask();
                } else if (round == before[at]) {
                    blocking.get(at - 2 * FLOWS).ask();
                }
                before[at] = round;
            }
        }
        for (int at = 0; at < before.length; at++) {
            int round = at < 2 * FLOWS ? flows.get(at).round : blocking.get(at - 2 * FLOWS).round;
            if (round == 0) {
                throw new IOException("flow " + at + " had no answer");
            }
            all += round;
        }
        System.out.println("round trips/s " + all / seconds);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    public static void main(String[] words) throws Exception {
        InetSocketAddress address = new InetSocketAddress(words[1], Integer.parseInt(words[2]));
        LoopNio nio = new LoopNio();
        if (words[0].equals("server")) {
            nio.serve(address);
        } else {
            nio.ask(address, Integer.parseInt(words[3]));
        }
    }
}
