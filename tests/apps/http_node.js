// Node's own HTTP server: http_node.js ADDRESS PORT
const http = require("http");
const [address, port] = process.argv.slice(2);
const body = "hello from a script\n";

http.createServer((request, response) => {
  response.writeHead(200, { "Content-Length": body.length });
  response.end(body);
}).listen(Number(port), address);
