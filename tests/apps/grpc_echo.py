"""gRPC without generated code: grpc_echo.py server ADDRESS PORT, grpc_echo.py client ADDRESS PORT SECONDS

The server answers each message with itself, from a pool of threads. The client has four channels with a thread each, of
unary calls and of streams, checks every answer, and says how many there were."""

import sys
import threading
import time
from concurrent import futures

import grpc

role, address = sys.argv[1], ":".join(sys.argv[2:4])


def serve():
    methods = {
        "Unary": grpc.unary_unary_rpc_method_handler(lambda request, context: request),
        "Stream": grpc.stream_stream_rpc_method_handler(lambda requests, context: requests),
    }
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Echo", methods),))
    assert server.add_insecure_port(address)
    server.start()
    server.wait_for_termination()


def ask(number, until, counts):
    with grpc.insecure_channel(address) as channel:
        unary, stream = channel.unary_unary("/Echo/Unary"), channel.stream_stream("/Echo/Stream")
        while time.monotonic() < until:
            sent = b"%d %d" % (number, counts[number])
            assert unary(sent, timeout=60, wait_for_ready=True) == sent
            several = [sent * size for size in (1, 10, 1000)]
            assert list(stream(iter(several), timeout=60)) == several
            counts[number] += 1


if role == "server":
    serve()
counts, until = [0] * 4, time.monotonic() + float(sys.argv[4])
threads = [threading.Thread(target=ask, args=(number, until, counts)) for number in range(len(counts))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert all(counts), counts
print("round trips/s", sum(counts) * 2 / float(sys.argv[4]))
