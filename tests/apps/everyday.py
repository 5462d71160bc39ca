"""What Python programs do every day with sockets and processes; prints the same on every run."""

import asyncio
import multiprocessing
import os
import select
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading


def sockets():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        with client, server:
            client.settimeout(5)
            payload = bytes(range(256)) * 4096
            sender = threading.Thread(target=server.sendall, args=(payload,))
            sender.start()
            received = b""
            while len(received) < len(payload):
                received += client.recv(65536)
            sender.join()
            print("tcp", received == payload)
            with client.makefile("rwb") as stream:
                server.sendall(b"line\n")
                print("makefile", stream.readline())
            with tempfile.TemporaryFile() as file:
                file.write(b"f" * 100000)
                file.seek(0)
                sender = threading.Thread(target=server.sendfile, args=(file,))
                sender.start()
                size = 0
                while size < 100000:
                    size += len(client.recv(65536))
                sender.join()
                print("sendfile", size)
            print("select", select.select([client], [client], [], 0)[:2] == ([], [client]))
    a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    b = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with a, b:
        b.bind(("127.0.0.1", 0))
        a.sendto(b"datagram", b.getsockname())
        print("udp", b.recvfrom(100)[0])
        a.sendmsg([b"gather", b"ed"], [], 0, b.getsockname())
        print("udp", b.recvmsg(100)[0])
    try:
        socket.create_connection(("127.0.0.1", 1))
    except OSError as error:
        print("refused", error.errno)


def processes():
    print(subprocess.run(["echo", "spawned"], capture_output=True).stdout)
    print(subprocess.run(["sh", "-c", "exit 3"], close_fds=True).returncode)
    print(subprocess.run(["cat"], input=b"through a pipe", capture_output=True, preexec_fn=os.setsid).stdout)
    child = subprocess.Popen(["sleep", "100"])
    child.terminate()
    print("terminated", child.wait() == -signal.SIGTERM)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(abs, range(-5, 5)))
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(abs, range(-3, 0)))


async def loops():
    async def echo(reader, writer):
        while data := await reader.read(1000):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()

    async def client(number):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"%d" % number)
        writer.write_eof()
        data = await reader.read()
        writer.close()
        return int(data)

    print(sum(await asyncio.gather(*(client(number) for number in range(50)))))
    process = await asyncio.create_subprocess_exec("echo", "async", stdout=subprocess.PIPE)
    print((await process.communicate())[0])
    server.close()


def signals():
    caught = []
    signal.signal(signal.SIGALRM, lambda *_: caught.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    a, b = socket.socketpair()
    b.settimeout(0.1)
    try:
        b.recv(1)
    except TimeoutError:
        print("timeout after a signal", caught)


if __name__ == "__main__":
    sockets()
    processes()
    asyncio.run(loops())
    signals()
    sys.stdout.flush()
