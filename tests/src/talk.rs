//! A server that echoes and a client that asks it, in Python: for tests of what happens to programs that talk, whatever
//! they are.

/// Echoes on one connection after the other. Arguments: address, port, and how: `one` process; `fork`, a child for each
/// connection; `nobody`, in a worker that gave up its user.
pub const SERVER: &str = "\
import os,signal,socket,sys
how = sys.argv[3]
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
if how == 'fork':
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if how == 'nobody':
    if os.fork():
        os.wait()
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
while True:
    peer, _ = listener.accept()
    if how == 'fork' and os.fork():
        peer.close()
        continue
    peer.settimeout(60)
    while data := peer.recv(65536):
        peer.sendall(data)
    peer.close()
    if how == 'fork':
        os._exit(0)
";

/// Questions and answers until a line comes from standard input, or so many. Arguments: address, port, at most. Says in
/// the end how many there were, the longest wait for an answer in milliseconds, and how many took more than 50.
pub const CLIENT: &str = "\
import select,socket,sys,time
host, port, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
peer = socket.create_connection((host, port), timeout=60)
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
count, longest, late = 0, 0, 0
while count < most and not select.select([sys.stdin], [], [], 0)[0]:
    for _ in range(10):
        question = b'%d.' % count * (1 + count % 50)
        asked = time.monotonic()
        peer.sendall(question)
        answer = b''
        while len(answer) < len(question):
            piece = peer.recv(65536)
            assert piece, 'the end'
            answer += piece
        waited = time.monotonic() - asked
        longest = max(longest, waited)
        late += waited > 0.05
        assert answer == question
        count += 1
peer.shutdown(socket.SHUT_WR)
assert peer.recv(1) == b''
print(count, 'answers, the longest wait', round(longest * 1000), 'ms,', late, 'longer than 50 ms')
";

/// Connects, says so after one question and answer, waits for the end, and says what it was. Arguments: address, port.
pub const WAITS: &str = "\
import socket,sys
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)
peer.sendall(b'x')
assert peer.recv(1) == b'x'
print('connected', flush=True)
try:
    print(peer.recv(1))
except ConnectionResetError:
    print('reset')
";

/// Echoes datagrams until it is told to quit; says its number and its user's when it is ready. Arguments: address,
/// port.
pub const DATAGRAM_SERVER: &str = "\
import os,socket,sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((sys.argv[1], int(sys.argv[2])))
print('ready', os.getpid(), os.getuid(), flush=True)
while True:
    data, peer = sock.recvfrom(2000)
    if data == b'quit':
        break
    sock.sendto(data, peer)
";

/// Sends a text so many times and waits for each answer, but for that to `quit`. Arguments: address, port, text,
/// times.
pub const DATAGRAM_CLIENT: &str = "\
import socket,sys
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.settimeout(60)
for i in range(int(sys.argv[4])):
    sock.sendto(sys.argv[3].encode(), (sys.argv[1], int(sys.argv[2])))
    if sys.argv[3] != 'quit':
        sock.recv(2000)
";
