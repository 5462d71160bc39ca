"""A server that polls its connection, thousands of times before the client says anything; then echoes. Ends when the
two have met in memory, or after ten connections."""
import socket, subprocess, sys
if len(sys.argv) > 1:
    for _ in range(10):
        with socket.create_connection(('127.0.0.1', int(sys.argv[1]))) as client:
            sys.stdin.readline()
            for _ in range(5000):
                client.sendall(b'x')
                assert client.recv(1) == b'x'
            if 'sidestep-connection' in open('/proc/self/maps').read():
                sys.exit()
    sys.exit('none of ten connections has met its peer')
listener = socket.create_server(('127.0.0.1', 0))
words = [sys.executable, __file__, str(listener.getsockname()[1])]
client = subprocess.Popen(words, stdin=subprocess.PIPE)
while client.poll() is None:
    listener.settimeout(0.1)
    try:
        server, _ = listener.accept()
    except TimeoutError:
        continue
    server.setblocking(False)
    vain = 0
    while True:
        try:
            data = server.recv(100)
            if not data:
                break
            server.send(data)
        except BlockingIOError:
            vain += 1
            if vain == 5000:
                client.stdin.write(b'\n')
                client.stdin.flush()
    server.close()
sys.exit(client.returncode)
