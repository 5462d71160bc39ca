"""The standard library's server, a thread per connection: http_threads.py ADDRESS PORT"""

import http.server
import sys

BODY = b"hello from a script\n"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # One segment an answer, as everyone who cares for latency sets it.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def handle(self):
        try:
            super().handle()
        except ConnectionResetError:
            pass  # load generators end by closing with answers unread

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128


Server((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
